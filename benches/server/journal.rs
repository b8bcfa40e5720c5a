//! The limit of the disk: a file to which a bare server appends its requests before it answers them.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::disk::reserve;

/// By how much the file grows, as our server's log does.
const STEP: u64 = 64 << 20;

/// A file that all connections append to. Clones share it.
#[derive(Clone)]
pub(crate) enum Journal {
    /// A connection that appends something syncs as well.
    InPlace(Arc<Mutex<Pages>>),
    /// A thread of its own does, as no sync may hold up the connections.
    Thread(Sender<Change>),
}

/// Bytes to append, and who waits for that.
pub(crate) struct Change {
    bytes: Vec<u8>,
    done: oneshot::Sender<()>,
}

pub(crate) struct Pages {
    file: File,
    reserved: u64,
    /// How many bytes are on disk.
    synced: u64,
    /// What follows them.
    pending: Vec<u8>,
}

impl Journal {
    pub(crate) fn create(path: &Path, on_thread: bool) -> io::Result<Self> {
        let pages = Pages { file: File::create(path)?, reserved: 0, synced: 0, pending: Vec::new() };
        if !on_thread {
            return Ok(Self::InPlace(Arc::new(Mutex::new(pages))));
        }
        let (changes, waiting) = mpsc::channel();
        thread::Builder::new().spawn(move || pages.follow(&waiting))?;
        Ok(Self::Thread(changes))
    }

    /// Returns when the bytes are on disk. Connections that have something to append at the same time share the sync.
    pub(crate) async fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let pages = match self {
            Self::InPlace(pages) => pages,
            Self::Thread(changes) => {
                let (done, synced) = oneshot::channel();
                changes.send(Change { bytes: bytes.to_vec(), done }).map_err(io::Error::other)?;
                return synced.await.map_err(io::Error::other);
            }
        };
        let locked = || pages.lock().unwrap_or_else(PoisonError::into_inner);
        let end = {
            let mut pages = locked();
            pages.pending.extend_from_slice(bytes);
            pages.synced + pages.pending.len() as u64
        };
        // Other connections whose requests have arrived run first.
        tokio::task::yield_now().await;
        let mut pages = locked();
        if pages.synced < end { pages.sync() } else { Ok(()) }
    }
}

impl Pages {
    /// Appends what comes, and syncs once for all that has come meanwhile. Ends with its first error.
    fn follow(mut self, waiting: &Receiver<Change>) {
        while let Ok(first) = waiting.recv() {
            let changes: Vec<_> = [first].into_iter().chain(waiting.try_iter()).collect();
            changes.iter().for_each(|change| self.pending.extend_from_slice(&change.bytes));
            if self.sync().is_err() {
                return;
            }
            for change in changes {
                // Its connection may be gone.
                let _ = change.done.send(());
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let end = self.synced + self.pending.len() as u64;
        while end > self.reserved {
            self.reserved += STEP;
            reserve(&self.file, self.reserved)?;
        }
        self.file.write_all(&self.pending)?;
        self.file.sync_data()?;
        self.synced = end;
        self.pending.clear();
        Ok(())
    }
}
