//! [`Matcher`]: what a fault is to meet.

use std::fmt;
use std::net::IpAddr;

use zoolet_proto::{OpCode, OpKind, SessionId};
use zoolet_server_core::Input;

use crate::fault::error::FaultError;
use crate::fault::glob::Glob;

/// What a fault is to meet: begins with [`connection`], [`handshake`], [`request`], [`create`] or [`op`], and is narrowed
/// from there.
///
/// Without [`nth`](Matcher::nth) or [`times`](Matcher::times) it meets everything that fits, until it is removed.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a matcher is for `Faults::on`"]
pub struct Matcher {
    what: Target,
    path: Option<Glob>,
    session: Option<SessionId>,
    client: Option<IpAddr>,
    count: Option<Count>,
    probability: Option<f64>,
    mistake: Option<FaultError>,
}

/// Which of those that fit are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Nth(u64),
    First(u64),
}

/// The kind of thing that is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Connection,
    Handshake,
    Create,
    Request(Option<OpCode>),
}

/// A new connection, before anything is read from it.
pub fn connection() -> Matcher {
    Matcher::new(Target::Connection)
}

/// The connect request with which a session is opened or resumed.
pub fn handshake() -> Matcher {
    Matcher::new(Target::Handshake)
}

/// Every request behind the handshake, pings included.
pub fn request() -> Matcher {
    Matcher::new(Target::Request(None))
}

/// Every create outside of a multi, whatever its opcode: clients choose between create, create2, createContainer and
/// createTTL.
pub fn create() -> Matcher {
    Matcher::new(Target::Create)
}

/// Every request of one opcode. For creates [`create`] is surer: which of their opcodes a client sends is up to it.
pub fn op(op: OpCode) -> Matcher {
    let mut matcher = Matcher::new(Target::Request(Some(op)));
    if op == OpCode::CreateSession {
        matcher.note(FaultError::NoRequest);
    }
    matcher
}

impl Matcher {
    fn new(what: Target) -> Self {
        Self { what, path: None, session: None, client: None, count: None, probability: None, mistake: None }
    }

    /// Only requests about a path that fits: `*` stands for any text within a name, `**` for zero or more whole names.
    /// A multi fits by any of its operations; a sequential create by the path before its number is added.
    pub fn path(mut self, pattern: &str) -> Self {
        match Glob::new(pattern) {
            Ok(glob) => self.once(|matcher| matcher.path.replace(glob).is_some(), "path"),
            Err(hint) => self.note(FaultError::Pattern { pattern: pattern.to_owned(), hint }),
        }
        let has_path = match self.what {
            Target::Connection | Target::Handshake => false,
            Target::Create => true,
            Target::Request(op) => op.is_none_or(OpCode::has_path),
        };
        if !has_path {
            self.note(FaultError::NoPath { what: self.what.to_string() });
        }
        self
    }

    /// Only what one session sends, its resuming included.
    pub fn session(mut self, id: SessionId) -> Self {
        if self.what == Target::Connection {
            self.note(FaultError::NoSession);
        }
        self.once(|matcher| matcher.session.replace(id).is_some(), "session");
        self
    }

    /// Only what comes from one address.
    pub fn client(mut self, ip: IpAddr) -> Self {
        self.once(|matcher| matcher.client.replace(ip.to_canonical()).is_some(), "client");
        self
    }

    /// Only the `n`th that fits, counted from 1, from the placing of the fault on. What an older fault has met is not
    /// counted: a younger one is not asked about it. What the server refuses is: the first create of a lock, say, where its
    /// directory is not there yet.
    pub fn nth(mut self, n: u64) -> Self {
        self.count(Count::Nth(n), n);
        self
    }

    /// Only the first `n` that fit. What an older fault has met is not counted, as with [`nth`](Matcher::nth).
    pub fn times(mut self, n: u64) -> Self {
        self.count(Count::First(n), n);
        self
    }

    /// Only a share of those that fit, drawn from the seed: 0 is none and 1 is all. For what an older fault has met
    /// nothing is drawn, as it is not counted by [`nth`](Matcher::nth).
    pub fn probability(mut self, share: f64) -> Self {
        if !(0.0..=1.0).contains(&share) {
            self.note(FaultError::Probability { share });
        }
        self.once(|matcher| matcher.probability.replace(share).is_some(), "probability");
        self
    }

    fn count(&mut self, count: Count, n: u64) {
        if n == 0 {
            self.note(FaultError::Never);
        }
        if self.count.replace(count).is_some() {
            self.note(FaultError::CountedTwice);
        }
    }

    /// Sets what may be set once; `set` says whether it was.
    fn once(&mut self, set: impl FnOnce(&mut Self) -> bool, what: &'static str) {
        if set(self) {
            self.note(FaultError::Twice { what });
        }
    }

    /// The first mistake is the one to tell.
    fn note(&mut self, mistake: FaultError) {
        self.mistake.get_or_insert(mistake);
    }

    pub(crate) fn checked(self) -> Result<Self, FaultError> {
        match self.mistake {
            Some(mistake) => Err(mistake),
            None => Ok(self),
        }
    }

    pub(crate) fn what(&self) -> Target {
        self.what
    }

    pub(crate) fn counts(&self) -> Option<Count> {
        self.count
    }

    pub(crate) fn share(&self) -> Option<f64> {
        self.probability
    }

    /// Whether it meets everything that fits, for ever.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.count.is_none() && self.probability.is_none_or(|share| share >= 1.0)
    }

    /// Whether it fits, leaving aside how often.
    pub(crate) fn fits(&self, subject: &Subject<'_>) -> bool {
        let what = match (self.what, subject.input) {
            (Target::Connection, Input::Open { .. }) | (Target::Handshake, Input::Connect(_)) => true,
            (Target::Request(op), Input::Request(incoming)) => op.is_none_or(|op| op.code() == incoming.op),
            (Target::Create, Input::Request(incoming)) => {
                OpCode::from_code(incoming.op).is_some_and(is_create)
            }
            _ => false,
        };
        let path = || match (&self.path, subject.input) {
            (None, _) => true,
            (Some(glob), Input::Request(incoming)) => incoming
                .body
                .as_ref()
                .is_ok_and(|request| request.paths().into_iter().any(|path| glob.matches(path))),
            _ => false,
        };
        what && self.session.is_none_or(|id| subject.session == Some(id))
            && self.client.is_none_or(|ip| subject.client == Some(ip))
            && path()
    }

    /// Whether everything that fits the other one fits this one.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let what = match (self.what, other.what) {
            (Target::Request(None), Target::Request(_) | Target::Create) => true,
            (Target::Create, Target::Request(Some(op))) => is_create(op),
            (this, other) => this == other,
        };
        what && (self.path.is_none() || self.path == other.path)
            && (self.session.is_none() || self.session == other.session)
            && (self.client.is_none() || self.client == other.client)
    }
}

fn is_create(op: OpCode) -> bool {
    op.kind() == OpKind::Create
}

/// What a matcher is held against.
pub(crate) struct Subject<'i> {
    pub(crate) input: &'i Input,
    pub(crate) session: Option<SessionId>,
    pub(crate) client: Option<IpAddr>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection => f.write_str("connection"),
            Self::Handshake => f.write_str("handshake"),
            Self::Create => f.write_str("create of any kind"),
            Self::Request(None) => f.write_str("request"),
            Self::Request(Some(op)) => write!(f, "{op:?}"),
        }
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)?;
        if let Some(path) = &self.path {
            write!(f, " {path}")?;
        }
        if let Some(session) = self.session {
            write!(f, " of session {session}")?;
        }
        if let Some(client) = self.client {
            write!(f, " from {client}")?;
        }
        match self.count {
            Some(Count::Nth(n)) => write!(f, ", number {n}")?,
            Some(Count::First(n)) => write!(f, ", the first {n}")?,
            None => {}
        }
        match self.probability {
            Some(share) => write!(f, ", with probability {share}"),
            None => Ok(()),
        }
    }
}
