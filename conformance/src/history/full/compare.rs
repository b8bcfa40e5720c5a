//! Compares replies with those of the model.

use std::collections::BTreeMap;

use zoolet_proto::records::OpResult;
use zoolet_proto::{ErrorCode, NameList, Reply, Stat, Zxid};

use crate::history::model::Outcome;

/// The time of each transaction: from the server's transactions, or from the first [`Stat`] that shows it.
pub(super) struct TxnTimes(BTreeMap<Zxid, i64>);

impl TxnTimes {
    pub(super) fn new() -> Self {
        Self(BTreeMap::from([(Zxid(0), 0)]))
    }

    pub(super) fn set(&mut self, zxid: Zxid, time: i64) {
        self.0.insert(zxid, time);
    }

    /// Compares a reply with that of the model.
    ///
    /// # Errors
    /// The expected reply.
    pub(super) fn compare(&mut self, model: Outcome, seen: Result<&Reply, ErrorCode>) -> Result<(), Outcome> {
        let mut expected = model;
        if let (Ok(expected), Ok(seen)) = (&mut expected, seen) {
            for (stat, seen) in stats(expected).into_iter().zip(stats(&mut seen.clone())) {
                stat.ctime = self.learn(stat.czxid, seen.czxid, seen.ctime);
                stat.mtime = self.learn(stat.mzxid, seen.mzxid, seen.mtime);
            }
        }
        let same = match (&expected, seen) {
            (Ok(expected), Ok(seen)) => expected == seen || normalized(expected) == normalized(seen),
            (Err(expected), Err(seen)) => *expected == seen,
            _ => false,
        };
        if same { Ok(()) } else { Err(expected) }
    }

    /// The first two transactions whose times decrease.
    pub(super) fn first_decrease(&self) -> Option<[(Zxid, i64); 2]> {
        let mut pairs = self.0.iter().zip(self.0.iter().skip(1));
        let found = pairs.find(|((_, time), (_, later))| time > later);
        found.map(|((zxid, time), (next, later))| [(*zxid, *time), (*next, *later)])
    }

    /// The time of a transaction; if unknown, the one seen now.
    fn learn(&mut self, zxid: Zxid, seen: Zxid, time: i64) -> i64 {
        match self.0.get(&zxid) {
            Some(known) => *known,
            None if zxid == seen => *self.0.entry(zxid).or_insert(time),
            None => 0,
        }
    }
}

fn stats(reply: &mut Reply) -> Vec<&mut Stat> {
    match reply {
        Reply::Created2(_, stat) | Reply::Stat(stat) | Reply::Data(_, stat) => vec![stat],
        Reply::Acl(_, stat) | Reply::Children2(_, stat) => vec![stat],
        Reply::Multi(parts) => parts
            .iter_mut()
            .filter_map(|part| match part {
                OpResult::Create2(_, stat) | OpResult::SetData(stat) | OpResult::GetData(_, stat) => {
                    Some(stat)
                }
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The reply with sorted lists, as their order is not specified.
fn normalized(reply: &Reply) -> Reply {
    match reply {
        Reply::Children(names) => Reply::Children(sorted(names)),
        Reply::Children2(names, stat) => Reply::Children2(sorted(names), *stat),
        Reply::Ephemerals(paths) => {
            let mut paths = paths.clone();
            paths.sort_unstable();
            Reply::Ephemerals(paths)
        }
        Reply::Multi(parts) => {
            let part = |part: &OpResult| match part {
                OpResult::GetChildren(names) => OpResult::GetChildren(sorted(names)),
                other => other.clone(),
            };
            Reply::Multi(parts.iter().map(part).collect())
        }
        other => other.clone(),
    }
}

fn sorted(names: &NameList) -> NameList {
    let mut names: Vec<String> = names.iter().collect();
    names.sort_unstable();
    names.iter().map(String::as_str).collect()
}
