//! `zoolet data repair`, `export` and `import`: the data of a directory, written anew into another one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::{Compression, StorageOptions, copy};

use super::print::written_text;
use super::progress::Progress;
use super::{Source, warn_of, zxid};
use crate::failure::Failure;
use crate::output::{Lines, warn};
use crate::settings;
use crate::settings::compression;

/// The arguments of `zoolet data repair`.
#[derive(Debug, clap::Args)]
pub(crate) struct Repair {
    /// The last transaction to keep, such as 0x2b. What is after it is lost
    #[arg(long, value_name = "ZXID", value_parser = zxid)]
    cut_at: Zxid,

    #[command(flatten)]
    directories: Directories,
}

/// The arguments of `zoolet data export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    directories: Directories,

    /// Compress the snapshot: none, gz or snappy. Servers before ZooKeeper 3.6 read none only
    #[arg(long, value_name = "METHOD", value_parser = compression, default_value = "none")]
    compression: Compression,

    /// Leave out the digest, for a server with digest.enabled=false, which cannot read a snapshot that has one
    #[arg(long)]
    no_digest: bool,
}

/// The arguments of `zoolet data import`, and of the others: a data directory, and one that does not exist or is empty.
#[derive(Debug, clap::Args)]
pub(crate) struct Directories {
    #[command(flatten)]
    source: Source,

    /// The new data directory: one that does not exist, or is empty
    #[arg(long, value_name = "DIR", value_parser = settings::directory)]
    to: PathBuf,

    /// The directory of its transaction log, if it is another one
    #[arg(long, value_name = "DIR", value_parser = settings::directory)]
    to_log_dir: Option<PathBuf>,
}

impl Repair {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.directories.copy(Some(self.cut_at), |_| {})
    }
}

impl Export {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.directories.copy(None, |to| {
            to.compression = self.compression;
            to.digests = !self.no_digest;
        })
    }
}

impl Directories {
    /// Copies the data, as far as a transaction if one is given, and prints what was written. `set` changes the settings of the copy.
    pub(super) fn copy(
        &self,
        cut_at: Option<Zxid>,
        set: impl FnOnce(&mut StorageOptions),
    ) -> Result<ExitCode, Failure> {
        let from = self.source.options()?;
        let mut to = StorageOptions::new(&self.to);
        to.log_dir = self.to_log_dir.clone().filter(|log_dir| *log_dir != self.to);
        set(&mut to);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let copied =
            Progress::during("copying", |report| copy((&RealDisk, &from), (&disk, &to), cut_at, report))?;
        warn_of(&copied.report);
        if copied.names_members {
            warn(
                "the znode /zookeeper/config names the members of an ensemble, and Curator connects to them; let the superuser set it to \
                 nothing once a server runs alone on this copy",
            );
        }
        let mut lines = Lines::new();
        lines.line(&written_text(
            &copied.snapshot,
            copied.zxid,
            copied.znodes,
            copied.sessions,
            copied.len,
        ))?;
        lines.end()
    }
}
