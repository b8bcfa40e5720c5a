//! From the settings of a data directory to a running log.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zoolet_clock::Clock;
use zoolet_server_core::{Core, CoreConfig, Millis};
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::{Recovered, RecoveryReport, Storage, StorageError, StorageOptions};

use crate::durable::gate::Gate;
use crate::durable::log::{Log, LogSettings};
use crate::durable::queue::CommitQueue;
use crate::engine::Engine;

/// Where and how a server keeps its state.
#[derive(Debug, Clone)]
pub(crate) struct DurableConfig {
    pub(crate) options: StorageOptions,
    pub(crate) disk: Arc<dyn Disk>,
    /// A sync that takes longer is worth a warning.
    pub(crate) slow_sync: Duration,
}

/// A data directory that is loaded.
pub(crate) struct Opened {
    storage: Storage,
    recovered: Recovered,
    config: DurableConfig,
}

/// A log that is ready to start.
pub(crate) struct ReadyLog {
    storage: Storage,
    pub(crate) queue: Arc<CommitQueue>,
    config: DurableConfig,
    report: RecoveryReport,
}

/// A running log.
pub(crate) struct LogHandle {
    pub(crate) queue: Arc<CommitQueue>,
    /// Cancelled when it has ended and its files are closed.
    pub(crate) ended: CancellationToken,
    /// What was found when the directory was loaded.
    pub(crate) report: RecoveryReport,
}

impl DurableConfig {
    pub(crate) fn new(options: StorageOptions) -> Self {
        Self { options, disk: Arc::new(RealDisk), slow_sync: Duration::from_secs(1) }
    }

    /// Loads the directory; from a real disk on a thread that may block.
    pub(crate) async fn open(self) -> Result<Opened, StorageError> {
        let loaded = if self.disk.as_simulated().is_some() {
            self.load()
        } else {
            let config = self.clone();
            match spawn_blocking(move || config.load()).await {
                Ok(loaded) => loaded,
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        };
        let (storage, recovered) = loaded?;
        Ok(Opened { storage, recovered, config: self })
    }

    pub(crate) fn load(&self) -> Result<(Storage, Recovered), StorageError> {
        zoolet_storage::open(Arc::clone(&self.disk), self.options.clone())
    }
}

/// The state machine that goes on where a directory ends.
pub(crate) fn restore(mut core: CoreConfig, recovered: Recovered, now: Millis) -> Core {
    let Recovered { tree, sessions, highest_session, .. } = recovered;
    core.logged = true;
    core.initial_zxid = tree.last_zxid();
    Core::restore(core, tree, sessions, highest_session, now)
}

impl Opened {
    /// Makes the state machine that goes on where the directory ends.
    pub(crate) fn restore(self, core: CoreConfig, now: Millis) -> (Core, ReadyLog) {
        let Self { storage, recovered, config } = self;
        let queue = Arc::new(CommitQueue::new(recovered.tree.last_zxid()));
        let report = recovered.report.clone();
        (restore(core, recovered, now), ReadyLog { storage, queue, config, report })
    }
}

impl ReadyLog {
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(Arc::clone(&self.queue), self.config.clone())
    }

    pub(crate) fn start(
        self,
        engine: &Arc<Mutex<Engine>>,
        clock: &Clock,
        stop: &CancellationToken,
        span: &Span,
    ) -> Result<LogHandle, StorageError> {
        let Self { storage, queue, config, report } = self;
        let settings = LogSettings {
            slow_sync: config.slow_sync,
            retain: config.options.retain,
            clock: clock.clone(),
            stop: stop.clone(),
            span: span.clone(),
        };
        let log = Log::new(storage, Arc::clone(&queue), Arc::clone(engine), settings);
        let fail = |source| StorageError::Io {
            action: "start the thread that writes",
            path: config.options.data_dir.clone(),
            source,
        };
        let ended = log.start().map_err(fail)?;
        Ok(LogHandle { queue, ended, report })
    }
}
