//! `zoolet data snapshot`: a fresh snapshot of a directory that no server uses.

use std::process::ExitCode;
use std::sync::Arc;

use zoolet_storage::disk::RealDisk;
use zoolet_storage::{Compression, Published, Recovered, open_with};

use super::print::written_text;
use super::progress::Progress;
use super::{Source, warn_of};
use crate::failure::Failure;
use crate::output::{Lines, warn};
use crate::settings::compression;

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
        let opened = Progress::during("reading", |report| open_with(Arc::new(RealDisk), options, report));
        let (storage, Recovered { mut tree, sessions, report, .. }) = opened?;
        warn_of(&report);
        let header = tree.begin_snapshot();
        let mut writer = storage.snapshots().begin(header, &sessions)?;
        writer.add_tree(&mut tree, |_| {})?;
        let Published { path, zxid, znodes, len, kept, .. } = writer.finish()?;
        if kept {
            warn("there is a snapshot of this transaction already, and it is valid");
        }
        let mut lines = Lines::new();
        lines.line(&written_text(&path, zxid, znodes, sessions.len() as u64, len))?;
        lines.end()
    }
}
