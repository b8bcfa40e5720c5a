//! What [`LogWriter`] writes and [`LogReader`] finds in it, whole and damaged.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use zoolet_proto::{SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Txn, TxnOp};
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::{Disk, DiskFile};
use zoolet_storage::log::{Fault, LogEnd, LogEntry, LogItem, LogReader, LogWriter};
use zoolet_storage::{Durability, StorageError, StorageOptions, open};

const DIR: &str = "/data/version-2";
const LOG: &str = "/data/version-2/log.1";
/// The length of an entry of [`set_data`].
const ENTRY: usize = 12 + PAYLOAD as usize + 1;
const PAYLOAD: i32 = 32 + 6 + 8 + 4 + 12 + 4;

fn set_data(zxid: i64) -> Txn {
    let data = Some(Bytes::copy_from_slice(&[zxid as u8 | 0x80; 4]));
    let op = TxnOp::SetData { path: "/a".into(), data, version: 1 };
    Txn { session: SessionId(5), xid: Xid(7), zxid: Zxid(zxid), time: Millis(11), op, digest: Some(1) }
}

fn options() -> StorageOptions {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 0;
    options
}

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    disk.create_dir(Path::new(DIR)).unwrap();
    disk
}

fn writer(disk: &SimulatedDisk, options: &StorageOptions, last: i64) -> LogWriter {
    LogWriter::new(Arc::new(disk.clone()), DIR.into(), options, Zxid(last))
}

/// A log of batches of so many entries.
fn log_of(batches: &[i64], options: &StorageOptions) -> SimulatedDisk {
    let disk = disk();
    let mut log = writer(&disk, options, 0);
    let mut zxid = 0;
    for len in batches {
        for _ in 0..*len {
            zxid += 1;
            log.append(&set_data(zxid)).unwrap();
        }
        log.commit().unwrap();
    }
    disk
}

fn read(disk: &SimulatedDisk, path: &str) -> (Vec<LogEntry>, LogEnd) {
    let file = disk.open(Path::new(path)).unwrap();
    let mut reader = LogReader::new(file, Path::new(path)).unwrap();
    let mut entries = Vec::new();
    loop {
        match reader.next().unwrap() {
            LogItem::Entry(entry) => entries.push(entry),
            LogItem::End(end) => return (entries, end),
        }
    }
}

/// How a log of batches of so many entries ends after `change`, and how many entries are before that.
fn after(batches: &[i64], change: impl FnOnce(&mut Vec<u8>)) -> (usize, LogEnd) {
    let disk = log_of(batches, &options());
    let mut bytes = disk.read(LOG).unwrap();
    change(&mut bytes);
    disk.write(LOG, bytes).unwrap();
    let (entries, end) = read(&disk, LOG);
    (entries.len(), end)
}

/// Where the entry `n`, from 1, begins.
fn at(n: usize) -> usize {
    16 + (n - 1) * ENTRY
}

/// A file that changes after it is read for the first time.
#[derive(Debug)]
struct ChangingFile {
    reads: AtomicUsize,
    first: Vec<u8>,
    later: Vec<u8>,
}

impl DiskFile for ChangingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.later.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = if self.reads.fetch_add(1, Relaxed) == 0 { &self.first } else { &self.later };
        let bytes = &bytes[(offset as usize).min(bytes.len())..];
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&mut self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn an_entry_that_is_written_while_it_is_read_is_no_damage() {
    let later = log_of(&[1, 1, 1], &options()).read(LOG).unwrap();
    let mut first = later.clone();
    first[at(2)..at(3)].fill(0);
    let file = ChangingFile { reads: AtomicUsize::new(0), first, later };
    let mut reader = LogReader::new(Box::new(file), Path::new(LOG)).unwrap();
    for zxid in 1..=3 {
        let item = reader.next().unwrap();
        assert!(matches!(&item, LogItem::Entry(entry) if entry.txn.zxid == Zxid(zxid)), "{item:?}");
    }
}

#[test]
fn what_is_written_is_read_with_the_batches_that_it_was_written_in() {
    let disk = log_of(&[1, 3, 2], &options());
    let (entries, end) = read(&disk, LOG);
    let zxids: Vec<i64> = entries.iter().map(|entry| entry.txn.zxid.0).collect();
    assert_eq!(zxids, [1, 2, 3, 4, 5, 6]);
    let batches: Vec<u64> = entries.iter().map(|entry| entry.batch.unwrap()).collect();
    assert_eq!(batches, [1, 2, 2, 2, 5, 5].map(|n| at(n) as u64));
    assert_eq!(end, LogEnd::Clean { offset: at(7) as u64 });
    assert_eq!(disk.read(LOG).unwrap()[..16], *b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0");
}

#[test]
fn room_is_reserved_as_apache_does_and_read_as_the_end() {
    let mut options = options();
    options.pre_alloc = 64 << 20;
    let disk = log_of(&[1, 3, 2], &options);
    assert_eq!(disk.open(Path::new(LOG)).unwrap().len().unwrap(), 16 + (64 << 20));
    let (entries, end) = read(&disk, LOG);
    assert_eq!((entries.len(), end), (6, LogEnd::Clean { offset: at(7) as u64 }));
    options.pre_alloc = 8192;
    let lens: Vec<u64> = (1..200)
        .map(|batches| log_of(&vec![1; batches], &options).open(Path::new(LOG)).unwrap().len().unwrap())
        .collect();
    let filled = |batches: usize| (at(batches + 1) + 4096) as u64;
    assert!(
        lens.iter().enumerate().all(|(at, len)| filled(at + 1) < len + 16 && (len - 16) % 8192 == 0),
        "{lens:?}"
    );
}

#[test]
fn a_log_is_one_batch_if_it_is_not_synced() {
    let mut options = options();
    options.durability = Durability::Os;
    let disk = log_of(&[1, 3, 2], &options);
    let (entries, _) = read(&disk, LOG);
    assert!(entries.iter().all(|entry| entry.batch == Some(16)), "{entries:?}");
}

#[test]
fn a_file_is_created_with_the_first_transaction_and_after_a_roll() {
    let disk = disk();
    let mut log = writer(&disk, &options(), 0);
    let names = || {
        let mut names: Vec<_> =
            disk.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names
    };
    log.commit().unwrap();
    log.roll().unwrap();
    assert!(names().is_empty());
    log.append(&set_data(1)).unwrap();
    log.append(&set_data(2)).unwrap();
    log.roll().unwrap();
    assert_eq!(names(), ["log.1"]);
    log.append(&set_data(3)).unwrap();
    log.commit().unwrap();
    log.append(&set_data(4)).unwrap();
    log.commit().unwrap();
    assert_eq!(names(), ["log.1", "log.3"]);
    for (path, zxids) in [(LOG, [1, 2]), ("/data/version-2/log.3", [3, 4])] {
        let (entries, _) = read(&disk, path);
        assert_eq!(entries.iter().map(|entry| entry.txn.zxid.0).collect::<Vec<_>>(), zxids);
    }
    assert_eq!(log.last_zxid(), Zxid(4));
}

#[test]
fn a_file_longer_than_the_limit_is_followed_by_another_one() {
    let mut options = options();
    options.log_size_limit = Some(at(3) as u64);
    let disk = log_of(&[1, 1, 1, 1, 1], &options);
    assert_eq!(read(&disk, LOG).0.len(), 3);
    assert_eq!(read(&disk, "/data/version-2/log.4").0.len(), 2);
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let disk = disk();
    disk.write(LOG, b"precious").unwrap();
    let mut log = writer(&disk, &options(), 0);
    let error = log.append(&set_data(1)).unwrap_err();
    assert!(error.to_string().starts_with("cannot create /data/version-2/log.1: "), "{error}");
    assert_eq!(disk.read(LOG).unwrap(), b"precious");
}

#[test]
fn nothing_is_written_after_an_error() {
    for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Rename, DiskOp::SyncDir, DiskOp::Create] {
        let disk = disk();
        let (mut storage, _) = open(Arc::new(disk.clone()), options()).unwrap();
        disk.place(op.any().nth(1), DiskFault::Fail).unwrap();
        let error = storage.append(&set_data(1)).unwrap_err();
        assert!(matches!(error, StorageError::Io { .. }), "{op:?}: {error}");
        let steps = disk.steps();
        for again in [
            storage.append(&set_data(1)),
            storage.commit(),
            storage.roll(),
            storage.begin_restore(Zxid(9)),
            storage.go_on_after(Zxid(9)),
        ] {
            assert_eq!(again.unwrap_err().to_string(), format!("storage has failed before: {error}"));
        }
        assert_eq!(disk.steps(), steps, "{op:?}: no operation is tried again");
    }
}

#[test]
fn a_transaction_out_of_order_is_refused() {
    for (last, next) in [(0, 2), (5, 5), (5, 4), (0, (1 << 32) + 2)] {
        let mut log = writer(&disk(), &options(), last);
        let error = log.append(&set_data(next)).unwrap_err();
        assert!(matches!(error, StorageError::Unloggable { zxid, .. } if zxid == Zxid(next)), "{error}");
    }
}

#[test]
fn a_full_disk_is_filled_to_its_end() {
    let mut options = options();
    options.pre_alloc = 64 << 20;
    let disk = disk();
    disk.set_free_space(Some(1 << 20));
    let mut log = writer(&disk, &options, 0);
    let mut durable = 0;
    let error = loop {
        if let Err(error) = log.append(&set_data(durable + 1)).and_then(|_| log.commit()) {
            break error;
        }
        durable += 1;
    };
    assert!(matches!(error, StorageError::Io { action: "write", .. }), "{error}");
    assert!(durable as usize > (1 << 20) / ENTRY - 200, "{durable}");
    let (entries, _) = read(&disk, LOG);
    assert!(entries.len() >= durable as usize);
}

#[test]
fn a_bad_entry_of_the_last_batch_is_a_torn_end() {
    use Fault::*;
    let torn = |n: usize, fault| (n - 1, LogEnd::Torn { offset: at(n) as u64, fault });
    // The first, the second and the last of the last batch.
    for n in [4, 5, 6] {
        assert_eq!(after(&[3, 3], |log| log[at(n) + 50] ^= 1), torn(n, Checksum), "content of {n}");
        assert_eq!(after(&[3, 3], |log| log[at(n) + 7] ^= 1), torn(n, Checksum), "checksum of {n}");
        assert_eq!(after(&[3, 3], |log| log[at(n) + ENTRY - 1] = 0), torn(n, LastByte(0)), "end of {n}");
        assert_eq!(after(&[3, 3], |log| log[at(n)..at(n + 1)].fill(0)).0, n - 1, "all of {n}");
        assert_eq!(
            after(&[3, 3], |log| log[at(n) + 8] = 0x80),
            torn(n, Length(i32::MIN + PAYLOAD)),
            "length of {n}"
        );
        assert_eq!(
            after(&[3, 3], |log| log[at(n) + 8] = 0x10),
            torn(n, Length((1 << 28) + PAYLOAD)),
            "length of {n}"
        );
        assert_eq!(after(&[3, 3], |log| log[at(n) + 10] = 1), torn(n, CutShort), "length of {n}");
        assert_eq!(
            after(&[3, 3], |log| log.truncate(at(n) + 8)),
            torn(n, CutShort),
            "all but the checksum of {n}"
        );
        assert_eq!(
            after(&[3, 3], |log| log.truncate(at(n) + ENTRY - 1)),
            torn(n, CutShort),
            "the end of {n}"
        );
    }
    assert_eq!(after(&[3, 3], |log| log[at(4)..at(5)].fill(0)), torn(4, Length(0)));
    assert_eq!(
        after(&[3, 3], |log| log[at(4) + 1..].fill(7)),
        torn(4, Length(0x0707_0707)),
        "garbage to the end"
    );
    assert_eq!(after(&[3, 3], |log| log.truncate(at(6))), (5, LogEnd::Clean { offset: at(6) as u64 }));
    assert_eq!(after(&[3, 3], |log| log[at(6)..].fill(0)), (5, LogEnd::Clean { offset: at(6) as u64 }));
}

#[test]
fn a_bad_entry_before_the_last_batch_is_damage() {
    let damaged = |n: usize, next: usize, fault| {
        let next = Some((at(next) as u64, Zxid(next as i64)));
        (n - 1, LogEnd::Damaged { offset: at(n) as u64, fault, next })
    };
    for n in 1..=6 {
        let next = n + 1;
        assert_eq!(after(&[1, 2, 2, 1, 1], |log| log[at(n) + 50] ^= 1), damaged(n, next, Fault::Checksum));
        assert_eq!(
            after(&[1, 2, 2, 1, 1], |log| log[at(n + 1) - 1] = 0),
            damaged(n, next, Fault::LastByte(0))
        );
        assert_eq!(
            after(&[1, 2, 2, 1, 1], |log| log[at(n)..at(n + 1)].fill(0)),
            damaged(n, next, Fault::Length(0))
        );
        assert_eq!(
            after(&[1, 2, 2, 1, 1], |log| log[at(n) + 8] = 0x10),
            damaged(n, next, Fault::Length((1 << 28) + PAYLOAD))
        );
        assert_eq!(after(&[1, 2, 2, 1, 1], |log| log[at(n) + 11] += 1), damaged(n, next, Fault::LastByte(0)));
    }
    // Two entries and a part of a third one.
    assert_eq!(after(&[2, 2, 2], |log| log[at(1) + 20..at(3) + 20].fill(0)).1.offset(), 16);
    assert!(matches!(after(&[2, 2, 2], |log| log[at(1) + 20..at(3) + 20].fill(0)).1, LogEnd::Damaged { .. }));
    // Bytes that are missing or too many.
    assert!(matches!(after(&[1, 1, 1], |log| _ = log.remove(at(2))), (1, LogEnd::Damaged { .. })));
    assert!(matches!(after(&[1, 1, 1], |log| log.insert(at(2), 0)), (1, LogEnd::Damaged { .. })));
    // A hole between entries, such as a page that was never written.
    let hole = |log: &mut Vec<u8>| drop(log.splice(at(2)..at(2), [0; 4096]));
    assert!(matches!(after(&[1, 1, 1], hole), (1, LogEnd::Damaged { fault: Fault::Length(0), .. })));
}

#[test]
fn a_malformed_entry_is_damage_even_at_the_end() {
    let malformed = |log: &mut Vec<u8>| {
        let payload = at(2) + 12..at(3) - 1;
        log[payload.start + 28..payload.start + 32].copy_from_slice(&3i32.to_be_bytes());
        let sum = simd_adler32::adler32(&&log[payload]);
        log[at(2) + 4..at(2) + 8].copy_from_slice(&sum.to_be_bytes());
    };
    let fault = Fault::Malformed("an unknown type of transaction");
    assert_eq!(after(&[1, 1], malformed), (1, LogEnd::Damaged { offset: at(2) as u64, fault, next: None }));
}

#[test]
fn the_header_of_a_file_is_checked() {
    let start = |fault| (0, LogEnd::Torn { offset: 0, fault });
    let damaged = |offset, fault| (0, LogEnd::Damaged { offset, fault, next: None });
    for len in 0..16 {
        assert_eq!(after(&[2], |log| log.truncate(len)), start(Fault::CutShort), "{len} bytes");
    }
    assert_eq!(after(&[2], |log| log.truncate(16)), (0, LogEnd::Clean { offset: 16 }));
    assert_eq!(after(&[2], |log| log[16..].fill(0)), (0, LogEnd::Clean { offset: 16 }));
    assert_eq!(after(&[2], |log| log.fill(0)), start(Fault::NoLog));
    assert_eq!(after(&[2], |log| log[0] = b'z'), damaged(0, Fault::NoLog));
    assert_eq!(after(&[2], |log| log[..16].fill(0)), damaged(0, Fault::NoLog));
    assert_eq!(after(&[2], |log| log[3] = b'N'), damaged(0, Fault::NoLog));
    assert_eq!(after(&[2], |log| log[7] = 3), damaged(4, Fault::Version(3)));
}

#[test]
fn data_that_looks_like_an_entry_does_not_hide_a_torn_end() {
    let inner = log_of(&[1], &options()).read(LOG).unwrap()[16..].to_vec();
    let disk = log_of(&[1], &options());
    let mut log = writer(&disk, &options(), 1);
    let mut outer = set_data(2);
    outer.op = TxnOp::SetData { path: "/a".into(), data: Some(inner.clone().into()), version: 1 };
    let two = "/data/version-2/log.2";
    log.append(&outer).unwrap();
    log.commit().unwrap();
    let len = disk.read(two).unwrap().len();
    // Its checksum is wrong, but its end is certain: what is inside is data.
    disk.flip(two, 30, 0).unwrap();
    assert_eq!(read(&disk, two).1, LogEnd::Torn { offset: 16, fault: Fault::Checksum });
    // Without its last byte it may be anything, so this is no end: nothing acknowledged may be cut.
    disk.flip(two, len as u64 - 1, 0).unwrap();
    assert!(matches!(read(&disk, two).1, LogEnd::Damaged { .. }));
}

#[test]
fn a_search_in_data_that_is_made_for_it_ends() {
    const END_BYTE: u8 = 0x42;
    // Every 16 bytes something that claims to be an entry of a megabyte, with a last byte that is right.
    let claim = |log: &mut Vec<u8>| {
        let mut block = Vec::new();
        while block.len() < 4 << 20 {
            block.extend_from_slice(&[0, 0, 0, 0, 1, 1, 1, 1, 0, 0x10, 0, 3]);
            block.extend_from_slice(&[0; 19]);
            block.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, END_BYTE]);
        }
        log.truncate(at(2));
        log.push(9);
        log.extend_from_slice(&block);
    };
    let (entries, end) = after(&[1], claim);
    assert_eq!((entries, end.offset()), (1, at(2) as u64));
}

#[test]
fn room_that_is_reserved_is_read_to_its_end() {
    let disk = log_of(&[1], &options());
    let mut file = disk.open_to_write(Path::new(LOG)).unwrap();
    file.set_len(64 << 20).unwrap();
    assert_eq!(read(&disk, LOG).1, LogEnd::Clean { offset: at(2) as u64 });
    file.write_at(b"x", (64 << 20) - 1).unwrap();
    assert!(matches!(read(&disk, LOG).1, LogEnd::Torn { .. }));
}
