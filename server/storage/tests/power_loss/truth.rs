//! What a server has committed: the state after each transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Acl, SessionId, Stat, Zxid};
use zoolet_server_core::{Owner, Tree, Txn, TxnOp};

/// A znode, as a client with all rights sees it.
pub type Seen = (Arc<str>, Option<Bytes>, Vec<Acl>, Owner, Stat);

/// All that a restart must bring back.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub zxid: Zxid,
    pub digest: Option<u64>,
    pub znodes: Vec<Seen>,
    pub sessions: BTreeMap<SessionId, i32>,
}

impl State {
    pub fn new(tree: &Tree, sessions: impl IntoIterator<Item = (SessionId, i32)>) -> Self {
        let mut znodes = Vec::with_capacity(tree.len());
        let mut below = vec![Arc::<str>::from("/")];
        while let Some(path) = below.pop() {
            let node = tree.get(&path).expect("a znode");
            below.extend(node.children().cloned());
            let (mut data, mut stat) = (node.data().cloned(), node.stat());
            if path.starts_with("/zookeeper/quota/") && path.ends_with("/zookeeper_stats") {
                // Counted anew when a tree is loaded, as on a real server.
                (data, stat.data_length) = (None, 0);
            }
            znodes.push((path, data, node.acl().to_vec(), node.owner(), stat));
        }
        znodes.sort_by(|a, b| a.0.cmp(&b.0));
        let sessions = sessions.into_iter().collect();
        Self { zxid: tree.last_zxid(), digest: tree.digest(), znodes, sessions }
    }

    /// How the other state differs, in a line.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if (self.zxid, self.digest) != (other.zxid, other.digest) {
            return Some(format!("{} {:x?} and {} {:x?}", self.zxid, self.digest, other.zxid, other.digest));
        }
        if self.sessions != other.sessions {
            return Some(format!("sessions {:?} and {:?}", self.sessions, other.sessions));
        }
        let only =
            |one: &Self, other: &Self| one.znodes.iter().find(|seen| !other.znodes.contains(seen)).cloned();
        (self.znodes != other.znodes).then(|| format!("{:?} and {:?}", only(self, other), only(other, self)))
    }
}

/// The state after each transaction, made by applying them one after the other.
#[derive(Clone)]
pub struct Truth {
    states: Vec<Arc<State>>,
}

impl Truth {
    pub fn new(state: State) -> Self {
        Self { states: vec![Arc::new(state)] }
    }

    /// Goes on from a tree that is in the last state.
    pub fn append(&mut self, tree: &mut Tree, txn: &Txn) {
        let mut sessions = self.last().sessions.clone();
        match txn.op {
            TxnOp::CreateSession { timeout } => _ = sessions.insert(txn.session, timeout),
            TxnOp::CloseSession { .. } => _ = sessions.remove(&txn.session),
            _ => {}
        }
        tree.replay(txn);
        assert_eq!(txn.zxid.0, self.last().zxid.0 + 1, "zxids are not dense");
        if txn.digest.is_some() {
            assert_eq!(txn.digest, tree.digest(), "{txn:?}");
        }
        self.states.push(Arc::new(State::new(tree, sessions)));
    }

    pub fn first(&self) -> &Arc<State> {
        &self.states[0]
    }

    pub fn last(&self) -> &Arc<State> {
        self.states.last().expect("the first state")
    }

    pub fn at(&self, zxid: Zxid) -> Option<&Arc<State>> {
        let at = zxid.0.checked_sub(self.states[0].zxid.0)?;
        self.states.get(usize::try_from(at).ok()?)
    }
}
