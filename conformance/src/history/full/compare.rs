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
        let (mut expected, mut seen) = (model, seen.cloned());
        if let (Ok(expected), Ok(seen)) = (&mut expected, &mut seen) {
            for (stat, seen) in stats(expected).into_iter().zip(stats(seen)) {
                stat.ctime = self.learn(stat.czxid, seen.czxid, seen.ctime);
                stat.mtime = self.learn(stat.mzxid, seen.mzxid, seen.mtime);
            }
            if expected != seen {
                sort_lists(seen);
            }
        }
        if expected == seen { Ok(()) } else { Err(expected) }
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

/// Sorts the lists of a reply as the model does, as their order is not specified.
fn sort_lists(reply: &mut Reply) {
    let sort = |names: &mut NameList| {
        let mut sorted: Vec<String> = names.iter().collect();
        sorted.sort_unstable();
        *names = sorted.iter().map(String::as_str).collect();
    };
    match reply {
        Reply::Children(names) | Reply::Children2(names, _) => sort(names),
        Reply::Ephemerals(paths) => paths.sort_unstable(),
        Reply::Multi(parts) => {
            for part in parts {
                if let OpResult::GetChildren(names) = part {
                    sort(names);
                }
            }
        }
        _ => {}
    }
}
