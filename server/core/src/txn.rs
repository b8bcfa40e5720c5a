//! Transactions: changes that are fully decided. What a log keeps and what replay applies.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Acl, ErrorCode, SessionId, Xid, Zxid};

use crate::message::Millis;
use crate::znode::Owner;

/// One step of the total order.
#[derive(Debug, Clone)]
pub struct Txn {
    /// Whose request it was; the session itself for its creation and end.
    pub session: SessionId,
    /// The number that request had.
    pub xid: Xid,
    /// Its place in the order: one more than that of the transaction before.
    pub zxid: Zxid,
    /// When it was decided.
    pub time: Millis,
    /// What changes.
    pub op: TxnOp,
}

/// What a transaction changes. Every check has been made and every open value chosen.
#[derive(Debug, Clone)]
pub enum TxnOp {
    /// A znode comes.
    Create {
        /// Its path, counter included.
        path: Arc<str>,
        /// Its data.
        data: Option<Bytes>,
        /// Its access control list.
        acl: Arc<[Acl]>,
        /// When it goes.
        owner: Owner,
        /// How many children its parent has ever had, this one included.
        parent_creates: i64,
    },
    /// A znode goes.
    Delete {
        /// Its path.
        path: Arc<str>,
    },
    /// Data is replaced.
    SetData {
        /// Of which znode.
        path: Arc<str>,
        /// By what.
        data: Option<Bytes>,
        /// The version it has then.
        version: i32,
    },
    /// An access control list is replaced.
    SetAcl {
        /// Of which znode.
        path: Arc<str>,
        /// By what.
        acl: Arc<[Acl]>,
        /// The aversion it has then.
        aversion: i32,
    },
    /// A version was compared, and was right.
    Check {
        /// Of which znode.
        path: Arc<str>,
    },
    /// Several of the above under one zxid.
    Multi(Vec<TxnOp>),
    /// A session is opened.
    CreateSession {
        /// Its timeout in milliseconds.
        timeout: i32,
    },
    /// A session ends.
    CloseSession {
        /// The ephemerals that go with it.
        ephemerals: Vec<Arc<str>>,
    },
    /// A write was refused. Nothing changes but the zxid.
    Error(ErrorCode),
}
