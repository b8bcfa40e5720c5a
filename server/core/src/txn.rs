//! Transactions: fully decided changes, which a log keeps and replay applies.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{AclList, ErrorCode, SessionId, Xid, Zxid};

use crate::message::Millis;
use crate::znode::Owner;

/// One step of the total order.
#[derive(Debug, Clone)]
pub struct Txn {
    /// The session of the request; the session itself for its creation and end.
    pub session: SessionId,
    /// The xid of the request.
    pub xid: Xid,
    /// Its position in the order: one more than that of the previous transaction.
    pub zxid: Zxid,
    /// When it was decided, by the wall clock, which may have been set back since the last one.
    pub time: Millis,
    /// The change.
    pub op: TxnOp,
    /// The digest of the tree after it (`DigestCalculator`, version 2), if the tree keeps one and this is not a refused write.
    pub digest: Option<u64>,
}

/// The change of a transaction. Every check is made and every open value is chosen.
#[derive(Debug, Clone)]
pub enum TxnOp {
    /// Creates a znode.
    Create {
        /// Its path, including the counter.
        path: Arc<str>,
        /// Its data.
        data: Option<Bytes>,
        /// Its access control list.
        acl: AclList,
        /// Its owner, which decides when it is deleted.
        owner: Owner,
        /// How many children its parent has ever had, including this one.
        parent_creates: i64,
    },
    /// Deletes a znode.
    Delete {
        /// Its path.
        path: Arc<str>,
    },
    /// Replaces data.
    SetData {
        /// The path of the znode.
        path: Arc<str>,
        /// The new data.
        data: Option<Bytes>,
        /// The new version.
        version: i32,
    },
    /// Replaces an access control list.
    SetAcl {
        /// The path of the znode.
        path: Arc<str>,
        /// The new list.
        acl: AclList,
        /// The new aversion.
        aversion: i32,
    },
    /// A version check that succeeded.
    Check {
        /// The path of the znode.
        path: Arc<str>,
    },
    /// Several of the above under one zxid.
    Multi(Vec<TxnOp>),
    /// Opens a session.
    CreateSession {
        /// Its timeout in milliseconds.
        timeout: i32,
    },
    /// Ends a session.
    CloseSession {
        /// Its ephemerals, which are deleted.
        ephemerals: Vec<Arc<str>>,
    },
    /// A refused write. Changes nothing but the zxid.
    Error(ErrorCode),
}
