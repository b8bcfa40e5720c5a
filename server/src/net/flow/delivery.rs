//! What a turn delivers to a connection, and what that waits for.

use zoolet_proto::{Reply, Zxid};
use zoolet_server_core::{Message, Output, SharedEvent};

/// One of the things that a turn delivers to a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery<'m> {
    Message(&'m Message),
    Event(&'m SharedEvent),
}

impl<'m> From<&'m Output> for Delivery<'m> {
    fn from(output: &'m Output) -> Self {
        match output {
            Output::To(_, message) => Self::Message(message),
            Output::Event(event) => Self::Event(event),
        }
    }
}

/// Which transaction has to be in the log before a message leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReleaseRule {
    /// The last transaction whose messages may leave.
    durable: Zxid,
    /// The last transaction of the turns before this one.
    before: Zxid,
    /// The last transaction there is.
    last: Zxid,
}

impl ReleaseRule {
    /// Of a server without a log: every message may leave.
    pub(crate) const AT_ONCE: Self =
        Self { durable: Zxid(i64::MAX), before: Zxid(i64::MAX), last: Zxid(i64::MAX) };

    /// With everything up to `durable` in the log, turns that have ended at `before`, and one that has come to `last`.
    pub(crate) fn new(durable: Zxid, before: Zxid, last: Zxid) -> Self {
        Self { durable, before, last }
    }

    /// The transaction that a delivery waits for; `None` if it may leave.
    pub(crate) fn waits_for(self, delivery: Delivery<'_>) -> Option<Zxid> {
        self.waits_for_zxid(match delivery {
            Delivery::Event(event) => event.zxid,
            // The event of a watch that is set again names no transaction, and shows the newest state.
            Delivery::Message(Message::Reply(header, Reply::Event(_))) if header.zxid <= Zxid(0) => self.last,
            Delivery::Message(Message::Reply(header, _)) => header.zxid,
            // It shows that its session exists, or does not.
            Delivery::Message(Message::Connected(_)) => self.last,
            Delivery::Message(Message::Close { .. }) => return None,
        })
    }

    /// The transaction that the events of this turn wait for; `None` if they may leave.
    pub(crate) fn events_wait_for(self) -> Option<Zxid> {
        self.waits_for_zxid(self.last)
    }

    fn waits_for_zxid(self, zxid: Zxid) -> Option<Zxid> {
        // Transactions of one turn become durable together, so that their replies are one piece of an outbox.
        (zxid > self.durable).then(|| if zxid > self.before { self.last } else { zxid })
    }
}
