//! What the transactions of a server prove about a lock: they are one order, and no contender had a hand in it.

use std::collections::{BTreeMap, BTreeSet};

use zoolet::server::{Txn, TxnOp};

use crate::locks::recipe::{LEASES, QUEUE, Recipe};
use crate::locks::rules::{Line, Rule, Stand, in_order};
use crate::locks::store::{STORE, parse};

/// What a contender believed: that it was given the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub session: i64,
    pub nodes: Vec<String>,
    pub token: u64,
    /// Whether it was exclusive.
    pub exclusive: bool,
    /// The znode and the token of what was held before and made into this.
    pub instead_of: Option<(String, u64)>,
    /// The last transaction of the server when it was given.
    pub at: i64,
}

/// When a znode held, by the server's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reign {
    pub from: i64,
    /// When it ended; `None` if it has not.
    pub until: Option<i64>,
}

/// What a server's transactions so far show of a lock.
#[derive(Debug)]
pub struct Audit {
    recipe: Recipe,
    seen: usize,
    pub line: Line,
    /// By znode and token, as a znode may have the name of one before it.
    pub reigns: BTreeMap<(String, u64), Reign>,
    /// How often the store was written, and the token of the last write.
    pub written: u64,
    token: u64,
}

impl Audit {
    pub fn new(recipe: Recipe) -> Self {
        Self { recipe, seen: 0, line: Line::new(), reigns: BTreeMap::new(), written: 0, token: 0 }
    }

    /// Goes on through the transactions of a server, which are given from its start.
    ///
    /// # Panics
    /// If the store was written by anybody who did not hold the lock right then, under a token that is not its own or lower
    /// than one before, or with anything but the next number.
    pub fn go_on(&mut self, transactions: &[Txn]) {
        for txn in &transactions[self.seen..] {
            self.take(txn.zxid.0, txn.session.0, &txn.op);
        }
        self.seen = transactions.len();
    }

    /// The znodes of the current holders.
    pub fn holders(&self) -> BTreeSet<String> {
        self.recipe.rule().holders(&self.line).into_iter().map(str::to_owned).collect()
    }

    fn take(&mut self, zxid: i64, session: i64, op: &TxnOp) {
        if let TxnOp::Multi(parts) = op {
            self.judge_write(zxid, parts);
        } else if let TxnOp::SetData { path, data: Some(data), .. } = op {
            // The test itself makes the store.
            assert!(
                **path != *STORE || parse(data).0 == 0,
                "zxid {zxid}: the store was written without the lock"
            );
        }
        let parts = if let TxnOp::Multi(parts) = op { parts } else { std::slice::from_ref(op) };
        let mut moved = self.moved(parts);
        self.judge_permits(zxid, parts);
        for (nth, part) in parts.iter().enumerate() {
            match part {
                TxnOp::Create { path, .. } if self.recipe.rule().counts(path) => {
                    let stand = Stand { place: (zxid, nth), token: zxid.unsigned_abs(), session };
                    self.line.insert(path.to_string(), moved.take().unwrap_or(stand));
                }
                TxnOp::Delete { path } => _ = self.line.remove(&**path),
                TxnOp::CloseSession { ephemerals } => {
                    ephemerals.iter().for_each(|path| _ = self.line.remove(&**path));
                }
                _ => {}
            }
        }
        self.note_reigns(zxid);
    }

    /// The place of a writer that makes a reader of itself: it keeps that, and the token.
    fn moved(&self, parts: &[TxnOp]) -> Option<Stand> {
        match parts {
            [TxnOp::Create { path: reader, .. }, TxnOp::Delete { path: writer }]
                if self.recipe == Recipe::ReadWrite && **reader == writer.replace("__WRIT__", "__READ__") =>
            {
                self.line.get(&**writer).cloned()
            }
            _ => None,
        }
    }

    /// Only the first in the queue takes permits, and no more than there are.
    fn judge_permits(&self, zxid: i64, parts: &[TxnOp]) {
        let Rule::Permits(most) = self.recipe.rule() else { return };
        let taken = |part: &&TxnOp| matches!(part, TxnOp::Create { path, .. } if path.starts_with(LEASES) && **path != *LEASES);
        let taken = parts.iter().filter(taken).count();
        if taken == 0 {
            return;
        }
        let Some(TxnOp::Delete { path }) = parts.first() else { panic!("zxid {zxid}: permits out of turn") };
        assert_eq!(in_order(&self.line, QUEUE).first(), Some(&&**path), "zxid {zxid}: permits out of turn");
        let held = in_order(&self.line, LEASES).len();
        assert!(held + taken <= most, "zxid {zxid}: {taken} permits beside {held}, of {most}");
    }

    fn note_reigns(&mut self, zxid: i64) {
        let holders = self.holders();
        for ((path, token), reign) in self.reigns.iter_mut().filter(|(_, reign)| reign.until.is_none()) {
            let stands = self.line.get(path).is_some_and(|stand| stand.token == *token);
            if !stands || !holders.contains(path) {
                let whole = stands && self.recipe.rule().is_whole(&self.line, path);
                assert!(!whole, "zxid {zxid}: {path} is overtaken");
                reign.until = Some(zxid);
            }
        }
        for path in holders {
            let token = self.line[&path].token;
            self.reigns.entry((path, token)).or_insert(Reign { from: zxid, until: None });
        }
    }

    /// A multi that checks a contender's znode is a write under the lock.
    fn judge_write(&mut self, zxid: i64, parts: &[TxnOp]) {
        // A reader that becomes a writer, or a holder that releases.
        let leaves = |part: &TxnOp| matches!(part, TxnOp::Delete { path } if self.recipe.rule().counts(path));
        if parts.iter().any(leaves) {
            return;
        }
        let checks = parts.iter().map_while(|part| match part {
            TxnOp::Check { path } => Some(&**path),
            _ => None,
        });
        let nodes: Vec<_> = checks.filter(|path| self.recipe.rule().counts(path)).collect();
        let holders = self.holders();
        let held = |node: &&str| holders.contains(*node);
        assert!(nodes.iter().all(held), "zxid {zxid}: a write by {nodes:?}, held by {holders:?}");
        for part in parts {
            let TxnOp::SetData { path, data: Some(data), .. } = part else { continue };
            if **path != *STORE {
                continue;
            }
            let (count, token) = parse(data);
            let node = *nodes.first().expect("a check of the lock");
            assert_eq!(token, self.line[node].token, "zxid {zxid}: written under another's token");
            assert!(token >= self.token, "zxid {zxid}: token {token} follows {}", self.token);
            assert_eq!(count, self.written + 1, "zxid {zxid}: a write was lost");
            (self.written, self.token) = (count, token);
        }
    }

    /// Whether contenders were right: what each was given was the lock, by then and in its turn.
    pub fn judge(&self, claims: &[Claim]) {
        let mut last: Option<&Claim> = None;
        for claim in claims {
            let mut held = true;
            for node in &claim.nodes {
                let Some(reign) = self.reigns.get(&(node.clone(), claim.token)) else {
                    panic!("its turn never came, or under another token: {claim:?}");
                };
                assert!(reign.from <= claim.at, "given before its turn: {claim:?}, but {reign:?}");
                // One that was lost again before its owner heard of it may be heard of late.
                held &= reign.until.is_none_or(|until| until > claim.at);
            }
            if let Some(before) = &claim.instead_of {
                let (from, until) =
                    (self.reigns[&(claim.nodes[0].clone(), claim.token)].from, self.reigns[before].until);
                assert_eq!(until, Some(from), "something was possible between {before:?} and {claim:?}");
            }
            if held && claim.exclusive {
                if let Some(last) = last.filter(|last| last.nodes != claim.nodes) {
                    assert!(last.token < claim.token, "granted out of turn: {claim:?} after {last:?}");
                }
                last = Some(claim);
            }
        }
    }
}
