//! [`Messages`]: a capture as text.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::format::{OBSERVER, Record, RecordKind, Records};
use crate::error::CaptureError;
use crate::history::Side;
use crate::wire::conversation::{Conversation, FromClient, FromServer};
use crate::wire::fields::{Fields, Value, named, of_connect, of_connected, of_event, reply_fields, show};
use crate::wire::requests::{of_incoming, operation_or_number};

/// A message of a client or a server, or another thing that has happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Since the begin of the capture.
    pub time: Duration,
    /// The number of the connection. They are counted from 1; 0 is the capture itself, which watches what is deleted.
    pub connection: u32,
    /// `opened`, `connect`, `request`, `connected`, `reply`, `event`, `bytes` or `ended`.
    pub kind: &'static str,
    /// Who it is from: `client` or `server`.
    pub from: &'static str,
    /// The number that the client has given the request.
    pub xid: Option<i32>,
    /// What it says, in the words of cases.
    pub text: String,
    /// Its fields, as `text` prints them.
    pub fields: Vec<(&'static str, String)>,
}

/// Reads the messages of a capture, one after the other.
#[derive(Debug)]
pub struct Messages {
    records: Records,
    conversations: HashMap<u32, Conversation>,
}

impl Messages {
    /// Opens a capture.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a capture.
    pub fn open(file: &Path) -> Result<Self, CaptureError> {
        Ok(Self { records: Records::open(file)?, conversations: HashMap::new() })
    }

    /// The next message; none at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    #[allow(clippy::should_implement_trait, reason = "an error ends it")]
    pub fn next(&mut self) -> Result<Option<Message>, CaptureError> {
        Ok(self.records.next()?.map(|record| self.message(&record)))
    }

    /// At the end: what to say if the file breaks off, as that of a capture does that was killed.
    pub fn warning(&self) -> Option<String> {
        self.records.warning()
    }

    fn message(&mut self, record: &Record) -> Message {
        let Record { time, connection, kind, content } = record;
        let conversation = self.conversations.entry(*connection).or_insert_with(|| match *connection {
            OBSERVER => Conversation::established(),
            _ => Conversation::default(),
        });
        let (kind, from, xid, mut fields) = match kind {
            RecordKind::Opened => ("opened", "client", None, named("opened")),
            RecordKind::Ended(Side::Client) => ("ended", "client", None, named("ended")),
            // No record of the end of the capture is returned.
            RecordKind::Ended(Side::Server) | RecordKind::Finished => {
                ("ended", "server", None, named("ended"))
            }
            RecordKind::Bytes(end) => {
                let from = if *end == Side::Client { "client" } else { "server" };
                let bytes = ("bytes", Value::Data(Some(content.clone())));
                ("bytes", from, None, vec![("result", Value::Text("bytes".to_owned())), bytes])
            }
            RecordKind::Frame(Side::Client) => match conversation.from_client(content) {
                Ok(FromClient::Connect(connect)) => ("connect", "client", None, of_connect(&connect)),
                Ok(FromClient::Request(request)) => {
                    ("request", "client", Some(request.xid.0), of_incoming(&request, content))
                }
                Err(why) => ("bytes", "client", None, invalid(&why, record)),
            },
            RecordKind::Frame(Side::Server) => match conversation.from_server(content) {
                Ok(FromServer::Connected(response)) => {
                    let mut fields = of_connected(&response);
                    fields.retain(|(name, _)| *name != "password");
                    ("connected", "server", None, fields)
                }
                Ok(FromServer::Event(zxid, event)) => ("event", "server", None, of_event(zxid, &event)),
                Ok(FromServer::Reply { header, op, reply, .. }) => {
                    let mut fields = reply_fields(header.err, header.zxid, &reply);
                    let name = op.map_or_else(|| "unasked".to_owned(), operation_or_number);
                    fields.insert(0, ("op", Value::Text(name)));
                    ("reply", "server", Some(header.xid.0), fields)
                }
                Err(why) => ("bytes", "server", None, invalid(&why, record)),
            },
        };
        fields.iter_mut().for_each(readable);
        let text = match &fields[..] {
            [("op", name), rest @ ..] => format!("{name} -> {}", show(rest)),
            fields => show(fields),
        };
        let is_answer = ["connected", "reply", "event"].contains(&kind);
        let name = |name| if name == "result" && !is_answer { "op" } else { name };
        let fields = fields.iter().map(|(field, value)| (name(*field), value.to_string())).collect();
        Message { time: *time, connection: *connection, kind, from, xid, text, fields }
    }
}

fn invalid(why: &str, record: &Record) -> Fields {
    let mut fields = named("invalid");
    fields.push(("why", Value::Text(why.to_owned())));
    fields.push(("bytes", Value::Data(Some(record.content.clone()))));
    fields
}

/// Ids in hexadecimal, as ZooKeeper prints them.
fn readable((name, value): &mut (&'static str, Value)) {
    match value {
        Value::Int(id)
            if matches!(
                *name,
                "zxid" | "since" | "czxid" | "mzxid" | "pzxid" | "session" | "ephemeralOwner"
            ) && *id > 9 =>
        {
            *value = Value::Text(format!("{id:#x}"));
        }
        Value::Results(results) => results.iter_mut().flatten().for_each(readable),
        _ => {}
    }
}
