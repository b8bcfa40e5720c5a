//! The bytes of a log, as far as tests damage them. Independent of the crate under test.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use zoolet_test_support::Dice;

const HEADER: usize = 16;
/// Checksum and length.
const PREFIX: usize = 12;

/// An entry of a log.
#[derive(Debug, Clone)]
pub struct Entry {
    pub zxid: i64,
    /// All of it, from its checksum to its end byte.
    pub whole: Range<usize>,
}

impl Entry {
    pub fn payload(&self) -> Range<usize> {
        self.whole.start + PREFIX..self.whole.end - 1
    }
}

/// The entries of a log up to its padding, its end, or the first that is incomplete.
pub fn entries(log: &[u8]) -> Vec<Entry> {
    let (mut entries, mut at) = (Vec::new(), HEADER);
    while let Some(len) = log.get(at + 8..at + PREFIX) {
        let len = i32::from_be_bytes(len.try_into().expect("4 bytes")) as usize;
        let whole = at..at + PREFIX + len + 1;
        if len == 0 || log.get(whole.end - 1) != Some(&b'B') {
            break;
        }
        let zxid = log[at + PREFIX + 12..at + PREFIX + 20].try_into().expect("8 bytes");
        at = whole.end;
        entries.push(Entry { zxid: i64::from_be_bytes(zxid), whole });
    }
    entries
}

/// An entry of this payload.
pub fn entry(payload: &[u8]) -> Vec<u8> {
    let sum = u64::from(adler32(payload)).to_be_bytes();
    [&sum[..], &(payload.len() as i32).to_be_bytes(), payload, b"B"].concat()
}

pub fn adler32(bytes: &[u8]) -> u32 {
    const BASE: u32 = 65_521;
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % BASE;
        (a, (b + a) % BASE)
    });
    b << 16 | a
}

/// The files of a kind (`log` or `snapshot`) in a data directory, in the order of their zxids.
pub fn files(dir: &Path, kind: &str) -> Vec<(i64, PathBuf)> {
    let mut files: Vec<_> = fs::read_dir(dir.join("version-2"))
        .expect("a data directory")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name().and_then(|name| name.to_str())?;
            let zxid = name.strip_prefix(kind)?.strip_prefix('.')?.split('.').next()?;
            Some((i64::from_str_radix(zxid, 16).ok()?, path))
        })
        .collect();
    files.sort();
    files
}

/// Writes the beginning of an entry after the last one of the last log, as a server does that is stopped in the middle of a write.
pub fn tear(dir: &Path, dice: &mut Dice) {
    let Some((_, path)) = files(dir, "log").pop() else { return };
    let mut log = fs::read(&path).expect("a log");
    let Some(last) = entries(&log).pop() else { return };
    let mut payload = log[last.payload()].to_vec();
    payload[12..20].copy_from_slice(&(last.zxid + 1).to_be_bytes());
    let entry = entry(&payload);
    let torn = &entry[..dice.below(entry.len())];
    let end = last.whole.end;
    log.resize(log.len().max(end + torn.len()), 0);
    log[end..end + torn.len()].copy_from_slice(torn);
    fs::write(path, log).expect("a log");
}
