//! The limit of the disk: a file to which a bare server appends its requests before it answers them.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::reserve;

/// By how much the file grows, as our server's log does.
const STEP: u64 = 64 << 20;

/// A file that all connections append to. Clones share it.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Pages>>);

struct Pages {
    file: File,
    reserved: u64,
    /// How many bytes are on disk.
    synced: u64,
    /// What follows them.
    pending: Vec<u8>,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let pages = Pages { file: File::create(path)?, reserved: 0, synced: 0, pending: Vec::new() };
        Ok(Self(Arc::new(Mutex::new(pages))))
    }

    /// Returns when the bytes are on disk. Connections that have something to append at the same time share the sync.
    pub(crate) async fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = self.with(|pages| {
            pages.pending.extend_from_slice(bytes);
            pages.synced + pages.pending.len() as u64
        });
        // Other connections whose requests have arrived run first.
        tokio::task::yield_now().await;
        self.with(|pages| if pages.synced < end { pages.sync() } else { Ok(()) })
    }

    fn with<T>(&self, action: impl FnOnce(&mut Pages) -> T) -> T {
        action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pages {
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
