//! Any bytes as a log file beside the snapshot of an empty database: never a panic, never much memory, and what is recovered is
//! recovered again from what is written of it.
//!
//! The first byte selects what the rest is: the whole file, all after its header, or payloads with their lengths, which get
//! checksums and zxids that are right.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::disk::Disk;
use zoolet_storage::log::{LogItem, LogReader};
use zoolet_storage::{Recovered, StorageError, StorageOptions, open, read};

const LOG: &str = "/data/version-2/log.1";

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let mut log = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    match choice % 4 {
        0 => log = rest.to_vec(),
        1 => log.extend_from_slice(rest),
        _ => entries(rest, &mut log),
    }
    let disk = empty_database();
    disk.write(LOG, &log).expect("a simulated disk takes it");
    let mut found = None;
    let used = allocation_counter::measure(|| found = Some(read(&disk, &options())));
    let limit = (8 << 20) + 512 * log.len() as u64;
    assert!(used.bytes_max <= limit, "{used:?} for a log of {} bytes", log.len());
    // Opened to write it is the same, and what is cut from it is cut for good.
    match (found.expect("measured"), open(Arc::new(disk.clone()), options())) {
        (Ok(found), Ok((storage, opened))) => {
            assert_eq!(shown(found), shown(opened));
            drop(storage);
            assert_written_again(&disk);
        }
        (Err(found), Err(opened)) => assert_eq!(found.to_string(), opened.to_string()),
        (found, opened) => panic!("{found:?}, but to write {opened:?}"),
    }
});

fn options() -> StorageOptions {
    let mut options = StorageOptions::new("/data");
    options.pre_alloc = 0;
    // They are seldom right here.
    options.digests = false;
    options
}

fn empty_database() -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    drop(open(Arc::new(disk.clone()), options()).expect("an empty disk becomes a database"));
    disk
}

/// Payloads, each after two bytes with its length, as entries of a log. A last byte of a length decides what is wrong with an entry,
/// if anything is.
fn entries(mut rest: &[u8], log: &mut Vec<u8>) {
    let mut zxid = 0i64;
    while let Some(([fault, len], more)) = rest.split_first_chunk() {
        let (payload, more) = more.split_at(usize::from(*len).min(more.len()));
        rest = more;
        zxid += 1;
        let mut payload = payload.to_vec();
        if payload.len() >= 20 && *fault != 1 {
            payload[12..20].copy_from_slice(&zxid.to_be_bytes());
        }
        let start = log.len();
        log.extend_from_slice(&[0; 4]);
        log.extend_from_slice(&simd_adler32::adler32(&&payload[..]).to_be_bytes());
        log.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        log.extend_from_slice(&payload);
        log.push(0x42);
        match fault {
            2 => log[start + 7] ^= 1,
            3 => log.extend_from_slice(&[0; 5]),
            4 => _ = log.pop(),
            _ => {}
        }
    }
}

fn shown(found: Recovered) -> String {
    let Recovered { mut tree, sessions, highest_session, report, .. } = found;
    let mut znodes = Vec::new();
    tree.begin_snapshot();
    while tree.next_slice(1_000, 1 << 20, &mut |znode| znodes.push(znode)) {}
    tree.end_snapshot();
    format!("{znodes:?} {sessions:?} {highest_session:?} {:?}", report.last_zxid)
}

/// Appends all transactions of the log to another one, which is read then.
fn assert_written_again(disk: &SimulatedDisk) {
    let Ok(file) = disk.open(Path::new(LOG)) else { return };
    let mut reader = LogReader::new(file, Path::new(LOG)).expect("a simulated disk is read");
    let again = empty_database();
    let (mut storage, _) = open(Arc::new(again.clone()), options()).expect("it was opened before");
    while let LogItem::Entry(entry) = reader.next().expect("a simulated disk is read") {
        match storage.append(&entry.txn) {
            Ok(()) => {}
            // The marker makes it longer than any reader takes.
            Err(StorageError::Unloggable { .. }) if entry.len > 2_000_000 => return,
            Err(error) => panic!("{error}: {:?}", entry.txn),
        }
    }
    storage.commit().expect("a simulated disk takes it");
    let first = read(disk, &options()).expect("it was opened before");
    let second = read(&again, &options()).expect("it was written by a server");
    assert_eq!(shown(first), shown(second));
}
