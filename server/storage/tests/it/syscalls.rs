//! What the system is asked to sync, as `strace` shows it: everything else here is on a simulated disk.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use zoolet_server_core::TxnOp;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{StorageOptions, open};

use crate::recovery::support::SESSION;

/// Set in the process that is traced.
const DATA: &str = "ZOOLET_TEST_TRACED_DATA";
const COMMITS: i64 = 3;

#[test]
#[allow(clippy::print_stderr, reason = "that nothing was tested")]
fn each_commit_syncs_its_log_and_each_new_name_its_directory() {
    if let Some(data) = std::env::var_os(DATA) {
        return write(Path::new(&data));
    }
    let keep = tempfile::tempdir().unwrap();
    let (dir, trace) = (fs::canonicalize(keep.path()).unwrap(), keep.path().join("trace"));
    let traced = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "syscalls::each_commit_syncs_its_log_and_each_new_name_its_directory"])
        .env(DATA, dir.join("new/data"))
        .output();
    let Some(output) = traced.ok().filter(|_| trace.exists()) else {
        return eprintln!("skipped: strace is not there, or may not trace");
    };
    let trace = fs::read_to_string(&trace).unwrap();
    if !output.status.success() && trace.is_empty() {
        return eprintln!("skipped: strace may not trace: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let count = |call: &str, path: &str| {
        let path = format!("<{}>", dir.join(path).display());
        trace
            .lines()
            .filter(|line| line.contains(call) && line.contains(&path) && line.ends_with("= 0"))
            .count()
    };
    assert_eq!(count("fdatasync", "new/data/version-2/log.1"), COMMITS as usize, "one for a commit\n{trace}");
    assert!(count("sync", "new/data/version-2") >= 2, "the names of the snapshot and of the log\n{trace}");
    // That of the first directory that exists as well: who created it may have ended before that.
    for parent in [dir.parent().unwrap().to_owned(), dir.clone(), dir.join("new"), dir.join("new/data")] {
        let parent = format!("<{}>", parent.display());
        assert!(
            trace.lines().any(|line| line.contains("fsync") && line.contains(&parent)),
            "{parent}\n{trace}"
        );
    }
    assert!(trace.contains("snapshot") && trace.contains(".tmp>"), "before they get their names\n{trace}");
}

/// What a server does with a new directory.
fn write(data: &Path) {
    let (mut storage, _) = open(Arc::new(RealDisk), StorageOptions::new(data)).unwrap();
    for zxid in 1..=COMMITS {
        let op = TxnOp::CreateSession { timeout: 10_000 };
        let (xid, zxid) = (zoolet_proto::Xid(0), zoolet_proto::Zxid(zxid));
        let time = zoolet_server_core::Millis(0);
        let txn = zoolet_server_core::Txn { session: SESSION, xid, zxid, time, op, digest: None };
        storage.append(&txn).unwrap();
        storage.commit().unwrap();
    }
}
