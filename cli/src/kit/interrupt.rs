//! Commands that a signal ends, and what they clean up before.

use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_conformance::RunError;

use crate::failure::Failure;
use crate::kit::KitFailure;
use crate::output::warn;
use crate::runtime;
use crate::signals::Signals;

/// How long a command may take for what it does after a signal, beside its cleanup.
const GRACE: Duration = Duration::from_secs(2);

/// Ends what a command does when SIGINT or SIGTERM comes.
pub(crate) struct Interrupt {
    signals: Signals,
    /// How long a cleanup may take after a signal.
    cleanup: Duration,
}

impl Interrupt {
    /// Listens for signals. After the first one a cleanup may take so long; the second one ends the process.
    pub(crate) fn listen(cleanup: Duration) -> Result<Self, Failure> {
        let signals = Signals::listen()?;
        // A write to a terminal or pipe that nobody reads blocks the thread of the runtime, which then sees no signal.
        let watching = thread::Builder::new().spawn(move || last_resort(cleanup + GRACE));
        watching.map_err(|source| Failure::System { action: "watch for signals", source })?;
        Ok(Self { signals, cleanup })
    }

    /// Does something until a signal interrupts it.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            outcome = work => outcome,
            code = self.signals.next() => Err(KitFailure::Interrupted { code }.into()),
        }
    }

    /// Does something until a signal interrupts it, and cleans up in either case. Reports what is left. Work that succeeded but left
    /// something that is not locked has failed.
    pub(crate) async fn then_clean_up(
        mut self,
        work: impl Future<Output = Result<ExitCode, Failure>>,
        clean_up: impl Future<Output = Vec<RunError>>,
    ) -> Result<ExitCode, Failure> {
        let outcome = self.during(work).await;
        let time = match &outcome {
            Err(Failure::Kit(KitFailure::Interrupted { .. })) => self.cleanup,
            _ => Duration::MAX,
        };
        let left = tokio::select! {
            left = timeout(time, clean_up) => left.map_err(|_| "there was no time to remove what was created"),
            _ = self.signals.next() => Err("what was created was not removed"),
        };
        let (left, is_wrong) = match left {
            Ok(left) => (
                left.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
                left.iter().any(|error| !error.is_locked()),
            ),
            Err(what) => (what.to_owned(), true),
        };
        match outcome {
            outcome if left.is_empty() => outcome,
            Ok(code) if code == ExitCode::SUCCESS && is_wrong => {
                Err(KitFailure::NotCleanedUp { left }.into())
            }
            Ok(code) => {
                warn(&left);
                Ok(code)
            }
            Err(cause) => Err(KitFailure::LeftBehind { cause: Box::new(cause), left }.into()),
        }
    }
}

/// Ends the process if it has not done so by itself in this time after a signal, or after a second one.
fn last_resort(time: Duration) {
    // Without a runtime or signals, there is only the usual way.
    let _ = runtime::run::<()>(async {
        let mut signals = Signals::listen()?;
        let code = signals.next().await;
        tokio::select! {
            () = sleep(time) => {}
            _ = signals.next() => sleep(GRACE).await,
        }
        process::exit(code.into())
    });
}
