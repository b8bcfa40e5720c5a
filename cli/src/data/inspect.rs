//! `zoolet data inspect`: the files of a directory, and what is in each.

use std::path::Path;
use std::process::ExitCode;

use zoolet_proto::Zxid;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::log::LogEnd;
use zoolet_storage::{
    InspectedLog, InspectedSnapshot, Inspection, LogSummary, SnapshotSummary, StorageError, inspect,
};

use super::Source;
use super::print::{counted, time_text};
use super::progress::Progress;
use crate::failure::Failure;
use crate::json::{JsonObject, quoted as json_text};
use crate::output::Lines;
use crate::size;

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
        let mut progress = Progress::start("reading");
        let found = inspect(&RealDisk, &options, &mut |done, total| progress.report(done, total))?;
        drop(progress);
        let mut lines = Lines::new();
        let described = if self.json { json(&found) } else { text(&found) };
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
        lines.push(format!("{}\t{}\t{content}", name(&file.path), size::text(file.len)));
    }
    for InspectedLog { file, content, .. } in &found.logs {
        let content = described(content, log_text);
        lines.push(format!("{}\t{}\t{content}", name(&file.path), size::text(file.len)));
    }
    for (name, epoch) in [("currentEpoch", &found.current_epoch), ("acceptedEpoch", &found.accepted_epoch)] {
        match epoch {
            Ok(None) => {}
            Ok(Some(epoch)) => lines.push(format!("{name}\t\tepoch {epoch} of an ensemble")),
            Err(error) => lines.push(format!("{name}\t\tdamaged: {error}")),
        }
    }
    lines.extend(
        found.foreign.iter().map(|path| format!("{}\t\tno server gives this name; ignored", name(path))),
    );
    let leftover = "left by a server that ended while writing it; ignored";
    lines.extend(found.leftovers.iter().map(|path| format!("{}\t\t{leftover}", name(path))));
    lines.extend(found.damage.iter().map(|damage| format!("damaged: {damage}")));
    lines
}

fn described<T>(content: &Result<T, StorageError>, text: fn(&T) -> String) -> String {
    match content {
        Ok(content) => text(content),
        Err(error) => format!("damaged: {error}"),
    }
}

fn name(path: &Path) -> String {
    crate::text::quoted(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
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

fn json(found: &Inspection) -> Vec<String> {
    let mut lines = Vec::new();
    for InspectedSnapshot { file, content, .. } in &found.snapshots {
        lines.push(file_json("snapshot", &file.path, Some(file.len), content, snapshot_json));
    }
    for InspectedLog { file, content, .. } in &found.logs {
        lines.push(file_json("log", &file.path, Some(file.len), content, log_json));
    }
    for (name, epoch) in [("currentEpoch", &found.current_epoch), ("acceptedEpoch", &found.accepted_epoch)] {
        if !matches!(epoch, Ok(None)) {
            let put = |json: JsonObject, epoch: &Option<i64>| json.number_or_null("epoch", *epoch);
            lines.push(file_json("epoch", Path::new(name), None, epoch, put));
        }
    }
    let other = |kind, path: &Path| JsonObject::new().text("kind", kind).text("file", &name(path)).finish();
    lines.extend(found.foreign.iter().map(|path| other("foreign", path)));
    lines.extend(found.leftovers.iter().map(|path| other("leftover", path)));
    let damage = |error| JsonObject::new().text("kind", "directory").display("damage", error).finish();
    lines.extend(found.damage.iter().map(damage));
    lines
}

fn file_json<T>(
    kind: &str,
    path: &Path,
    len: Option<u64>,
    content: &Result<T, StorageError>,
    put: impl Fn(JsonObject, &T) -> JsonObject,
) -> String {
    let json = JsonObject::new().text("kind", kind).text("file", &name(path));
    let json = match len {
        Some(len) => json.number("length", len),
        None => json,
    };
    match content {
        Ok(content) => put(json, content),
        Err(error) => json.display("damage", error),
    }
    .finish()
}

fn snapshot_json(json: JsonObject, summary: &SnapshotSummary) -> JsonObject {
    let json = json
        .number("znodes", summary.znodes)
        .number("ephemerals", summary.ephemerals)
        .number("dataLength", summary.data_len)
        .number("sessions", summary.sessions)
        .number("acls", summary.acls);
    let json = match summary.digest.and_then(|digest| Some((digest.zxid, digest.digest?))) {
        Some((zxid, digest)) => {
            json.display("digestZxid", zxid).display("digest", format_args!("{digest:#x}"))
        }
        None => json,
    };
    let json = match summary.last_zxid {
        Some(last) => json.display("lastZxid", last),
        None => json,
    };
    json.array("missingAcls", summary.missing_acls.iter().map(|missing| json_text(&missing.path)))
}

fn log_json(json: JsonObject, summary: &LogSummary) -> JsonObject {
    let mut json = json.number("transactions", summary.txns).number("refused", summary.refused);
    for (zxid_key, time_key, txn) in
        [("first", "firstTime", summary.first), ("last", "lastTime", summary.last)]
    {
        if let Some((zxid, time)) = txn {
            json = json.display(zxid_key, zxid).number(time_key, time);
        }
    }
    let json = json
        .number("sessionsOpened", summary.sessions_opened)
        .number("sessionsClosed", summary.sessions_closed)
        .number("used", summary.used);
    let (end, fault) = match summary.end {
        LogEnd::Torn { fault, .. } => ("torn", Some(fault)),
        LogEnd::Damaged { fault, .. } => ("damaged", Some(fault)),
        _ => ("complete", None),
    };
    let json = json.text("end", end).number("endOffset", summary.end.offset());
    match fault {
        Some(fault) => json.display("fault", fault),
        None => json,
    }
}
