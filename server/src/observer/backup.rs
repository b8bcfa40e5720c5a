//! Snapshots to take away, and to go on from.
//!
//! One of either is under way at a time. A restore is from when its snapshot is complete, so nobody waits for a peer. Files are as large
//! as the state; memory is bounded, but for the tree that a restore builds before it takes the place of the other one.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedMutexGuard;
use zoolet_proto::Zxid;
use zoolet_server_core::Tree;
use zoolet_storage::disk::{Disk, DiskFile, RealDisk};
use zoolet_storage::{SnapshotDir, SnapshotSpool, SpooledState, StorageError, StorageOptions};

use super::Observer;
use crate::durable::{SLICE, SnapshotCopy, SnapshotSource, run_on_disk};
use crate::error::SnapshotError;
use crate::shared::Shared;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// How long a snapshot waits for another one or for a restore. Who has gone meanwhile thus keeps no place for longer.
const BUSY: Duration = Duration::from_secs(10);

/// A snapshot that can be read.
#[derive(Debug)]
pub struct TakenSnapshot {
    zxid: Zxid,
    len: u64,
    disk: Arc<dyn Disk>,
    /// Taken while it is read. Absent at the end.
    file: Option<Box<dyn DiskFile>>,
    at: u64,
}

/// A snapshot that arrives, to go on from. Nothing happens until [`finish`](Self::finish); dropping it before forgets it.
pub struct StateRestore {
    observer: Observer,
    disk: Arc<dyn Disk>,
    /// Taken while it is written to.
    spool: Option<SnapshotSpool>,
}

/// Why the state was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The snapshot is not one, or not whole, or has no place on this server. Nothing has changed.
    #[error("the snapshot is refused: {0}")]
    Refused(String),
    /// The snapshot could not be kept until it was complete. Nothing has changed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The server has stopped. It goes on with either state when it is started again.
    #[error("the server has stopped")]
    Stopped,
}

impl Observer {
    /// Writes a snapshot, as [`Server::snapshot`](crate::Server::snapshot), and opens it. A server in memory has no place for one: it is
    /// written into `spool` then, an empty directory of the caller's that nobody else should be able to read, which may be removed
    /// when this returns on a system that keeps open files.
    ///
    /// # Errors
    /// As `Server::snapshot`, but for servers in memory; [`SnapshotError::Busy`].
    /// # Cancel safety
    /// The snapshot may be written even if the future is dropped; the next one waits for that.
    pub async fn take_snapshot(&self, spool: &Path) -> Result<TakenSnapshot, SnapshotError> {
        let shared = self.shared().ok_or(SnapshotError::Stopped)?;
        let permit = shared.clock.timeout(BUSY, Arc::clone(&shared.backup).lock_owned()).await;
        let permit = permit.map_err(|_| SnapshotError::Busy)?;
        let storage = |error| SnapshotError::Storage(Arc::new(error));
        let (disk, dir, zxid, _permit) = match shared.log_and_disk() {
            Some((log, disk)) => {
                let zxid = log.snapshot().await?;
                let dir = SnapshotDir::new(Arc::clone(&disk), &log.options);
                (disk, dir, zxid, permit)
            }
            None => {
                let disk: Arc<dyn Disk> = Arc::new(RealDisk);
                let mut options = StorageOptions::new(spool);
                options.last_zxid_section = true;
                let dir = SnapshotDir::new(Arc::clone(&disk), &options);
                disk.create_dir(dir.path())
                    .map_err(StorageError::io("create", dir.path()))
                    .map_err(storage)?;
                let (shared, target) = (Arc::clone(&shared), dir.clone());
                // The permit goes with the work, which goes on if this future is dropped: a second walk would take over the first one's.
                let work = move || (write(&shared, &target), permit);
                let (written, permit) = run_on_disk(&*disk, work).await;
                (disk, dir, written.map_err(storage)?.ok_or(SnapshotError::Stopped)?, permit)
            }
        };
        let opens = Arc::clone(&disk);
        let opened = run_on_disk(&*disk, move || open(&*opens, &dir, zxid)).await;
        let (file, len) = opened.map_err(storage)?;
        Ok(TakenSnapshot { zxid, len, disk, file: Some(file), at: 0 })
    }

    /// Begins to take a snapshot that this server is to go on from. It is kept in the data directory until it is complete; for a server
    /// in memory in `spool`, as for [`take_snapshot`](Self::take_snapshot), which must stay until the restore has finished.
    ///
    /// # Errors
    /// If the server has stopped, or no file can be created.
    pub async fn begin_restore(&self, spool: &Path) -> Result<StateRestore, RestoreError> {
        let shared = self.shared().ok_or(RestoreError::Stopped)?;
        if shared.replicas > 1 {
            return Err(RestoreError::Refused("an ensemble cannot be restored".to_owned()));
        }
        let (disk, dir) = match shared.log_and_disk() {
            Some((log, disk)) => (disk, log.options.snapshot_dir()),
            None => (Arc::new(RealDisk) as Arc<dyn Disk>, spool.to_owned()),
        };
        let creates = Arc::clone(&disk);
        let created = run_on_disk(&*disk, move || SnapshotSpool::create(creates, &dir)).await?;
        Ok(StateRestore { observer: self.clone(), disk, spool: Some(created) })
    }
}

impl TakenSnapshot {
    /// The last transaction in it.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn read(&mut self) -> io::Result<Option<Bytes>> {
        let Some(file) = self.file.take() else { return Ok(None) };
        let (at, left) = (self.at, self.len - self.at);
        let read = move || {
            let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
            let read = file.read_at(&mut piece, at);
            (file, read.map(|read| piece[..read].to_vec()))
        };
        let (file, piece) = run_on_disk(&*self.disk, read).await;
        let piece = piece?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += piece.len() as u64;
        self.file = Some(file).filter(|_| self.at < self.len);
        Ok(Some(piece.into()))
    }
}

impl StateRestore {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// If they cannot be written. Nothing more is taken then.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), RestoreError> {
        let Some(mut spool) = self.spool.take() else { return Err(lost()) };
        let write = move || spool.write(&bytes).map(|()| spool);
        self.spool = Some(run_on_disk(&*self.disk, write).await?);
        Ok(())
    }

    /// Goes on from the snapshot, which is complete. Returns the zxid that it says to have; the server counts on from the greater of that
    /// and its own.
    ///
    /// All connections are closed. Sessions stay, and clients come back in them: each one-shot watch that they set again fires, as what
    /// it is about may have become older, but for one that waits for a znode which does not exist. Ephemerals of sessions that neither this
    /// server nor the snapshot knows are deleted.
    ///
    /// With a data directory, no client sees anything of the new state before a snapshot of it is durable. A crash at any moment leaves
    /// the old state or the new one.
    ///
    /// # Errors
    /// [`RestoreError::Refused`] if it is not a whole snapshot: nothing has changed. [`RestoreError::Stopped`] if the server has stopped,
    /// which it also does if the disk fails while the new state is made durable.
    /// # Cancel safety
    /// The state is restored or not. Once it is, nothing is undone.
    pub async fn finish(mut self) -> Result<Zxid, RestoreError> {
        let spool = self.spool.take().ok_or_else(lost)?;
        let shared = self.observer.shared().ok_or(RestoreError::Stopped)?;
        // Without a limit: what was sent would be lost, and all that is waited for is this server's own work.
        let permit = Arc::clone(&shared.backup).lock_owned().await;
        let digests = shared.log.as_ref().is_some_and(|log| log.options.digests);
        // The permit goes with the work, which goes on if this future is dropped: only one tree more is in memory.
        let load = move || spool.load(digests).map(|state| (state, spool, permit));
        let (state, spool, permit) = run_on_disk(&*self.disk, load).await.map_err(|error| match error {
            StorageError::Damaged(damage) => RestoreError::Refused(damage.reason),
            error => RestoreError::Storage(error),
        })?;
        let zxid = state.zxid;
        let former = restore(&shared, state, spool, permit)?;
        // It may have millions of znodes.
        run_on_disk(&*self.disk, move || drop(former)).await;
        if shared.is_durable().await { Ok(zxid) } else { Err(RestoreError::Stopped) }
    }
}

/// Replaces the state, in a turn. Returns the former tree.
fn restore(
    shared: &Shared,
    state: SpooledState,
    spool: SnapshotSpool,
    permit: OwnedMutexGuard<()>,
) -> Result<Tree, RestoreError> {
    let keeps_epoch = shared.log.as_ref().is_some_and(|log| log.keeps_epoch);
    let shows = state.shows;
    let restored = shared.turns.act(|engine, now| {
        let own = engine.bus.core().tree().last_zxid();
        if keeps_epoch && shows > own && shows.0 >> 32 != own.0 >> 32 {
            let reason =
                format!("it has zxids up to {shows}, of a later epoch than this member of an ensemble");
            return Err(RestoreError::Refused(reason));
        }
        Ok(engine.bus.restore(now, state, spool, permit))
    });
    restored.ok_or(RestoreError::Stopped)?
}

fn lost() -> RestoreError {
    RestoreError::Refused("an earlier piece could not be written".to_owned())
}

/// Writes a snapshot of a server in memory, whose tree keeps no digest. `None` if the server has stopped.
fn write(shared: &Shared, dir: &SnapshotDir) -> Result<Option<Zxid>, StorageError> {
    let source: &dyn SnapshotSource = &*shared.engine;
    let Some((mut header, sessions)) = source.begin(Box::new(|| {})) else { return Ok(None) };
    let _copy = SnapshotCopy(source);
    let zxid = header.zxid;
    header.digest = None;
    let mut writer = dir.begin(header, &sessions)?;
    let (mut digest, mut slice, mut more) = (0_u64, Vec::with_capacity(SLICE), Some(true));
    while more == Some(true) {
        more = source.slice(&mut |record| slice.push(record));
        for record in slice.drain(..) {
            digest = digest.wrapping_add(record.digest());
            writer.add(&record)?;
        }
        if shared.stop.is_cancelled() {
            return Ok(None);
        }
    }
    // The section of the digest follows the znodes.
    writer.set_digest(digest);
    writer.finish()?;
    Ok(Some(zxid))
}

/// Opens the snapshot of a zxid.
fn open(disk: &dyn Disk, dir: &SnapshotDir, zxid: Zxid) -> Result<(Box<dyn DiskFile>, u64), StorageError> {
    let io = |action| StorageError::io(action, dir.path());
    let files = dir.list()?;
    let file = files.iter().find(|file| file.zxid == zxid);
    let file = file.ok_or_else(|| io("find the snapshot in")(io::ErrorKind::NotFound.into()))?;
    let opened = disk.open(&file.path).map_err(io("open the snapshot in"))?;
    let len = opened.len().map_err(io("read the snapshot in"))?;
    Ok((opened, len))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tokio::task::spawn_blocking;
    use tokio::time::timeout;
    use zoolet_simdisk::SimulatedDisk;
    use zoolet_test_support::at_once;

    use super::*;
    use crate::Server;
    use crate::extension::with_disk;

    /// Whether somebody may take a snapshot or restore one.
    fn is_free(server: &Server) -> bool {
        server.shared.backup.try_lock().is_ok()
    }

    /// Begins to do something of a server in memory, and drops it while its work waits for a thread.
    async fn drop_at_work<T>(server: &Server, begun: impl Future<Output = T>) {
        let (go_on, blocked) = mpsc::channel::<()>();
        let only_thread = spawn_blocking(move || blocked.recv());
        assert!(at_once(begun).await.is_none(), "it has no thread");
        assert!(!is_free(server), "its work has not ended");
        go_on.send(()).expect("a thread");
        let _ = only_thread.await;
        drop(server.shared.backup.lock().await);
    }

    #[test]
    fn nobody_takes_or_restores_a_snapshot_before_the_work_of_a_dropped_call_has_ended() {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        runtime.expect("a runtime").block_on(async {
            let server = Server::builder().start().await.expect("a server");
            let (observer, dir) = (server.observer(), std::env::temp_dir());
            let dir = dir.join(format!("zoolet-backup-{}", std::process::id()));
            drop_at_work(&server, observer.take_snapshot(&dir)).await;
            let taken = observer.take_snapshot(&dir).await.expect("a snapshot");
            assert!(is_free(&server), "it is on disk");
            let restore = observer.begin_restore(&dir).await.expect("a file");
            drop_at_work(&server, restore.finish()).await;
            drop(taken);
            std::fs::remove_dir_all(dir).expect("a directory");
        });
    }

    #[tokio::test(start_paused = true)]
    async fn snapshots_that_arrive_keep_neither_another_one_nor_those_that_are_taken_waiting() {
        let settings = with_disk(Server::builder().data_dir("/data"), Arc::new(SimulatedDisk::new(1)));
        let server = settings.start().await.expect("a server");
        let (observer, nowhere) = (server.observer(), Path::new("/nowhere"));
        let mut slow = observer.begin_restore(nowhere).await.expect("a file");
        slow.write(Bytes::from("ZK")).await.expect("a place for it");
        let mut taken = observer.take_snapshot(nowhere).await.expect("a snapshot");
        let mut restore =
            timeout(BUSY, observer.begin_restore(nowhere)).await.expect("at once").expect("a file");
        while let Some(piece) = taken.read().await.expect("a piece") {
            restore.write(piece).await.expect("a place for it");
        }
        restore.finish().await.expect("a whole snapshot");
        slow.write(Bytes::from("SN")).await.expect("a place for it");
        let refused = slow.finish().await.expect_err("a part");
        assert!(matches!(refused, RestoreError::Refused(_)), "{refused:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_a_snapshot_learns_after_ten_seconds_that_another_one_is_under_way() {
        let server = Server::builder().start().await.expect("a server");
        let _permit = server.shared.backup.lock().await;
        let begun = tokio::time::Instant::now();
        let asked = timeout(2 * BUSY, server.observer().take_snapshot(Path::new("/nowhere"))).await;
        let refused = asked.expect("an answer").expect_err("no snapshot");
        assert!(matches!(refused, SnapshotError::Busy), "{refused:?}");
        assert_eq!(begun.elapsed(), BUSY);
    }

    #[tokio::test]
    async fn the_next_restore_waits_until_the_log_has_the_one_that_was_dropped() {
        let settings = with_disk(Server::builder().data_dir("/data"), Arc::new(SimulatedDisk::new(1)));
        let server = settings.start().await.expect("a server");
        let (observer, nowhere) = (server.observer(), Path::new("/nowhere"));
        let mut taken = observer.take_snapshot(nowhere).await.expect("a snapshot");
        let mut restore = observer.begin_restore(nowhere).await.expect("a file");
        while let Some(piece) = taken.read().await.expect("a piece") {
            restore.write(piece).await.expect("a place for it");
        }
        let mut finishes = Box::pin(restore.finish());
        let queue = &server.shared.log.as_ref().expect("a log").queue;
        while queue.restores() == 0 {
            assert!(at_once(finishes.as_mut()).await.is_none(), "the log has not run");
        }
        drop(finishes);
        assert!(!is_free(&server), "the log has yet to read the file");
        drop(server.shared.backup.lock().await);
    }
}
