//! The other way for a transaction to come in: decided elsewhere, or earlier.

use zoolet_proto::SessionId;

use crate::core::Core;
use crate::message::ConnId;
use crate::txn::{Txn, TxnOp};

impl Core {
    /// Applies a transaction that was decided by another server, or by this one before it stopped.
    ///
    /// Transactions must come in the order of their zxids, none left out. Nothing is checked and nothing can fail. A
    /// session comes with its creation, with its whole timeout from the time of the transaction on, and goes with its
    /// end.
    ///
    /// What comes of it is a part of the next [`Core::take_effects`]: events for who watches what changes, as if it had
    /// been decided here, and the close of the connection of a session that ends. The transaction itself is not: who
    /// replays it has it already.
    pub fn replay(&mut self, txn: &Txn) {
        self.apply(txn, |_| {});
        match txn.op {
            // A client can have one announced again that lives.
            TxnOp::CreateSession { timeout } if self.sessions.get(txn.session).is_none() => {
                self.sessions.insert(txn.session, timeout, None, txn.time);
            }
            TxnOp::CloseSession { .. } => {
                let conn = self.sessions.get(txn.session).and_then(|session| session.conn);
                self.sessions.remove(txn.session);
                conn.into_iter().for_each(|conn| self.close(conn));
            }
            _ => {}
        }
    }

    /// Attaches a connection to a session that another server has opened or resumed for it.
    pub(crate) fn attach(&mut self, now: crate::Millis, conn: ConnId, session: SessionId, timeout: i32) {
        if self.bind_session(conn, session).is_none() {
            return;
        }
        match self.sessions.get(session) {
            Some(_) => self.sessions.attach(session, timeout, conn, now),
            // It may be resumed before its creation is visible here.
            None => self.sessions.insert(session, timeout, Some(conn), now),
        }
    }
}
