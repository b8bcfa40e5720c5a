//! Following another server: transactions and sessions that were decided elsewhere, or earlier.

use zoolet_proto::SessionId;

use crate::core::Core;
use crate::message::{ConnId, Millis};
use crate::txn::{Txn, TxnOp};

impl Core {
    /// Applies a transaction that another server decided, or this one before it stopped.
    ///
    /// Transactions must come in the order of their zxids, without a gap. Nothing is checked and nothing can fail. A
    /// session begins with its creation, with its whole timeout from the time of the transaction, and ends with its end.
    ///
    /// The next [`Core::take_effects`](crate::StateMachine::take_effects) returns what follows from it: events for the
    /// watches that it triggers, and the close of the connection of a session that ends. It does not return the transaction
    /// itself: the caller has it.
    pub fn replay(&mut self, txn: &Txn) {
        self.apply(txn, |_| {});
        match txn.op {
            // A client can make the server repeat the creation of an existing session.
            TxnOp::CreateSession { timeout } if self.sessions.get(txn.session).is_none() => {
                self.sessions.insert(txn.session, timeout, None, txn.time);
            }
            TxnOp::CloseSession { .. } => {
                let conn = self.sessions.get(txn.session).and_then(|session| session.conn);
                self.sessions.remove(txn.session);
                conn.into_iter().for_each(|conn| self.close_because(conn, "its session has ended"));
            }
            TxnOp::CreateSession { .. }
            | TxnOp::Create { .. }
            | TxnOp::Delete { .. }
            | TxnOp::SetData { .. }
            | TxnOp::SetAcl { .. }
            | TxnOp::Check { .. }
            | TxnOp::Multi(_)
            | TxnOp::Error(_) => {}
        }
    }

    /// Attaches a connection to a session that another server opened or resumed for it.
    pub fn attach(&mut self, now: Millis, conn: ConnId, session: SessionId, timeout: i32) {
        if self.bind_session(conn, session).is_none() {
            return;
        }
        match self.sessions.get(session) {
            Some(_) => self.sessions.attach(session, timeout, conn, now),
            // It may be resumed before its creation is visible here.
            None => self.sessions.insert(session, timeout, Some(conn), now),
        }
    }

    /// Detaches a connection from a session. Both stay.
    pub fn detach(&mut self, session: SessionId, conn: ConnId) {
        self.sessions.detach(session, conn);
    }
}
