//! From the settings of a data directory to a running log.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zoolet_clock::Clock;
use zoolet_proto::Zxid;
use zoolet_server_core::{Core, CoreConfig, Millis};
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::{Recovered, RecoveryReport, Storage, StorageError, StorageOptions};

use crate::durable::disk_thread;
use crate::durable::gate::DurabilityGate;
use crate::durable::log::{Log, LogSettings};
use crate::durable::queue::{CommitQueue, Work};
use crate::durable::snapshot::SnapshotSource;
use crate::error::SnapshotError;

/// How long a directory that is in use is tried at least, and the pause between two attempts.
const LEAST_TIMEOUT: Duration = Duration::from_millis(500);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Where and how a server keeps its state.
#[derive(Debug, Clone)]
pub(crate) struct DurableConfig {
    pub(crate) options: StorageOptions,
    pub(crate) disk: Arc<dyn Disk>,
}

/// The log of a directory that is loaded, ready to start.
pub(crate) struct ReadyLog {
    storage: Storage,
    work: mpsc::UnboundedReceiver<Work>,
    config: DurableConfig,
    pub(crate) handle: LogHandle,
}

/// What others need of a log.
pub(crate) struct LogHandle {
    pub(crate) queue: Arc<CommitQueue>,
    /// Cancelled when it has ended and its files are closed.
    pub(crate) ended: CancellationToken,
    pub(crate) options: StorageOptions,
    /// Whether zxids must stay in their epoch.
    pub(crate) keeps_epoch: bool,
    /// What was found when the directory was loaded.
    pub(crate) report: RecoveryReport,
    /// How long that took.
    pub(crate) load_time: Duration,
}

impl DurableConfig {
    pub(crate) fn new(options: StorageOptions) -> Self {
        Self { options, disk: Arc::new(RealDisk) }
    }

    /// Makes the entries of the log as long as what follows from a request can be.
    pub(crate) fn with_max_frame(mut self, max_frame: usize) -> Self {
        self.options.max_entry = self.options.max_entry.max(max_frame.saturating_mul(2));
        self
    }

    /// Loads the directory.
    ///
    /// A server on it that was dropped may still be closing its files, at worst after the sync that is under way and that of what was
    /// submitted meanwhile. So a directory in use is tried again for twice as long as a sync may take without a warning.
    pub(crate) async fn open(self) -> Result<(ReadyLog, Recovered), StorageError> {
        let timeout = self.options.slow_sync.saturating_mul(2).max(LEAST_TIMEOUT);
        let attempts = timeout.as_millis() / BETWEEN_ATTEMPTS.as_millis();
        let mut attempt = 1;
        let begun = Instant::now();
        loop {
            let config = self.clone();
            let load = move || {
                if attempt > 1 && config.disk.blocks() {
                    thread::sleep(BETWEEN_ATTEMPTS);
                }
                config.load()
            };
            match disk_thread::run(&*self.disk, load).await {
                Err(StorageError::InUse(_)) if attempt < attempts => attempt += 1,
                loaded => {
                    let (storage, recovered) = loaded?;
                    let (queue, work) = CommitQueue::new(recovered.tree.last_zxid());
                    let handle = LogHandle {
                        queue,
                        ended: CancellationToken::new(),
                        options: self.options.clone(),
                        keeps_epoch: storage.keeps_epoch(),
                        report: recovered.report.clone(),
                        load_time: begun.elapsed(),
                    };
                    return Ok((ReadyLog { storage, work, config: self, handle }, recovered));
                }
            }
        }
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

impl ReadyLog {
    pub(crate) fn gate(&self) -> DurabilityGate {
        DurabilityGate::new(Arc::clone(&self.handle.queue), self.config.clone())
    }

    pub(crate) fn start(
        self,
        source: Arc<dyn SnapshotSource>,
        clock: &Clock,
        stop: &CancellationToken,
        span: &Span,
    ) -> Result<LogHandle, StorageError> {
        let Self { storage, work, config, handle } = self;
        let LogHandle { queue, ended, report, .. } = &handle;
        let settings = LogSettings {
            slow_sync: config.options.slow_sync,
            retain: config.options.retain,
            clock: clock.clone(),
            stop: stop.clone(),
            span: span.clone(),
        };
        let (zxid, time) = loaded_snapshot(report, &*config.disk, clock);
        queue.note_snapshot(zxid, time);
        let log = Log::new(storage, (Arc::clone(queue), work), source, settings);
        log.start(ended)
            .map_err(StorageError::io("start the thread that writes", &config.options.data_dir))?;
        Ok(handle)
    }
}

/// The zxid of the snapshot that a server has loaded, or has just written as the first one; and when it was written, in seconds since
/// 1970. If the disk does not know, as a simulated one, this is the time of the start.
fn loaded_snapshot(report: &RecoveryReport, disk: &dyn Disk, clock: &Clock) -> (Zxid, i64) {
    let now = clock.wall_millis() / 1_000;
    let Some((path, zxid)) = &report.snapshot else { return (Zxid(0), now) };
    let since = disk.modified(path).and_then(|written| written.duration_since(SystemTime::UNIX_EPOCH).ok());
    (*zxid, since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(now))
}

/// The two directories of a server, and the lengths of all files in them, with the room that is reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectorySizes {
    /// Where the snapshots are.
    pub data: String,
    /// Where the log is.
    pub log: String,
    /// Bytes of the files there.
    pub data_size: u64,
    /// Bytes of the files there.
    pub log_size: u64,
}

impl LogHandle {
    /// Writes a snapshot, unless the newest one shows everything. Returns its zxid once it is durable.
    pub(crate) async fn snapshot(&self) -> Result<Zxid, SnapshotError> {
        let (request, outcome) = oneshot::channel();
        self.queue.send(Work::Snapshot(request));
        outcome.await.map_err(|_| SnapshotError::Stopped)?.map_err(SnapshotError::Storage)
    }

    pub(crate) async fn dirs(&self, disk: Arc<dyn Disk>) -> DirectorySizes {
        let (on, options) = (Arc::clone(&disk), self.options.clone());
        let look = move || {
            let (data, log) = (options.snapshot_dir(), options.log_file_dir());
            let size = |dir: &Path| {
                let entries = on.list(dir).unwrap_or_default();
                entries.iter().map(|entry| entry.len).sum()
            };
            DirectorySizes {
                data_size: size(&data),
                log_size: size(&log),
                data: data.display().to_string(),
                log: log.display().to_string(),
            }
        };
        disk_thread::run(&*disk, look).await
    }
}

#[cfg(test)]
mod tests {
    use zoolet_simdisk::SimulatedDisk;

    use super::*;

    #[test]
    fn a_snapshot_of_a_simulated_disk_does_not_have_the_time_of_a_real_file_of_that_name() {
        let mut report = RecoveryReport::default();
        report.snapshot = Some((concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into(), Zxid(1)));
        let clock = Clock::manual();
        let now = clock.wall_millis() / 1_000;
        assert_eq!(loaded_snapshot(&report, &SimulatedDisk::new(1), &clock), (Zxid(1), now));
        assert_ne!(loaded_snapshot(&report, &RealDisk, &clock).1, now);
    }

    /// An entry has more than its request: each `auth` of an ACL becomes the identities of the client, and a path its owner.
    #[test]
    fn an_entry_of_the_log_may_be_twice_as_long_as_a_request() {
        let default = DurableConfig::new(StorageOptions::new("/data")).options.max_entry;
        let max_entry = |max_frame| {
            let config = DurableConfig::new(StorageOptions::new("/data"));
            config.with_max_frame(max_frame).options.max_entry
        };
        assert_eq!(max_entry(4 << 20), 8 << 20);
        assert_eq!(max_entry(16), default, "never less than servers read");
        assert_eq!(max_entry(usize::MAX), usize::MAX);
    }
}
