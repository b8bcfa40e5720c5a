//! What is damaged in a data directory, one kind after the other.

use std::fs;
use std::path::{Path, PathBuf};

use crate::storage::bytes::{self, Entry, entries, entry};

/// The files of a directory with at least two logs and two snapshots; the last log has many entries.
pub struct Directory {
    dir: PathBuf,
}

/// What is damaged.
pub struct Kind {
    pub name: &'static str,
    pub damage: fn(&Directory),
    pub may_lose: MayLose,
}

/// What a server may lose by it without refusing the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayLose {
    Nothing,
    /// The last transaction: this is how a write that was under way looks.
    TheLast,
    /// Whatever there was: a server that has just begun a log leaves the same, so nothing shows that there was more.
    All,
}

const fn kind(name: &'static str, damage: fn(&Directory)) -> Kind {
    Kind { name, damage, may_lose: MayLose::Nothing }
}

const fn tail(name: &'static str, damage: fn(&Directory)) -> Kind {
    Kind { may_lose: MayLose::TheLast, ..kind(name, damage) }
}

const fn fresh(name: &'static str, damage: fn(&Directory)) -> Kind {
    Kind { may_lose: MayLose::All, ..kind(name, damage) }
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    tail("last entry: cut in its checksum", |d| d.cut_last(4)),
    tail("last entry: cut in its length", |d| d.cut_last(10)),
    tail("last entry: cut in its payload", |d| d.cut_last(30)),
    tail("last entry: cut before its end byte", |d| {
        d.edit_last(|log, last| log.truncate(last.whole.end - 1))
    }),
    tail("last entry: zeros from its payload on", |d| {
        d.edit_last(|log, last| log[last.whole.start + 30..].fill(0));
    }),
    tail("last entry: end byte zero", |d| d.edit_last(|log, last| log[last.whole.end - 1] = 0)),
    tail("last entry: a bit of its payload", |d| d.edit_last(|log, last| log[last.payload().end - 1] ^= 1)),
    tail("last entry: a bit of its checksum", |d| d.edit_last(|log, last| log[last.whole.start + 5] ^= 1)),
    tail("last entry: zeros in its payload only", |d| {
        d.edit_last(|log, last| log[last.payload()][20..].fill(0));
    }),
    tail("last entry: length -1", |d| d.edit_last(|log, last| set_len(log, last, |_| -1))),
    tail("last entry: length 2^30", |d| d.edit_last(|log, last| set_len(log, last, |_| 1 << 30))),
    tail("after the last entry: other bytes than zeros", |d| {
        d.edit_last(|log, last| {
            log.resize(last.whole.end + 100, 0);
            log[last.whole.end..].fill(0xa5);
        });
    }),
    tail("no padding at all", |d| d.edit_last(|log, last| log.truncate(last.whole.end))),
    kind("middle of the last log: a bit of a payload", |d| d.edit(|log, at| log[at.payload().end - 1] ^= 1)),
    kind("middle of the last log: a bit of a checksum", |d| d.edit(|log, at| log[at.whole.start + 5] ^= 1)),
    kind("middle of the last log: high half of a checksum", |d| d.edit(|log, at| log[at.whole.start] = 1)),
    kind("middle of the last log: end byte zero", |d| d.edit(|log, at| log[at.whole.end - 1] = 0)),
    kind("middle of the last log: length 0", |d| d.edit(|log, at| set_len(log, at, |_| 0))),
    kind("middle of the last log: length + 1", |d| d.edit(|log, at| set_len(log, at, |len| len + 1))),
    kind("middle of the last log: length - 1", |d| d.edit(|log, at| set_len(log, at, |len| len - 1))),
    kind("middle of the last log: length -1", |d| d.edit(|log, at| set_len(log, at, |_| -1))),
    kind("middle of the last log: length 2^30", |d| d.edit(|log, at| set_len(log, at, |_| 1 << 30))),
    kind("middle of the last log: an entry of zeros", |d| d.edit(|log, at| log[at.whole.clone()].fill(0))),
    kind("middle of the last log: 512 bytes of zeros", |d| {
        d.edit(|log, at| log[at.whole.start & !511..(at.whole.start & !511) + 512].fill(0));
    }),
    kind("middle of the last log: an entry is missing", |d| {
        d.edit(|log, at| _ = log.drain(at.whole.clone()))
    }),
    kind("middle of the last log: an entry twice", |d| {
        d.edit(|log, at| {
            let twice = log[at.whole.clone()].to_vec();
            log.splice(at.whole.end..at.whole.end, twice);
        });
    }),
    kind("middle of the last log: two entries change places", |d| {
        d.edit_entries(|log, all, at| {
            let both = [&log[all[at + 1].whole.clone()], &log[all[at].whole.clone()]].concat();
            log.splice(all[at].whole.start..all[at + 1].whole.end, both);
        });
    }),
    kind("middle of the last log: unknown type", |d| {
        d.rewrite(|payload| payload[28..32].copy_from_slice(&[0, 0, 0, 99]))
    }),
    kind("middle of the last log: record too short", |d| d.rewrite(|payload| payload.truncate(36))),
    kind("middle of the last log: no record", |d| d.rewrite(|payload| payload.truncate(32))),
    kind("middle of the last log: header too short", |d| d.rewrite(|payload| payload.truncate(20))),
    kind("middle of the last log: zxid too high by 5", |d| {
        d.rewrite(|payload| payload[19] = payload[19].wrapping_add(5))
    }),
    kind("middle of the last log: zxid of the next epoch", |d| d.rewrite(|payload| payload[15] += 1)),
    kind("middle of the last log: digest wrong", |d| {
        d.rewrite(|payload| *payload.last_mut().expect("a digest") ^= 1);
    }),
    kind("last log: magic", |d| d.edit(|log, _| log[0] ^= 1)),
    kind("last log: version", |d| d.edit(|log, _| log[7] ^= 1)),
    kind("last log: dbid", |d| d.edit(|log, _| log[15] ^= 1)),
    fresh("last log: 0 bytes", |d| fs::write(d.logs().pop().expect("a log"), []).expect("a file")),
    fresh("last log: 8 bytes", |d| d.edit(|log, _| log.truncate(8))),
    fresh("last log: header only", |d| d.edit(|log, _| log.truncate(16))),
    fresh("last log: all zeros", |d| d.edit(|log, _| log.fill(0))),
    fresh("last log: missing", |d| fs::remove_file(d.logs().pop().expect("a log")).expect("a file")),
    kind("last log: named one later", |d| d.rename_log(|zxid| zxid + 1)),
    kind("last log: named one earlier", |d| d.rename_log(|zxid| zxid - 1)),
    kind("first log: missing", |d| fs::remove_file(&d.logs()[0]).expect("a file")),
    kind("log before the last: missing", |d| fs::remove_file(d.before_last()).expect("a file")),
    kind("log before the last: cut in its last entry", |d| {
        edit(&d.before_last(), |log, all| log.truncate(all[all.len() - 1].whole.end - 3));
    }),
    kind("log before the last: a bit in its middle", |d| {
        edit(&d.before_last(), |log, all| log[all[all.len() / 2].payload().end - 1] ^= 1);
    }),
    kind("log before the last: 0 bytes", |d| fs::write(d.before_last(), []).expect("a file")),
    kind("a stray log.old", |d| fs::write(d.dir.join("version-2/log.old"), b"x").expect("a file")),
    kind("a stray copy of the last log, log.ZXID.bak", |d| {
        let log = d.logs().pop().expect("a log");
        fs::copy(&log, format!("{}.bak", log.display())).expect("a copy");
    }),
    kind("newest snapshot: missing", |d| fs::remove_file(d.snapshot()).expect("a file")),
    kind("newest snapshot: 0 bytes", |d| fs::write(d.snapshot(), []).expect("a file")),
    kind("newest snapshot: cut in the middle", |d| d.edit_snapshot(|bytes| bytes.truncate(bytes.len() / 2))),
    kind("newest snapshot: cut by a byte", |d| d.edit_snapshot(|bytes| bytes.truncate(bytes.len() - 1))),
    kind("newest snapshot: a bit in the middle", |d| {
        d.edit_snapshot(|bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
    }),
    kind("newest snapshot: a bit of the last seal", |d| {
        d.edit_snapshot(|bytes| {
            let at = bytes.len() - 6;
            bytes[at] ^= 1;
        });
    }),
    kind("newest snapshot: magic", |d| d.edit_snapshot(|bytes| bytes[0] ^= 1)),
    kind("newest snapshot: junk after it", |d| d.edit_snapshot(|bytes| bytes.extend([1; 100]))),
    kind("newest snapshot: named 5 later", |d| d.rename_snapshot(|zxid| zxid + 5)),
    kind("newest snapshot: named 5 earlier", |d| d.rename_snapshot(|zxid| zxid - 5)),
    kind("a stray copy of the newest snapshot, snapshot.ZXID.bak", |d| {
        fs::copy(d.snapshot(), format!("{}.bak", d.snapshot().display())).expect("a copy");
    }),
    kind("half a snapshot, snapshot.ZXID.tmp of a later zxid", |d| {
        let bytes = fs::read(d.snapshot()).expect("a snapshot");
        let name = format!("version-2/snapshot.{:x}.tmp", d.last_zxid());
        fs::write(d.dir.join(name), &bytes[..bytes.len() / 2]).expect("a file");
    }),
    kind("all snapshots: missing", |d| {
        d.snapshots().iter().for_each(|path| fs::remove_file(path).expect("a file"))
    }),
    kind("all snapshots: a bit in the middle", |d| {
        for path in d.snapshots() {
            let mut bytes = fs::read(&path).expect("a snapshot");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).expect("a snapshot");
        }
    }),
    fresh("all logs: missing", |d| d.logs().iter().for_each(|path| fs::remove_file(path).expect("a file"))),
    kind("version-2 is called version-3", |d| {
        fs::rename(d.dir.join("version-2"), d.dir.join("version-3")).expect("a directory");
    }),
    kind("the files are in the directory itself", |d| {
        for path in d.logs().into_iter().chain(d.snapshots()) {
            fs::rename(&path, d.dir.join(path.file_name().expect("a name"))).expect("a file");
        }
        fs::remove_dir(d.dir.join("version-2")).expect("a directory");
    }),
];

impl Directory {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Whether it is one that can be damaged in every way: two logs with many entries after the newest snapshot, and others before,
    /// and in the last one a create to rewrite. Newer snapshots are removed.
    pub fn is_fit(&self) -> bool {
        let logs = bytes::files(&self.dir, "log");
        let [.., (_, first), (start, second), (_, third)] = &logs[..] else { return false };
        if [first, second, third].iter().any(|log| entries(&fs::read(log).expect("a log")).len() < 20) {
            return false;
        }
        let last = fs::read(third).expect("a log");
        if middle_create(&last, &entries(&last)).is_none() {
            return false;
        }
        let (older, newer): (Vec<_>, Vec<_>) =
            bytes::files(&self.dir, "snapshot").into_iter().partition(|(zxid, _)| zxid < start);
        if older.len() < 2 {
            return false;
        }
        newer.iter().for_each(|(_, path)| fs::remove_file(path).expect("a file"));
        true
    }

    /// The zxid of the last transaction.
    pub fn last_zxid(&self) -> i64 {
        let log = fs::read(self.logs().pop().expect("a log")).expect("a log");
        entries(&log).pop().expect("an entry").zxid
    }

    /// Cuts the last log cleanly after this transaction.
    pub fn cut_after(&self, zxid: i64) {
        while let Some(path) = self.logs().pop() {
            let mut log = fs::read(&path).expect("a log");
            if let Some(last) = entries(&log).iter().rfind(|entry| entry.zxid <= zxid) {
                log.truncate(last.whole.end);
                return fs::write(path, log).expect("a log");
            }
            fs::remove_file(path).expect("a log");
        }
    }

    fn logs(&self) -> Vec<PathBuf> {
        bytes::files(&self.dir, "log").into_iter().map(|(_, path)| path).collect()
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        bytes::files(&self.dir, "snapshot").into_iter().map(|(_, path)| path).collect()
    }

    fn snapshot(&self) -> PathBuf {
        self.snapshots().pop().expect("a snapshot")
    }

    fn before_last(&self) -> PathBuf {
        let logs = self.logs();
        logs[logs.len() - 2].clone()
    }

    fn edit_entries(&self, change: impl FnOnce(&mut Vec<u8>, &[Entry], usize)) {
        edit(&self.logs().pop().expect("a log"), |log, all| change(log, all, all.len() / 2));
    }

    fn edit(&self, change: impl FnOnce(&mut Vec<u8>, &Entry)) {
        self.edit_entries(|log, all, at| change(log, &all[at]));
    }

    fn edit_last(&self, change: impl FnOnce(&mut Vec<u8>, &Entry)) {
        self.edit_entries(|log, all, _| change(log, &all[all.len() - 1]));
    }

    fn cut_last(&self, len: usize) {
        self.edit_last(|log, last| log.truncate(last.whole.start + len));
    }

    /// Changes the payload of an entry, whose checksum is right afterwards.
    fn rewrite(&self, change: impl FnOnce(&mut Vec<u8>)) {
        self.edit_entries(|log, all, _| {
            // One that creates, so that there is something to be short of.
            let at = middle_create(log, all).expect("a create").clone();
            let mut payload = log[at.payload()].to_vec();
            change(&mut payload);
            log.splice(at.whole, entry(&payload));
        });
    }

    fn edit_snapshot(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.snapshot();
        let mut bytes = fs::read(&path).expect("a snapshot");
        change(&mut bytes);
        fs::write(path, bytes).expect("a snapshot");
    }

    fn rename_log(&self, zxid: fn(i64) -> i64) {
        let (old, path) = bytes::files(&self.dir, "log").pop().expect("a log");
        fs::rename(path, self.dir.join(format!("version-2/log.{:x}", zxid(old)))).expect("a file");
    }

    fn rename_snapshot(&self, zxid: fn(i64) -> i64) {
        let (old, path) = bytes::files(&self.dir, "snapshot").pop().expect("a snapshot");
        fs::rename(path, self.dir.join(format!("version-2/snapshot.{:x}", zxid(old)))).expect("a file");
    }
}

/// A create after the first half of a log. The last entry is none: it may be lost.
fn middle_create<'a>(log: &[u8], all: &'a [Entry]) -> Option<&'a Entry> {
    all[all.len() / 2..all.len() - 1].iter().find(|entry| log[entry.payload()][28..32] == [0, 0, 0, 1])
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>, &[Entry])) {
    let mut log = fs::read(path).expect("a log");
    let all = entries(&log);
    change(&mut log, &all);
    fs::write(path, log).expect("a log");
}

fn set_len(log: &mut [u8], at: &Entry, len: impl FnOnce(i32) -> i32) {
    let field = at.whole.start + 8..at.whole.start + 12;
    let old = i32::from_be_bytes(log[field.clone()].try_into().expect("4 bytes"));
    log[field].copy_from_slice(&len(old).to_be_bytes());
}
