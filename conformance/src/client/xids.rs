//! [`Xids`]: the numbers that a client gives to its requests.

use std::collections::BTreeSet;

use zoolet_proto::{OpCode, Xid};

use crate::client::rule::ClientRule;

/// The xids of the requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Xids(BTreeSet<i32>);

impl Xids {
    /// Notes the xid of a request. Returns the rule that it breaks, if any, and how.
    pub(super) fn note(&mut self, Xid(xid): Xid, op: Option<OpCode>) -> Option<(ClientRule, String)> {
        if xid < 0 {
            let reserved = match op {
                Some(OpCode::Ping) => Some(Xid::PING),
                Some(OpCode::Auth) => Some(Xid::AUTH),
                Some(OpCode::SetWatches | OpCode::SetWatches2) => Some(Xid::SET_WATCHES),
                _ => None,
            };
            let is_wrong = reserved != Some(Xid(xid));
            return is_wrong
                .then(|| (ClientRule::XidReserved, format!("{xid} is not an xid of such a request")));
        }
        // The reply to a ping has the xid of pings in any case. A token of SASL is answered before anything else is sent, so kazoo
        // begins to count after the exchange.
        if matches!(op, Some(OpCode::Ping | OpCode::Sasl)) {
            return None;
        }
        let largest = self.0.last().copied();
        if !self.0.insert(xid) {
            let reason = format!("an earlier request of the connection has the xid {xid}");
            return Some((ClientRule::XidReused, reason));
        }
        // The largest number is followed by the smallest.
        let largest = largest.filter(|largest| xid < *largest && largest - xid < i32::MAX / 2)?;
        let reason = format!("an earlier request of the connection has the xid {largest}");
        Some((ClientRule::XidBackwards, reason))
    }
}
