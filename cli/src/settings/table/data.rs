//! The data directory: how it is written, and what is kept.

use super::{BOOL, COUNT, DIR, SIZE, SettingRow, TIME, flag, key};
use crate::settings::put;
use crate::settings::written::long;

pub(super) const ROWS: &[SettingRow] = &[
    flag("log-dir", DIR, "the data directory")
        .builder("StorageOptions::log_dir")
        .key("dataLogDir")
        .help("Keep the transaction log in this directory")
        .stores(|to, value| put(&mut to.storage.log_dir, value.directory().map(Some))),
    flag("durability", "sync|os", "sync")
        .builder("StorageOptions::durability")
        .key("forceSync")
        .help(
            "What an acknowledged write survives: sync, also a power loss, or os, only the end of \
             this process",
        )
        .stores(|to, value| put(&mut to.storage.durability, value.durability())),
    flag("slow-sync", TIME, "1s")
        .builder("StorageOptions::slow_sync")
        .key("fsync.warningthresholdms")
        .help("Warn of a sync of the log that takes longer")
        .stores(|to, value| put(&mut to.storage.slow_sync, value.time())),
    flag("pre-alloc", SIZE, "64MiB")
        .builder("StorageOptions::pre_alloc")
        .key("preAllocSize")
        .help("Extend log files by this size at once; 0 for no more than is written")
        .stores(|to, value| put(&mut to.storage.pre_alloc, value.size(long, "extends by what is written"))),
    flag("log-size-limit", SIZE, "0")
        .builder("StorageOptions::log_size_limit")
        .key("txnLogSizeLimitInKb")
        .help("Begin a new log file after this size; 0 for no limit")
        .stores(|to, value| put(&mut to.storage.log_size_limit, value.size_limit())),
    flag("snap-count", COUNT, "100000")
        .builder("StorageOptions::snapshot_after_txns")
        .key("snapCount")
        .help("Write a snapshot after this many transactions")
        .stores(|to, value| put(&mut to.storage.snapshot_after_txns, value.transactions())),
    flag("snap-size-limit", SIZE, "4GiB")
        .builder("StorageOptions::snapshot_after_bytes")
        .key("snapSizeLimitInKb")
        .help("Write a snapshot after this size of log; 0 for no limit")
        .stores(|to, value| put(&mut to.storage.snapshot_after_bytes, value.size_limit())),
    flag("retain-snapshots", "COUNT|all", "3, or as autopurge of the zoo.cfg")
        .builder("StorageOptions::retain")
        .help("Keep this many snapshots, with the log since the oldest of them, or all")
        .stores(|to, value| put(&mut to.storage.retain, value.retention())),
    key("autopurge.purgeInterval", "HOURS", "0")
        .builder("StorageOptions::retain")
        .help(
            "Keep only some snapshots, as --retain-snapshots does; 0 or less keeps all. Purges after \
             each snapshot, whatever the number of hours",
        )
        .stores(|to, value| put(&mut to.parts.purge, value.purge_interval().map(Some))),
    key("autopurge.snapRetainCount", COUNT, "3")
        .builder("StorageOptions::retain")
        .help("How many snapshots a purge keeps, at least 3")
        .stores(|to, value| put(&mut to.parts.retained, value.retained().map(Some))),
    flag("snapshot-compression", "METHOD", "none")
        .builder("StorageOptions::compression")
        .key("snapshot.compression.method")
        .help("Compress snapshots: none, gz or snappy")
        .stores(|to, value| put(&mut to.storage.compression, value.compression())),
    flag("trust-empty-snapshot", BOOL, "false")
        .builder("StorageOptions::trust_empty_snapshot")
        .key("snapshot.trust.empty")
        .help("Start from a log without a snapshot, as a directory of ZooKeeper 3.4 may be")
        .stores(|to, value| put(&mut to.storage.trust_empty_snapshot, value.boolean())),
    key("datadir.autocreate", BOOL, "true")
        .builder("StorageOptions::create_directories")
        .help("Create directories that do not exist")
        .stores(|to, value| put(&mut to.storage.create_directories, value.boolean())),
    key("db.autocreate", BOOL, "true")
        .builder("StorageOptions::create_database")
        .help("Begin with an empty database in an empty directory, even without the file initialize")
        .stores(|to, value| put(&mut to.storage.create_database, value.boolean())),
    key("digest.enabled", BOOL, "true")
        .builder("StorageOptions::digests")
        .help("Write digests of the tree to the log and to snapshots")
        .stores(|to, value| put(&mut to.storage.digests, value.boolean())),
    key("serializeLastProcessedZxid.enabled", BOOL, "true")
        .builder("StorageOptions::last_zxid_section")
        .help("Write the last section of snapshots, which only 3.9 has")
        .stores(|to, value| put(&mut to.storage.last_zxid_section, value.boolean())),
];
