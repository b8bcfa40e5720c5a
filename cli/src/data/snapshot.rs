//! `zoolet data snapshot`: a fresh snapshot of a directory that no server uses.

use std::process::ExitCode;
use std::sync::Arc;

use zoolet_storage::disk::RealDisk;
use zoolet_storage::{Compression, Recovered};

use super::Source;
use super::files::{self, warn_of};
use super::output::Lines;
use super::progress::{Progress, WatchedDisk};
use crate::failure::Failure;
use crate::size;
use crate::storage_settings::compression;

/// The arguments of `zoolet data snapshot`.
#[derive(Debug, clap::Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    source: Source,

    /// How to compress it: none, gz or snappy
    #[arg(long, value_name = "METHOD", value_parser = compression, default_value = "none")]
    compression: Compression,
}

impl Snapshot {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut options = self.source.options()?;
        options.compression = self.compression;
        let progress = Progress::start();
        let disk = Arc::new(WatchedDisk::new(RealDisk, progress.clone()));
        let (storage, Recovered { mut tree, sessions, report, .. }) = zoolet_storage::open(disk, options)?;
        let written = files::write_snapshot(&storage.snapshots(), &mut tree, &sessions)?;
        progress.finish();
        warn_of(&report);
        let what = if written.kept { "is valid already" } else { "written" };
        let mut lines = Lines::new();
        lines.line(&format!(
            "{} {what}: zxid {}, {} znodes, {} sessions, {}",
            written.path.display(),
            written.zxid,
            written.znodes,
            sessions.len(),
            size::text(written.len)
        ))?;
        lines.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}
