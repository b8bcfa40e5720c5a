//! `zoolet data inspect`: the files of a directory, and what is in each.

use std::process::ExitCode;

use zoolet_proto::Zxid;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::log::LogEnd;
use zoolet_storage::{
    InspectedLog, InspectedSnapshot, Inspection, LogSummary, SnapshotSummary, StorageError, inspect,
};

use super::print::{file_name, time_text};
use super::progress::Progress;
use super::{Source, json};
use crate::failure::Failure;
use crate::output::Lines;
use crate::size;
use crate::text::counted;

/// The arguments of `zoolet data inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    source: Source,

    /// Print a JSON object for each file, each in a line
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = self.source.options()?;
        let found = Progress::during("reading", |report| inspect(&RealDisk, &options, report))?;
        let mut lines = Lines::new();
        let described = if self.json { json::files(&found) } else { text(&found) };
        described.iter().try_for_each(|line| lines.line(line))?;
        lines.flush()?;
        Ok(if is_damaged(&found) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Whether there is something that cannot be read. A torn end can be cut.
fn is_damaged(found: &Inspection) -> bool {
    let log = |log: &InspectedLog| {
        log.content.as_ref().map_or(true, |log| matches!(log.end, LogEnd::Damaged { .. }))
    };
    found.damage.is_some()
        || found.snapshots.iter().any(|snapshot| snapshot.content.is_err())
        || found.logs.iter().any(log)
        || found.current_epoch.is_err()
        || found.accepted_epoch.is_err()
}

fn text(found: &Inspection) -> Vec<String> {
    let mut lines = Vec::new();
    for InspectedSnapshot { file, content, .. } in &found.snapshots {
        let content = described(content, snapshot_text);
        lines.push(format!("{}\t{}\t{content}", file_name(&file.path), size::text(file.len)));
    }
    for InspectedLog { file, content, .. } in &found.logs {
        let content = described(content, log_text);
        lines.push(format!("{}\t{}\t{content}", file_name(&file.path), size::text(file.len)));
    }
    for (name, epoch) in [("currentEpoch", &found.current_epoch), ("acceptedEpoch", &found.accepted_epoch)] {
        match epoch {
            Ok(None) => {}
            Ok(Some(epoch)) => lines.push(format!("{name}\t\tepoch {epoch} of an ensemble")),
            Err(error) => lines.push(format!("{name}\t\tdamaged: {error}")),
        }
    }
    lines.extend(
        found.foreign.iter().map(|path| format!("{}\t\tno server gives this name; ignored", file_name(path))),
    );
    let leftover = "left by a server that ended while writing it; ignored";
    lines.extend(found.leftovers.iter().map(|path| format!("{}\t\t{leftover}", file_name(path))));
    lines.extend(found.damage.iter().map(|damage| format!("damaged: {damage}")));
    lines
}

fn described<T>(content: &Result<T, StorageError>, text: fn(&T) -> String) -> String {
    match content {
        Ok(content) => text(content),
        Err(error) => format!("damaged: {error}"),
    }
}

fn snapshot_text(summary: &SnapshotSummary) -> String {
    let mut text = format!(
        "{}, {}, {} of data, {}, {}",
        counted(summary.znodes, "znode"),
        counted(summary.ephemerals, "ephemeral"),
        size::text(summary.data_len),
        counted(summary.sessions, "session"),
        counted(summary.acls, "ACL"),
    );
    match summary.digest.map(|digest| (digest.zxid, digest.digest)) {
        Some((zxid, Some(digest))) => text.push_str(&format!(", digest {digest:#x} at zxid {zxid}")),
        Some((zxid, None)) => text.push_str(&format!(", digest of an old version at zxid {zxid}")),
        None => text.push_str(", no digest"),
    }
    if let Some(last) = summary.last_zxid {
        text.push_str(&format!(", last zxid {last}"));
    }
    if !summary.missing_acls.is_empty() {
        text.push_str(&format!(
            ", {} missing, which the log must set",
            counted(summary.missing_acls.len() as u64, "ACL")
        ));
    }
    text
}

fn log_text(summary: &LogSummary) -> String {
    let (Some(first), Some(last)) = (summary.first, summary.last) else {
        return format!("no transaction; {}", end_text(summary.end));
    };
    let at = |(zxid, time): (Zxid, i64)| format!("{zxid} ({})", time_text(time));
    format!(
        "{} from {} to {}, {} refused, {} used; {}",
        counted(summary.txns, "transaction"),
        at(first),
        at(last),
        summary.refused,
        size::text(summary.used),
        end_text(summary.end)
    )
}

fn end_text(end: LogEnd) -> String {
    match end {
        LogEnd::Torn { offset, fault } => format!("torn at byte {offset}: {fault}"),
        LogEnd::Damaged { offset, fault, next: Some((_, next)) } => {
            format!("damaged at byte {offset}: {fault}; the next transaction that can be read is {next}")
        }
        LogEnd::Damaged { offset, fault, next: None } => format!("damaged at byte {offset}: {fault}"),
        _ => "complete".to_owned(),
    }
}
