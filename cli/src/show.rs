//! `zoolet show`: prints a capture.

use std::path::PathBuf;
use std::process::ExitCode;

use zoolet_conformance::{Message, Messages};

use crate::failure::Failure;
use crate::json::JsonObject;
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
            lines.line(&if self.json { json(&message) } else { line(&message) })?;
        }
        lines.flush()?;
        if let Some(warning) = messages.warning() {
            warn(&warning);
        }
        Ok(ExitCode::SUCCESS)
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

fn json(message: &Message) -> String {
    let micros = i128::try_from(message.time.as_micros()).unwrap_or(i128::MAX);
    let object = JsonObject::new().number("microseconds", micros).number("connection", message.connection);
    let object = object.text("from", message.from).text("kind", message.kind);
    let object = match message.xid {
        Some(xid) => object.number("xid", xid),
        None => object,
    };
    let fields =
        message.fields.iter().fold(JsonObject::new(), |fields, (name, value)| fields.text(name, value));
    object.text("text", &message.text).object("fields", fields).finish()
}
