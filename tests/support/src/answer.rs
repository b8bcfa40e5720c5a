//! What a server sends, and short ways to write what it must send: `reply(1).data("old")`.

use std::fmt;

use bytes::Bytes;
use zoolet_proto::records::OpResult;
use zoolet_proto::{Acl, ErrorCode, EventType, Reply, Stat, Xid};

/// A frame after the handshake.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    Answer(Answer),
    Event(Event),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub xid: Xid,
    pub zxid: i64,
    pub error: Option<ErrorCode>,
    pub reply: Reply,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub zxid: i64,
    pub kind: EventType,
    pub path: String,
}

impl Frame {
    pub fn answer(self) -> Answer {
        match self {
            Self::Answer(answer) => answer,
            Self::Event(event) => panic!("{event:?} where an answer was expected"),
        }
    }

    pub fn event(self) -> Event {
        match self {
            Self::Event(event) => event,
            Self::Answer(answer) => panic!("{answer:?} where an event was expected"),
        }
    }
}

impl Answer {
    pub fn data(&self) -> Option<Bytes> {
        match &self.reply {
            Reply::Data(data, _) => data.clone(),
            other => panic!("no data in {other:?}"),
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.data().expect("data").to_vec()).expect("text")
    }

    pub fn path(&self) -> &str {
        match &self.reply {
            Reply::Created(path) | Reply::Created2(path, _) => path,
            other => panic!("no path in {other:?}"),
        }
    }

    pub fn names(&self) -> Vec<String> {
        match &self.reply {
            Reply::Children(names) | Reply::Children2(names, _) => names.iter().collect(),
            Reply::Ephemerals(paths) => paths.clone(),
            other => panic!("no names in {other:?}"),
        }
    }

    pub fn stat(&self) -> Stat {
        match &self.reply {
            Reply::Stat(stat)
            | Reply::Created2(_, stat)
            | Reply::Data(_, stat)
            | Reply::Acl(_, stat)
            | Reply::Children2(_, stat) => *stat,
            other => panic!("no stat in {other:?}"),
        }
    }

    pub fn results(&self) -> &[OpResult] {
        match &self.reply {
            Reply::Multi(results) => results,
            other => panic!("no results in {other:?}"),
        }
    }

    pub fn acl(&self) -> Vec<Acl> {
        match &self.reply {
            Reply::Acl(acl, _) => acl.clone(),
            other => panic!("no ACL in {other:?}"),
        }
    }

    pub fn count(&self) -> i32 {
        match &self.reply {
            Reply::Count(count) => *count,
            other => panic!("no count in {other:?}"),
        }
    }

    /// The error code of each operation of a failed multi; 0 for those before the failure.
    pub fn codes(&self) -> Vec<i32> {
        let code = |result: &OpResult| match result {
            OpResult::Error(code) => code.map_or(0, ErrorCode::code),
            other => panic!("{other:?} in a failed multi"),
        };
        self.results().iter().map(code).collect()
    }

    /// The data that a multiRead of getData returned, as text.
    pub fn texts(&self) -> Vec<String> {
        let text = |result: &OpResult| match result {
            OpResult::GetData(Some(data), _) => String::from_utf8_lossy(data).into_owned(),
            other => panic!("no data in {other:?}"),
        };
        self.results().iter().map(text).collect()
    }
}

/// What the next frame must be. What is left open may be anything.
#[derive(Debug)]
pub struct Expected {
    frame: ExpectedFrame,
    zxid: Option<i64>,
}

#[derive(Debug)]
enum ExpectedFrame {
    Reply(i32, ExpectedBody),
    Event(EventType, String),
}

#[derive(Debug)]
enum ExpectedBody {
    Any,
    Error(ErrorCode),
    Data(String),
    Path(String),
}

/// A reply that succeeded, unless [`Expected::error`] is called.
pub fn reply(xid: i32) -> Expected {
    Expected { frame: ExpectedFrame::Reply(xid, ExpectedBody::Any), zxid: None }
}

pub fn event(kind: EventType, path: &str) -> Expected {
    Expected { frame: ExpectedFrame::Event(kind, path.to_owned()), zxid: None }
}

impl Expected {
    pub fn error(self, code: ErrorCode) -> Self {
        self.body(ExpectedBody::Error(code))
    }

    pub fn data(self, data: &str) -> Self {
        self.body(ExpectedBody::Data(data.to_owned()))
    }

    pub fn path(self, path: &str) -> Self {
        self.body(ExpectedBody::Path(path.to_owned()))
    }

    pub fn zxid(mut self, zxid: i64) -> Self {
        self.zxid = Some(zxid);
        self
    }

    fn body(mut self, body: ExpectedBody) -> Self {
        if let ExpectedFrame::Reply(_, old) = &mut self.frame {
            *old = body;
        }
        self
    }

    /// Fails the test if `frame` is anything else.
    pub fn check(&self, frame: &Frame) {
        let fits = match (&self.frame, frame) {
            (ExpectedFrame::Event(kind, path), Frame::Event(event)) => {
                event.kind == *kind && event.path == *path && self.zxid.is_none_or(|zxid| zxid == event.zxid)
            }
            (ExpectedFrame::Reply(xid, body), Frame::Answer(answer)) => {
                answer.xid == Xid(*xid)
                    && body.fits(answer)
                    && self.zxid.is_none_or(|zxid| zxid == answer.zxid)
            }
            _ => false,
        };
        assert!(fits, "expected {self}\n but got {frame:?}");
    }
}

impl ExpectedBody {
    fn fits(&self, answer: &Answer) -> bool {
        match self {
            Self::Any => answer.error.is_none(),
            Self::Error(code) => answer.error == Some(*code),
            Self::Data(text) => answer.error.is_none() && answer.text() == *text,
            Self::Path(path) => answer.error.is_none() && answer.path() == path,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.frame)?;
        self.zxid.map_or(Ok(()), |zxid| write!(f, " with zxid {zxid}"))
    }
}
