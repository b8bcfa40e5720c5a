//! [`Cost`]: what a request costs a turn; and [`TurnLimit`]: when a turn ends, though there is more to do.

use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::records::{SetWatches, SetWatches2};
use zoolet_proto::{Incoming, OpCode, OpKind, Request};
use zoolet_server_core::{Core, Input, Message, Output};

use super::limits::{CHEAP_IN_A_ROW, EVENT, MANY_CHILDREN, MANY_PARTS, TURN_BYTES, TURN_TIME};

/// What an input costs a turn, as far as it is known before the input is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// No longer than a few others.
    Cheap,
    /// Not known: the clock is read after it.
    Unknown,
    /// A good part of a turn by itself: only the driver's queue of slow connections has room for it.
    Large,
}

impl Cost {
    /// The cost of an input in this state. Names all operations, so that a new one is not forgotten.
    pub(crate) fn of(input: &Input, core: &Core) -> Self {
        let Input::Request(Incoming { body: Ok(request), .. }) = input else { return Self::Cheap };
        match request {
            Request::Multi(parts) | Request::MultiRead(parts) => Self::of_many(parts.len(), MANY_PARTS),
            Request::SetWatches(SetWatches { data, exist, child, .. }) => {
                Self::of_many(data.len() + exist.len() + child.len(), MANY_PARTS)
            }
            Request::SetWatches2(record) => {
                let SetWatches2 { data, exist, child, persistent, recursive, .. } = &**record;
                let paths = [data, exist, child, persistent, recursive];
                Self::of_many(paths.into_iter().map(Vec::len).sum(), MANY_PARTS)
            }
            Request::GetChildren(record) | Request::GetChildren2(record) => {
                let children = core.tree().get(&record.path).map_or(0, |node| node.children().len());
                Self::of_many(children, MANY_CHILDREN)
            }
            Request::GetAllChildrenNumber(_) | Request::GetEphemerals(_) | Request::CloseSession => {
                Self::Unknown
            }
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
            | Request::WhoAmI => Self::Cheap,
        }
    }

    fn of_many(count: usize, many: usize) -> Self {
        if count > many { Self::Large } else { Self::Unknown }
    }
}

/// Whether a request of a connection that is gone has no effect: what it sets or asks for is of that connection.
pub(crate) fn is_without_effect(input: &Input) -> bool {
    let Input::Request(Incoming { op, .. }) = input else { return false };
    let op = OpCode::from_code(*op);
    op.is_some_and(|op| op.kind() == OpKind::Read && !matches!(op, OpCode::Sync | OpCode::Ping))
}

/// What a turn has done so far.
pub(crate) struct TurnLimit {
    pub(crate) clock: Clock,
    /// Bytes of replies, and how many of the state machine's outputs are counted.
    bytes: usize,
    counted: usize,
    /// When its batch began, by the first look at the clock: before the first input that is not cheap, and else after several.
    began: Option<Instant>,
    /// Whether that was too long ago.
    is_over: bool,
    /// Cheap requests since the last look at the clock.
    cheap: usize,
}

impl TurnLimit {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, bytes: 0, counted: 0, began: None, is_over: false, cheap: 0 }
    }

    /// Whether what is left is for the next turn.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= TURN_BYTES || self.is_over
    }

    /// The bytes of its replies so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a message that something else than the state machine has led to.
    pub(crate) fn count(&mut self, message: &Message) {
        if let Message::Reply(_, reply) = message {
            self.bytes += reply.encoded_len();
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

    /// Notes that an input is executed next.
    pub(crate) fn begin(&mut self, cost: Cost) {
        if cost != Cost::Cheap {
            self.began.get_or_insert_with(|| self.clock.now());
        }
    }

    /// Notes that an input was executed.
    pub(crate) fn executed(&mut self, cost: Cost) {
        self.cheap += if cost == Cost::Cheap { 1 } else { CHEAP_IN_A_ROW };
        if self.cheap >= CHEAP_IN_A_ROW {
            self.cheap = 0;
            let now = self.clock.now();
            self.is_over |= now - *self.began.get_or_insert(now) >= TURN_TIME;
        }
    }

    /// Begins the next turn, after the outputs of this one were taken.
    pub(crate) fn reset(&mut self) {
        (self.bytes, self.counted, self.began, self.is_over, self.cheap) = (0, 0, None, false, 0);
    }
}
