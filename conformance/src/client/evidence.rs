//! [`Mistake`]: what a client did wrong, and the frame that shows it.

use std::fmt::{self, Write as _};
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::records::SetWatches2;
use zoolet_proto::{OpCode, Request, frame};

use crate::client::rule::ClientRule;
use crate::wire::conversation::FromClient;

/// How many bytes of a frame are shown.
const SHOWN: usize = 64;

/// A rule that a client has broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The rule.
    pub rule: ClientRule,
    /// What is wrong, in a sentence.
    pub reason: String,
    /// The first frame that shows it.
    pub frame: Evidence,
    /// How many more frames show it.
    pub again: usize,
}

/// A frame of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Its connection; the first one of a program is 1.
    pub connection: usize,
    /// When it came, from the start of the program.
    pub at: Duration,
    /// The frame, decoded.
    pub line: String,
    /// Its first bytes in hex, the length included. The credentials of an auth packet are left out.
    pub hex: String,
}

impl Evidence {
    pub(crate) fn new(
        connection: usize,
        at: Duration,
        payload: &Bytes,
        message: &Result<FromClient, String>,
    ) -> Self {
        let mut shown = SHOWN;
        let line = match message {
            Ok(FromClient::Connect(connect)) => format!(
                "connect session={} lastZxidSeen={} timeOut={}",
                connect.session, connect.last_zxid_seen, connect.timeout
            ),
            Ok(FromClient::Request(request)) => {
                let op = OpCode::from_code(request.op);
                let name = op.map_or_else(|| format!("opcode {}", request.op), |op| op.name().to_owned());
                if let Some(OpCode::Auth | OpCode::Sasl) = op {
                    shown = frame::PREFIX + 8;
                }
                let about = request.body.as_ref().map_or_else(|error| format!(" ({error})"), describe);
                format!("xid={} {name}{about}", request.xid)
            }
            Err(error) => error.clone(),
        };
        let kept = payload.len().min(shown - frame::PREFIX);
        let more = if payload.len() > kept { ".." } else { "" };
        let hex = format!("{:08x}{:x}{more}", payload.len(), payload.slice(..kept));
        Self { connection, at, line, hex }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}, {:.3} s: {}", self.connection, self.at.as_secs_f64(), self.line)
    }
}

/// What a request is about: its path and its watch, or its watches.
fn describe(request: &Request) -> String {
    match request {
        Request::SetWatches(set) => of_watches(&set.clone().into()),
        Request::SetWatches2(set) => of_watches(set),
        Request::Auth(auth) => format!(" {}", auth.scheme.as_deref().unwrap_or("null")),
        Request::Exists(read) => of_read(&read.path, read.watch),
        Request::GetData(read) => of_read(&read.path, read.watch),
        Request::GetChildren(read) | Request::GetChildren2(read) => of_read(&read.path, read.watch),
        _ => request.paths().iter().map(|path| format!(" {}", short(path))).collect(),
    }
}

fn of_watches(set: &SetWatches2) -> String {
    let mut text = format!(" relativeZxid={}", set.relative_zxid);
    for (name, paths) in [
        ("data", &set.data),
        ("exist", &set.exist),
        ("child", &set.child),
        ("persistent", &set.persistent),
        ("recursive", &set.recursive),
    ] {
        let Some(first) = paths.first() else { continue };
        let more = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
        let _ = write!(text, " {name}=[{}{more}]", short(first));
    }
    text
}

fn of_read(path: &str, watch: bool) -> String {
    format!(" {}{}", short(path), if watch { " watch" } else { "" })
}

/// A path, with its end left out if it is very long.
pub(crate) fn short(path: &str) -> String {
    match path.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &path[..end]),
        None => path.to_owned(),
    }
}
