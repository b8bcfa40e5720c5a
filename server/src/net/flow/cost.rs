//! [`TurnLimit`]: when a turn ends, though there is more to do; and what a request costs it.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::{Incoming, OpCode, OpKind, Request};
use zoolet_server_core::{Input, Message, Output};

use crate::net::reply_size::reply_size;

/// A turn ends when its replies have this many bytes; what is left comes in the next one.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// It ends as well when it has lasted this long by the server's clock. A clock that stands still ends none, so that a
/// simulation repeats with its seed.
const TURN_TIME: Duration = Duration::from_millis(2);

/// What an event counts for each connection that gets it: about what it costs to queue it there.
const EVENT: usize = 64;

/// How many short requests are executed between two looks at the clock, which costs as much as a tenth of one.
const SHORT: usize = 8;

/// What a turn has done so far.
pub(crate) struct TurnLimit {
    pub(crate) clock: Clock,
    /// Bytes of replies, and how many of the state machine's outputs are counted.
    bytes: usize,
    counted: usize,
    /// When the turn began, by its first look at the clock.
    began: Option<Instant>,
    /// Whether that was too long ago.
    is_over: bool,
    /// Short requests since the last look at the clock.
    short: usize,
}

impl TurnLimit {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, bytes: 0, counted: 0, began: None, is_over: false, short: 0 }
    }

    /// Whether what is left is for the next turn.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= TURN_BYTES || self.is_over
    }

    /// What its replies have so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a message that something else than the state machine has led to.
    pub(crate) fn count(&mut self, message: &Message) {
        if let Message::Reply(_, reply) = message {
            self.bytes += reply_size(reply);
        }
    }

    /// Counts what the last input has led to: a reply by its bytes, and an event for what it costs each that gets it.
    pub(crate) fn count_outputs(&mut self, outputs: &[Output]) {
        for output in outputs.get(self.counted..).unwrap_or_default() {
            match output {
                Output::To(_, message) => self.count(message),
                Output::Event(event) => self.bytes += event.to.len() * EVENT,
            }
        }
        self.counted = outputs.len();
    }

    /// Notes that the outputs are taken: the next ones are counted from the first.
    pub(crate) fn outputs_are_taken(&mut self) {
        self.counted = 0;
    }

    /// Notes that an input was executed of a batch that began then; with no time, it begins with the next look at the clock. Returns
    /// whether the batch alone has lasted for as long as a turn may.
    pub(crate) fn executed(&mut self, is_short: bool, batch_began: &mut Option<Instant>) -> bool {
        self.short += if is_short { 1 } else { SHORT };
        if self.short < SHORT {
            return false;
        }
        self.short = 0;
        let now = self.clock.now();
        let batch_began = *batch_began.get_or_insert(now);
        let began = *self.began.get_or_insert(batch_began);
        self.is_over |= now - began >= TURN_TIME;
        now - batch_began >= TURN_TIME
    }

    /// Begins the next turn.
    pub(crate) fn reset(&mut self) {
        (self.bytes, self.began, self.is_over, self.short) = (0, None, false, 0);
    }
}

/// Whether a request is sure to take no longer than a few others. All operations are named, so that a new one is not
/// forgotten.
pub(crate) fn is_short(input: &Input) -> bool {
    let Input::Request(Incoming { body: Ok(request), .. }) = input else { return true };
    match request {
        Request::Multi(_)
        | Request::MultiRead(_)
        | Request::SetWatches(_)
        | Request::SetWatches2(_)
        | Request::GetChildren(_)
        | Request::GetChildren2(_)
        | Request::GetAllChildrenNumber(_)
        | Request::GetEphemerals(_)
        | Request::CloseSession => false,
        Request::Create(_)
        | Request::Create2(_)
        | Request::CreateContainer(_)
        | Request::CreateTtl(_)
        | Request::Delete(_)
        | Request::DeleteContainer(_)
        | Request::Exists(_)
        | Request::GetData(_)
        | Request::SetData(_)
        | Request::GetAcl(_)
        | Request::SetAcl(_)
        | Request::Sync(_)
        | Request::Ping
        | Request::Check(_)
        | Request::Reconfig(_)
        | Request::CreateSession(_)
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::AddWatch(_)
        | Request::CheckWatches(_)
        | Request::RemoveWatches(_)
        | Request::WhoAmI => true,
    }
}

/// Whether a request of a connection that is gone has no effect: what it sets or asks for is of that connection.
pub(crate) fn is_without_effect(input: &Input) -> bool {
    let Input::Request(Incoming { op, .. }) = input else { return false };
    let op = OpCode::from_code(*op);
    op.is_some_and(|op| op.kind() == OpKind::Read && !matches!(op, OpCode::Sync | OpCode::Ping))
}
