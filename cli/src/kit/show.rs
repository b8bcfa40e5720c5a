//! `zoolet show`: prints a capture.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use zoolet_conformance::{Message, Messages};

use crate::failure::Failure;
use crate::json::joined;
use crate::output::{Lines, until_reader_leaves, warn};

/// The arguments of `zoolet show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The capture
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object for each message
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        until_reader_leaves(self.print())
    }

    fn print(&self) -> Result<ExitCode, Failure> {
        let mut messages = Messages::open(&self.file)?;
        let mut lines = Lines::new();
        loop {
            let next = messages.next();
            if next.is_err() {
                // What comes before the damage.
                lines.flush()?;
            }
            let Some(message) = next? else { break };
            lines.line(&if self.json { to_json(&message) } else { line(&message) })?;
        }
        let code = lines.end()?;
        messages.warning().iter().for_each(|warning| warn(warning));
        Ok(code)
    }
}

/// Seconds, connection, direction, xid, and what it says.
fn line(message: &Message) -> String {
    let arrow = if message.from == "client" { '>' } else { '<' };
    let xid = message.xid.map_or_else(|| "-".to_owned(), |xid| xid.to_string());
    let event = if message.kind == "event" { "event " } else { "" };
    format!(
        "{:11.6} #{:<3} {arrow} {xid:>5}  {event}{}",
        message.time.as_secs_f64(),
        message.connection,
        message.text
    )
}

fn to_json(message: &Message) -> String {
    let fields = message.fields.iter().map(|(name, value)| (name.to_string(), Value::from(value.as_str())));
    let fields: Map<_, _> = fields.collect();
    crate::json::line(&joined([
        json!({
            "microseconds": u64::try_from(message.time.as_micros()).unwrap_or(u64::MAX),
            "connection": message.connection,
            "from": message.from,
            "kind": message.kind,
        }),
        message.xid.map(|xid| json!({"xid": xid})).unwrap_or_default(),
        json!({"text": message.text, "fields": fields}),
    ]))
}
