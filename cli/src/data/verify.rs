//! `zoolet data verify`: everything that is wrong with a directory.

use std::process::ExitCode;

use zoolet_storage::disk::RealDisk;
use zoolet_storage::verify;

use super::Source;
use super::progress::Progress;
use crate::failure::Failure;
use crate::output::Lines;
use crate::text::counted;

/// The arguments of `zoolet data verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    source: Source,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = self.source.options()?;
        let found = Progress::during("verifying", |report| verify(&RealDisk, &options, report))?;
        let mut lines = Lines::new();
        for note in &found.notes {
            lines.line(&format!("note: {note}"))?;
        }
        for fault in &found.faults {
            lines.line(&format!("fault: {fault}"))?;
        }
        let last = match found.last_zxid {
            Some(last) => format!("a server can open it, up to zxid {last}"),
            None => "a server cannot open it".to_owned(),
        };
        lines.line(&format!(
            "{}, {}, {}, {}: {last}",
            counted(found.snapshots, "snapshot"),
            counted(found.log_files, "log file"),
            counted(found.txns, "transaction"),
            counted(found.faults.len() as u64, "fault"),
        ))?;
        lines.flush()?;
        Ok(if found.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
