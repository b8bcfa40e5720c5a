//! What the disk itself can do: reserved space, files that are not in memory, syncs and reads.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::load::Latencies;

/// The length of a log entry of the load, about.
const ENTRY: usize = 200;
/// How much is read at once.
const CHUNK: usize = 1 << 20;

/// Makes a file so long, with space of its own.
#[cfg(target_os = "linux")]
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len)?)
}

/// Makes a file so long.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)
}

/// Removes the files of a directory from the page cache, so that they are read from the disk.
#[cfg(target_os = "linux")]
pub(crate) fn evict(dir: &Path) -> io::Result<()> {
    for path in files(dir)? {
        let file = File::open(path)?;
        // Only what is on disk can be removed.
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Files cannot be removed from the page cache here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn evict(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads all files of a directory, and returns how many bytes they have.
pub(crate) fn read_all(dir: &Path) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    for path in files(dir)? {
        let mut file = File::open(path)?;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => total += read as u64,
            }
        }
    }
    Ok(total)
}

/// Copies the files of a directory to a new one.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for path in files(from)? {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        fs::copy(&path, to.join(name))?;
        // Otherwise it would be written while something is measured.
        File::open(to.join(name))?.sync_all()?;
    }
    Ok(())
}

/// The time of a write and an `fdatasync`, one after the other.
pub(crate) fn syncs(dir: &Path, time: Duration) -> io::Result<Latencies> {
    const SPACE: u64 = 64 << 20;
    let path = dir.join("syncs");
    let mut file = File::create(&path)?;
    reserve(&file, SPACE)?;
    file.sync_all()?;
    let mut latencies = Latencies::new();
    let end = Instant::now() + time;
    let mut at = 0;
    while Instant::now() < end && at + (ENTRY as u64) < SPACE {
        let began = Instant::now();
        file.write_all(&[b'x'; ENTRY])?;
        file.sync_data()?;
        latencies.record(began.elapsed());
        at += ENTRY as u64;
    }
    fs::remove_file(path)?;
    Ok(latencies)
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
