//! The signals that end the process, and the one that makes it reload.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Waits for SIGINT and SIGTERM. Once it exists, they no longer kill the process.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            interrupt: listen(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal and returns the exit code of a process that this signal kills.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 128 + 2,
            _ = self.terminate.recv() => 128 + 15,
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> u8 {
        // If the signal is not available, only killing the process stops the server.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        128 + 2
    }
}

/// Waits for SIGHUP. Once it exists, that no longer kills the process.
pub(crate) struct ReloadSignals {
    #[cfg(unix)]
    hangup: Signal,
}

impl ReloadSignals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {
            #[cfg(unix)]
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. Several that come meanwhile are one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if self.hangup.recv().await.is_some() {
            return;
        }
        std::future::pending().await
    }
}

#[cfg(unix)]
fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|source| Failure::System { action: "listen for signals", source })
}
