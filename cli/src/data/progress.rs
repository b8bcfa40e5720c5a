//! A progress bar for what takes longer than a second: how much of the current file is read or written.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zoolet_storage::disk::{DirLock, Disk, DiskEntry, DiskFile};

/// What takes less is over before a bar would help.
const PATIENCE: Duration = Duration::from_secs(1);

/// A progress bar on stderr, if that is a terminal.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<State>);

#[derive(Debug)]
struct State {
    bar: ProgressBar,
    since: Instant,
    /// Whether the bar may be shown, and is not yet.
    waits: AtomicBool,
}

impl Progress {
    /// A bar that is never shown while lines are printed to the same terminal.
    pub(crate) fn beside_lines() -> Self {
        Self::new(!io::stdout().is_terminal())
    }

    pub(crate) fn start() -> Self {
        Self::new(true)
    }

    fn new(may_show: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}")
        {
            bar.set_style(style);
        }
        let may_show = may_show && io::stderr().is_terminal();
        Self(Arc::new(State { bar, since: Instant::now(), waits: AtomicBool::new(may_show) }))
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.waits.store(false, Ordering::Relaxed);
        self.0.bar.finish_and_clear();
    }

    /// Begins a file.
    fn file(&self, action: &str, path: &Path, len: u64) {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        self.0.bar.set_message(format!("{action} {name}"));
        self.0.bar.set_length(len);
        self.at(0);
    }

    /// Notes how far the file is read or written.
    fn at(&self, offset: u64) {
        let state = &self.0;
        if state.bar.length().is_some_and(|len| len < offset) {
            state.bar.set_length(offset);
        }
        state.bar.set_position(offset);
        if state.since.elapsed() >= PATIENCE && state.waits.swap(false, Ordering::Relaxed) {
            state.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// A disk whose reads and writes move a progress bar.
#[derive(Debug)]
pub(crate) struct WatchedDisk<D> {
    disk: D,
    progress: Progress,
}

impl<D: Disk> WatchedDisk<D> {
    pub(crate) fn new(disk: D, progress: Progress) -> Self {
        Self { disk, progress }
    }

    fn watched(&self, action: &str, path: &Path, file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
        self.progress.file(action, path, file.len()?);
        Ok(Box::new(WatchedFile { file, progress: self.progress.clone() }))
    }
}

impl<D: Disk> Disk for WatchedDisk<D> {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.watched("reading", path, self.disk.open(path)?)
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.watched("writing", path, self.disk.open_to_write(path)?)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.watched("writing", path, self.disk.create(path)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        self.disk.lock(dir)
    }
}

struct WatchedFile {
    file: Box<dyn DiskFile>,
    progress: Progress,
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl DiskFile for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        self.progress.at(offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX)));
        Ok(read)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)?;
        self.progress.at(offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        self.file.reserve(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
