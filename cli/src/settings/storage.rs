//! The settings of the data directory that flags and `zoo.cfg` have in common.

use std::path::PathBuf;
use std::time::Duration;

use zoolet_storage::{Compression, Durability, StorageOptions};

use crate::settings::written;
use crate::{duration, size};

/// The settings of the data directory that were given. All others keep the defaults of [`StorageOptions`].
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct StorageSettings {
    /// Keep the state in this directory, in the format of Apache ZooKeeper [default: in memory]
    #[arg(long, value_name = "DIR", value_parser = written::directory)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Keep the transaction log in this directory [default: the data directory]
    #[arg(long, value_name = "DIR", value_parser = written::directory)]
    pub(crate) log_dir: Option<PathBuf>,

    /// Keep the state in memory although the zoo.cfg has a dataDir
    #[arg(long, conflicts_with_all = ["data_dir", "log_dir"])]
    pub(crate) in_memory: bool,

    /// What an acknowledged write survives: sync, also a power loss, or os, only the end of this process [default: sync]
    #[arg(long, value_name = "sync|os", value_parser = durability)]
    pub(crate) durability: Option<Durability>,

    /// Warn of a sync of the log that takes longer [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) slow_sync: Option<Duration>,

    /// Extend log files by this size at once; 0 for no more than is written [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) pre_alloc: Option<u64>,

    /// Begin a new log file after this size; 0 for no limit [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) log_size_limit: Option<u64>,

    /// Write a snapshot after this many transactions [default: 100000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..), allow_negative_numbers = true)]
    pub(crate) snap_count: Option<u64>,

    /// Write a snapshot after this size of log; 0 for no limit [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) snap_size_limit: Option<u64>,

    /// Keep this many snapshots, with the log since the oldest of them, or all [default: 3, or as autopurge of the zoo.cfg]
    #[arg(long, value_name = "COUNT|all", value_parser = retention, allow_negative_numbers = true)]
    pub(crate) retain_snapshots: Option<Retention>,

    /// Compress snapshots: none, gz or snappy [default: none]
    #[arg(long, value_name = "METHOD", value_parser = compression)]
    pub(crate) snapshot_compression: Option<Compression>,

    /// Start from a log without a snapshot, as a directory of ZooKeeper 3.4 may be [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) trust_empty_snapshot: Option<bool>,

    // Not flags: a zoo.cfg may have them.
    #[arg(skip)]
    pub(crate) create_directories: Option<bool>,
    #[arg(skip)]
    pub(crate) create_database: Option<bool>,
    #[arg(skip)]
    pub(crate) digests: Option<bool>,
    #[arg(skip)]
    pub(crate) last_zxid_section: Option<bool>,
}

/// Which snapshots are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    All,
    Newest(usize),
}

impl StorageSettings {
    /// These settings, completed by `fallback`.
    pub(crate) fn over(self, mut fallback: Self) -> Self {
        if self.data_dir.is_some() {
            // The log of another data directory.
            fallback.log_dir = None;
        }
        macro_rules! merged {
            ($($field:ident),*) => {
                Self { in_memory: self.in_memory || fallback.in_memory, $($field: self.$field.or(fallback.$field),)* }
            };
        }
        merged! {
            data_dir, log_dir, durability, slow_sync, pre_alloc, log_size_limit, snap_count, snap_size_limit,
            retain_snapshots, snapshot_compression, trust_empty_snapshot, create_directories, create_database, digests,
            last_zxid_section
        }
    }

    /// The options of the data directory; `None` if the state is in memory.
    pub(crate) fn options(self) -> Option<StorageOptions> {
        let data_dir = self.data_dir.as_ref().filter(|_| !self.in_memory)?;
        let mut options = StorageOptions::new(data_dir);
        options.log_dir = self.log_dir.filter(|log_dir| log_dir != data_dir);
        let set = |to: &mut bool, value: Option<bool>| *to = value.unwrap_or(*to);
        set(&mut options.trust_empty_snapshot, self.trust_empty_snapshot);
        set(&mut options.create_directories, self.create_directories);
        set(&mut options.create_database, self.create_database);
        set(&mut options.digests, self.digests);
        set(&mut options.last_zxid_section, self.last_zxid_section);
        let limit = |bytes: u64| (bytes > 0).then_some(bytes);
        options.durability = self.durability.unwrap_or(options.durability);
        options.slow_sync = self.slow_sync.unwrap_or(options.slow_sync);
        options.pre_alloc = self.pre_alloc.unwrap_or(options.pre_alloc);
        options.log_size_limit = self.log_size_limit.map_or(options.log_size_limit, limit);
        options.snapshot_after_txns = self.snap_count.unwrap_or(options.snapshot_after_txns);
        options.snapshot_after_bytes = self.snap_size_limit.map_or(options.snapshot_after_bytes, limit);
        options.compression = self.snapshot_compression.unwrap_or(options.compression);
        options.retain = match self.retain_snapshots {
            Some(Retention::All) => None,
            Some(Retention::Newest(count)) => Some(count),
            None => options.retain,
        };
        Some(options)
    }

    /// The flags that mean nothing without a data directory: a mistake, each of them, if there is none.
    pub(crate) fn without_data_dir(&self) -> impl Iterator<Item = NoDataDir> + use<> {
        let given = [
            (self.log_dir.is_some(), "--log-dir"),
            (self.durability.is_some(), "--durability"),
            (self.slow_sync.is_some(), "--slow-sync"),
            (self.pre_alloc.is_some(), "--pre-alloc"),
            (self.log_size_limit.is_some(), "--log-size-limit"),
            (self.snap_count.is_some(), "--snap-count"),
            (self.snap_size_limit.is_some(), "--snap-size-limit"),
            (self.retain_snapshots.is_some(), "--retain-snapshots"),
            (self.snapshot_compression.is_some(), "--snapshot-compression"),
            (self.trust_empty_snapshot.is_some(), "--trust-empty-snapshot"),
        ];
        given.into_iter().filter_map(|(given, flag)| given.then_some(NoDataDir { flag }))
    }
}

/// A flag is given that means nothing without a data directory, and there is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{flag} requires a data directory; set --data-dir (dataDir), or remove it to keep the state in memory"
)]
pub(crate) struct NoDataDir {
    flag: &'static str,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        _ => Err("must be sync or os".to_owned()),
    }
}

/// Parses the name of a compression as on the command line.
pub(crate) fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        _ => written::compression(text).map_err(|_| "must be none, gz or snappy".to_owned()),
    }
}

fn retention(text: &str) -> Result<Retention, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Retention::All),
        (_, Ok(count)) if count > 0 => Ok(Retention::Newest(count)),
        _ => Err("must be a number of snapshots, at least 1, or all".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_dir(dir: &str) -> StorageSettings {
        StorageSettings { data_dir: Some(dir.into()), ..StorageSettings::default() }
    }

    #[test]
    fn without_a_data_directory_the_state_is_in_memory() {
        assert!(StorageSettings::default().options().is_none());
        assert!(StorageSettings { in_memory: true, ..in_dir("/data") }.options().is_none());
        assert_eq!(in_dir("/data").options().unwrap().data_dir, PathBuf::from("/data"));
    }

    #[test]
    fn a_limit_of_zero_is_no_limit() {
        let settings =
            StorageSettings { snap_size_limit: Some(0), log_size_limit: Some(0), ..in_dir("/data") };
        let options = settings.options().unwrap();
        assert_eq!((options.snapshot_after_bytes, options.log_size_limit), (None, None));
    }

    #[test]
    fn the_directory_of_the_log_belongs_to_its_data_directory() {
        let file =
            || StorageSettings { log_dir: Some("/log".into()), snap_count: Some(7), ..in_dir("/data") };
        let other = in_dir("/other").over(file()).options().unwrap();
        assert_eq!((other.log_dir, other.snapshot_after_txns), (None, 7));
        let both = StorageSettings::default().over(file()).options().unwrap();
        assert_eq!((both.data_dir, both.log_dir), ("/data".into(), Some("/log".into())));
        let same = StorageSettings { log_dir: Some("/data".into()), ..in_dir("/data") };
        assert_eq!(same.options().unwrap().log_dir, None);
    }

    #[test]
    fn all_snapshots_or_some_number_of_them_are_kept() {
        let kept = |text| {
            let settings = StorageSettings { retain_snapshots: Some(retention(text)?), ..in_dir("/data") };
            Ok::<_, String>(settings.options().unwrap().retain)
        };
        assert_eq!([kept("all"), kept("1"), kept("20")], [Ok(None), Ok(Some(1)), Ok(Some(20))]);
        for text in ["0", "-1", "none", ""] {
            assert!(kept(text).unwrap_err().contains("at least 1"), "{text}");
        }
    }
}
