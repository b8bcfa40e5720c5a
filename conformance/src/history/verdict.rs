//! What a check of a history says: a [`Verdict`], a [`Violation`] of a rule, or that it is [`Undecided`].

use std::fmt;

use zoolet_proto::{SessionId, Xid, Zxid};

use super::entry::Conn;
use super::model::{Model, Unmodelled};

/// A history that passed the check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Verdict {
    /// Requests that took a zxid, successful or refused.
    pub writes: usize,
    /// Other requests that got a reply.
    pub reads: usize,
    /// Requests without a reply, unless a transaction shows that they were executed.
    pub unanswered: usize,
    /// Watch events.
    pub events: usize,
    /// The tree after the last transaction.
    pub model: Model,
}

/// Why a check did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A rule is broken.
    #[error("broken: {0}")]
    Violation(Box<Violation>),
    /// The history does not show whether every rule holds.
    #[error("undecided: {0}")]
    Undecided(#[from] Undecided),
}

impl CheckError {
    /// The broken rule, if any.
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Violation(violation) => Some(violation.rule),
            Self::Undecided(_) => None,
        }
    }
}

/// A rule of ZooKeeper that a history breaks: the operation that breaks it and, if there is one, the operation that it
/// contradicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The operation that breaks it.
    pub operation: Operation,
    /// The operation that this contradicts.
    pub other: Option<Operation>,
    /// The expected outcome.
    pub expected: String,
    /// The observed outcome.
    pub seen: String,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.rule)?;
        writeln!(f, "  {}", self.operation)?;
        if let Some(other) = &self.other {
            writeln!(f, "  contradicts {other}")?;
        }
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  seen:     {}", self.seen)
    }
}

/// The violation of a rule.
pub(crate) fn broken(
    rule: Rule,
    operation: Operation,
    other: Option<Operation>,
    expected: &str,
    seen: &str,
) -> CheckError {
    let (expected, seen) = (expected.to_owned(), seen.to_owned());
    CheckError::Violation(Box::new(Violation { rule, operation, other, expected, seen }))
}

macro_rules! rules {
    ($($row:ident = $text:literal;)*) => {
        /// A rule that every history keeps.
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
    ReadableFrames = "every message of a server decodes";
    RequestOrder = "each request gets one reply, in request order";
    ZxidsNeverFall = "zxids never decrease on a connection";
    RealTime = "an operation that ended before a request began precedes it in the order of zxids";
    OwnZxid = "every write has a zxid of its own";
    DenseZxids = "zxids have no gaps";
    WriteResult = "the reply to a write is the result of applying it at its zxid";
    ReadResult = "the reply to a read shows the state at its zxid";
    Times = "a transaction has one time, no earlier than the transactions before it";
    Handshake = "a new session has an id of its own; a session is resumed under its id, or refused";
    SessionEnd = "a session has no effect and gets no reply after its end";
    EventBeforeReply = "an event comes before every reply that shows its change";
    EventDelivered = "every watcher of a change gets its event";
    EventExpected = "only a watcher of a change gets its event";
    CatchUp = "restored watches report missed changes before their reply";
    WatchResult = "the reply to a request about watches shows the watches of its connection";
    Transactions = "every write is one transaction, every other transaction is the server's own";
    FreshRead = "a read shows nothing older than an operation that ended before it began";
    WriteOrder = "a write comes after every write that ended before it began";
    OneValue = "a register has one value at a zxid";
    NoLostWrite = "a later state of a register has a higher version, as no write is lost";
    KnownValue = "a register holds only what a client has written";
    CountedVersions = "the version of a register counts its writes";
    ExpectedVersion = "a write for one version is not done at another";
    NoLostCreate = "a znode is there from the end of its create to its delete";
    NoLostDelete = "a list has nothing that was deleted before it began";
    KnownName = "a list has only what a client has created";
}

/// A request, an event or another step of a history, as a violation names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its connection; `None` for operations of the server or of clients outside of the history.
    pub conn: Option<Conn>,
    /// Its session, if known.
    pub session: Option<SessionId>,
    /// The xid of the request.
    pub xid: Option<Xid>,
    /// Its position in the order of zxids.
    pub zxid: Option<Zxid>,
    /// A description in the terms of the protocol.
    pub description: String,
}

impl Operation {
    pub(crate) fn unidentified(description: &str) -> Self {
        Self { conn: None, session: None, xid: None, zxid: None, description: description.to_owned() }
    }

    pub(crate) fn at(zxid: Zxid, description: &str) -> Self {
        Self { zxid: Some(zxid), ..Self::unidentified(description) }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = [
            self.session.map(|session| format!("session {session}")),
            self.xid.map(|xid| format!("xid {xid}")),
            self.zxid.map(|zxid| format!("zxid {zxid}")),
            self.conn.map(|Conn(conn)| format!("connection {conn}")),
        ];
        f.write_str(&self.description)?;
        match &details.into_iter().flatten().collect::<Vec<_>>()[..] {
            [] => Ok(()),
            details => write!(f, " ({})", details.join(", ")),
        }
    }
}

/// Why a check is undecided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// A write has no reply, so its outcome is unknown.
    #[error("the outcome of {0} is unknown; pass the server's transactions to decide it")]
    UnknownOutcome(Operation),
    /// The history explains fewer zxids than were used: other clients or the server itself used the rest.
    #[error(
        "{count} zxids, {first} among them, belong to no known write or session; \
         pass the server's transactions to decide it"
    )]
    UnknownTransactions {
        /// How many, at least.
        count: usize,
        /// The first.
        first: Zxid,
    },
    /// The clients did too little, or could not do more.
    #[error("{0}")]
    TooLittle(String),
    /// The given transactions do not begin at an empty database.
    #[error("the transactions begin at {0}, not at the first one")]
    LateStart(Zxid),
    /// The model of the tree has no answer.
    #[error("{operation}: {reason}")]
    Unmodelled {
        /// The operation.
        operation: Operation,
        /// The reason.
        reason: Unmodelled,
    },
}
