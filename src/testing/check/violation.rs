//! What a check can end with besides a verdict: a broken rule, or a question that cannot be answered.

use std::fmt;

use zoolet_proto::{SessionId, Xid, Zxid};

use crate::testing::history::Conn;
use crate::testing::model::Unmodelled;

/// Why a history was not found good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A rule is broken.
    #[error("{0}")]
    Violation(Box<Violation>),
    /// Whether all rules were kept cannot be told.
    #[error("cannot tell: {0}")]
    Undecided(#[from] Undecided),
}

impl CheckError {
    /// The rule that was broken, if one was.
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Violation(violation) => Some(violation.rule),
            Self::Undecided(_) => None,
        }
    }
}

impl From<Violation> for CheckError {
    fn from(violation: Violation) -> Self {
        Self::Violation(Box::new(violation))
    }
}

/// A rule of ZooKeeper that a history breaks.
///
/// The first operation is where it shows; the second, if there is one, is what it cannot stand beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where it shows.
    pub operation: Operation,
    /// What the operation contradicts.
    pub other: Option<Operation>,
    /// What should have been.
    pub expected: String,
    /// What was.
    pub seen: String,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.rule)?;
        writeln!(f, "  {}", self.operation)?;
        if let Some(other) = &self.other {
            writeln!(f, "  beside {other}")?;
        }
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  seen:     {}", self.seen)
    }
}

macro_rules! rules {
    ($($row:ident = $text:literal;)*) => {
        /// What must hold of every history.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule { $(#[doc = $text] $row,)* }

        impl fmt::Display for Rule {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$row => $text,)* })
            }
        }
    };
}

rules! {
    ReadableFrames = "what a server sends decodes";
    RequestOrder = "replies come in the order of the requests, each request has one";
    ZxidsNeverFall = "on a connection zxids never fall";
    RealTime = "what was over before a request began is before it in the order of zxids";
    OwnZxid = "every write has a zxid of its own";
    DenseZxids = "zxids are dense";
    WriteResult = "a write answers what it does to the state of its zxid";
    ReadResult = "a read answers from the state of its zxid";
    Times = "a transaction has one time, not earlier than those before it";
    Handshake = "a new session is nobody else's, one is taken up again as itself, or refused";
    SessionEnd = "a session that has ended does and gets nothing more";
    EventBeforeReply = "an event comes before every reply that shows its change";
    EventOwed = "a change is told to everybody who watches it";
    EventUnasked = "an event tells a change to somebody who watches it";
    CatchUp = "watches set again tell what has changed since, before their reply";
    WatchResult = "a request about a watch answers from the watches of its connection";
    Transactions = "every transaction of the server is a request's or the server's own, every write one of them";
}

/// A request, an event or another step of a history, as a violation names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its connection; `None` for what the server did by itself or for others.
    pub conn: Option<Conn>,
    /// Its session, as far as it is known.
    pub session: Option<SessionId>,
    /// The number of the request.
    pub xid: Option<Xid>,
    /// Where it stands in the order.
    pub zxid: Option<Zxid>,
    /// What it is, in the words of the protocol.
    pub what: String,
}

impl Operation {
    pub(super) fn nameless(what: &str) -> Self {
        Self { conn: None, session: None, xid: None, zxid: None, what: what.to_owned() }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let mut separator = " (";
        let mut detail = |f: &mut fmt::Formatter<'_>, name: &str, value: Option<&dyn fmt::Display>| {
            let Some(value) = value else { return Ok(()) };
            write!(f, "{separator}{name} {value}")?;
            separator = ", ";
            Ok(())
        };
        detail(f, "session", self.session.as_ref().map(|id| id as _))?;
        detail(f, "xid", self.xid.as_ref().map(|id| id as _))?;
        detail(f, "zxid", self.zxid.as_ref().map(|id| id as _))?;
        detail(f, "connection", self.conn.as_ref().map(|conn| &conn.0 as _))?;
        if separator == ", " { f.write_str(")") } else { Ok(()) }
    }
}

/// Why a check could not be made to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// A write was not answered, so it may have happened or not.
    #[error("the outcome of {0} is unknown; the server's transactions would tell")]
    UnknownOutcome(Operation),
    /// More zxids were taken than the history explains: by others, or by the server itself.
    #[error(
        "{count} zxids, {first} among them, are of no known write and no known session; \
         the server's transactions would tell"
    )]
    UnknownTransactions {
        /// How many, at least.
        count: usize,
        /// The first.
        first: Zxid,
    },
    /// The given transactions do not go back to an empty database.
    #[error("the transactions begin at {0}, not at the first one")]
    LateStart(Zxid),
    /// The model of the tree has no answer.
    #[error("{operation}: {what}")]
    Unmodelled {
        /// To which operation.
        operation: Operation,
        /// Why not.
        what: Unmodelled,
    },
}
