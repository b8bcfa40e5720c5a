//! Faults: what is to go wrong, on which connection, at which request.
//!
//! A fault is a [`Matcher`] and an [`Action`]; each time it fires it is noted in the fixture's record. Requests are held
//! against the faults in the one order in which they are executed, so that the nth is the same one in every run that
//! sends the same. The oldest fault is asked first, and at most one fires for a request. The test's own direct writes
//! meet none.

mod action;
mod error;
mod glob;
mod matcher;
mod rules;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zoolet_proto::ErrorCode;

use crate::fixture::RecordEntry;
use crate::server::Shared;

pub use action::Action;
pub use error::FaultError;
pub use matcher::{Matcher, connection, create, handshake, op, request};
pub use rules::FaultId;

pub(crate) use matcher::Subject;
pub(crate) use rules::Rules;

/// The faults of a server, from [`Fixture::faults`](crate::Fixture::faults).
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shared.with_fixture(|fixture| fixture.rules.list())).finish()
    }
}

impl Faults {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Begins a fault for what `matcher` fits; the action ends it.
    ///
    /// ```
    /// # use zoolet_server::{Server, fault::create};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Server::builder().start().await?;
    /// let faults = server.fixture().faults();
    /// // What comes of the first create below /locks its client is not told.
    /// faults.on(create().path("/locks/**").nth(1)).lose_reply()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(&self, matcher: Matcher) -> Placing {
        Placing { faults: self.clone(), matcher }
    }

    /// Places a fault in one call.
    ///
    /// # Errors
    /// What is wrong with it; nothing is placed then.
    pub fn place(&self, matcher: Matcher, action: Action) -> Result<FaultId, FaultError> {
        self.shared.with_fixture(|fixture| fixture.rules.place(matcher, action))
    }

    /// Takes a fault away; what it holds up already stays held up. False if there was none.
    pub fn remove(&self, id: FaultId) -> bool {
        self.shared.with_fixture(|fixture| fixture.rules.remove(id))
    }

    /// Takes every fault away.
    pub fn clear(&self) {
        self.shared.with_fixture(|fixture| fixture.rules.clear());
    }

    /// Every fault that fired, and what the test did to the server besides, in order.
    pub fn fired(&self) -> Vec<RecordEntry> {
        self.shared.with_fixture(|fixture| fixture.record.faults().cloned().collect())
    }

    /// Seeds what [`Matcher::probability`] draws, for the faults placed from now on. Default: 0.
    pub fn seed(&self, seed: u64) {
        self.shared.with_fixture(|fixture| fixture.rules.set_seed(seed));
    }
}

/// A fault that lacks its action. Each gives the number of the fault, or what is wrong with it: nothing is placed then.
#[must_use = "a fault does nothing without its action"]
pub struct Placing {
    faults: Faults,
    matcher: Matcher,
}

impl Placing {
    /// Breaks the connection off before anything is read from it: to its client nobody is there.
    pub fn refuse(self) -> Result<FaultId, FaultError> {
        self.place(Action::Refuse)
    }

    /// Closes the connection instead of executing the request. The client cannot know that it was not executed.
    pub fn drop_request(self) -> Result<FaultId, FaultError> {
        self.place(Action::DropRequest)
    }

    /// Executes the request and closes the connection instead of replying. The client cannot know that it was executed.
    /// What was sent before arrives.
    pub fn lose_reply(self) -> Result<FaultId, FaultError> {
        self.place(Action::LoseReply)
    }

    /// Executes the request and never replies, on a connection that otherwise goes on: later replies arrive, so that a
    /// client that counts them is out of step.
    pub fn withhold_reply(self) -> Result<FaultId, FaultError> {
        self.place(Action::WithholdReply)
    }

    /// Executes the request, and what its connection sends behind it, so much later by the server's clock than it came.
    /// It is no sign of life before.
    pub fn delay_request(self, by: Duration) -> Result<FaultId, FaultError> {
        self.place(Action::DelayRequest(by))
    }

    /// Sends the reply, and everything behind it on its connection, so much later by the server's clock.
    pub fn delay_reply(self, by: Duration) -> Result<FaultId, FaultError> {
        self.place(Action::DelayReply(by))
    }

    /// Executes the request, sends the first `bytes` of the frame of its reply (4 of them its length) and closes the
    /// connection. A frame that is not longer is sent whole.
    pub fn cut_reply(self, bytes: usize) -> Result<FaultId, FaultError> {
        self.place(Action::CutReply(bytes))
    }

    /// Does not execute the request and resets the connection: by TCP with RST, in process with `ConnectionReset`.
    pub fn reset(self) -> Result<FaultId, FaultError> {
        self.place(Action::Reset)
    }

    /// From this reply on the connection is written to `bytes` at a time, with a pause of `every` by the server's clock
    /// behind each piece.
    pub fn drip(self, bytes: usize, every: Duration) -> Result<FaultId, FaultError> {
        self.place(Action::Drip { bytes, every })
    }

    /// Answers the request with an error instead of executing it; it takes no zxid.
    pub fn fail(self, code: ErrorCode) -> Result<FaultId, FaultError> {
        self.place(Action::Fail(code))
    }

    /// Freezes the connection, as a network that lets nothing through any more: this request and all behind it wait,
    /// and so does everything for the client, its end included, until [`Fixture::heal`](crate::Fixture::heal); at the
    /// handshake of a new session, which has no id yet, until [`Fixture::heal_all`](crate::Fixture::heal_all). What was
    /// sent before is on its way and arrives. A client gives such a connection up after a while and comes by another: to
    /// keep a session out, freeze its [`handshake`] too.
    pub fn freeze(self) -> Result<FaultId, FaultError> {
        self.place(Action::Freeze)
    }

    fn place(self, action: Action) -> Result<FaultId, FaultError> {
        self.faults.place(self.matcher, action)
    }
}
