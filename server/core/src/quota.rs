//! Quotas: limits that clients create as znodes below `/zookeeper/quota`, and the statistics next to them.

use std::collections::BTreeSet;
use std::fmt;

use zoolet_proto::path;

use crate::paths::QUOTA;
use crate::tree::Tree;
use crate::znode::Znode;

const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";
/// The longest text that is parsed: each scrape parses all, and a write may once for each of its parts. Those of clients have less
/// than a hundred bytes.
const LONGEST: usize = 1 << 10;

/// The subtrees that have a quota.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    tops: BTreeSet<Box<str>>,
}

/// A quota, as its znodes have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaView<'t> {
    /// The top of the subtree.
    pub top: &'t str,
    /// How many znodes it may have, by the hard limit if there is one; -1 without any.
    pub count_limit: i64,
    /// How many it has.
    pub count: i64,
    /// How many bytes of data it may have.
    pub byte_limit: i64,
    /// How many it has.
    pub bytes: i64,
}

impl Tree {
    /// The quotas, sorted by path.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaView<'_>> {
        self.quotas.tops.iter().map(|top| {
            let data = |path: String| self.get(&path).and_then(Znode::data).cloned().unwrap_or_default();
            let (limits, usage) = (data(limits_path(top)), data(stats_path(top)));
            let hard = HardLimits::parse(&limits);
            let limit = |hard: Option<i64>, key| hard.or_else(|| number(&limits, key)).unwrap_or(-1);
            let Usage { count, bytes } = Usage::parse(&usage).unwrap_or_default();
            let (count_limit, byte_limit) = (limit(hard.count, "count"), limit(hard.bytes, "bytes"));
            QuotaView { top, count_limit, count, byte_limit, bytes }
        })
    }
}

/// The znode with the limits of the subtree below `top`.
pub(crate) fn limits_path(top: &str) -> String {
    format!("{QUOTA}{top}{LIMITS}")
}

/// The znode with the statistics of the subtree below `top`.
pub(crate) fn stats_path(top: &str) -> String {
    format!("{QUOTA}{top}{STATS}")
}

impl Quotas {
    /// The top of the deepest quota over `path`, the only one that counts it. The root cannot have one.
    pub(crate) fn over<'p>(&self, path: &'p str) -> Option<&'p str> {
        if self.tops.is_empty() {
            return None;
        }
        let mut top = path;
        while top.len() > 1 {
            if self.tops.contains(top) {
                return Some(top);
            }
            top = path::parent(top);
        }
        None
    }

    /// The subtrees that have a quota, sorted.
    pub(crate) fn tops(&self) -> Vec<Box<str>> {
        self.tops.iter().cloned().collect()
    }

    /// Registers a new znode. Returns the top of a subtree that must be counted: the znode has its statistics.
    pub(crate) fn created<'p>(&mut self, path: &'p str) -> Option<&'p str> {
        if let Some(top) = subtree(path, LIMITS) {
            self.tops.insert(top.into());
        }
        subtree(path, STATS)
    }

    /// Registers that a znode was deleted.
    pub(crate) fn deleted(&mut self, path: &str) {
        if let Some(top) = subtree(path, LIMITS) {
            self.tops.remove(top);
        }
    }
}

/// The subtree that `/zookeeper/quota<subtree><leaf>` refers to. The root has none: `/zookeeper/quota/zookeeper_limits` is an
/// ordinary znode here, but crashes a real server.
fn subtree<'p>(path: &'p str, leaf: &str) -> Option<&'p str> {
    path.strip_prefix(QUOTA)?.strip_suffix(leaf).filter(|top| top.starts_with('/'))
}

/// The size of a subtree, including its top (`StatsTrack`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

impl Usage {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        Some(Self { count: number(text, "count")?, bytes: number(text, "bytes")? })
    }

    pub(crate) fn plus(self, count: i64, bytes: i64) -> Self {
        Self { count: self.count.saturating_add(count), bytes: self.bytes.saturating_add(bytes) }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.count, self.bytes)
    }
}

/// The hard limits in the data of a limits znode; `None` for no limit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HardLimits {
    pub(crate) count: Option<i64>,
    pub(crate) bytes: Option<i64>,
}

impl HardLimits {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let limit = |key| number(text, key).filter(|limit| *limit >= 0);
        Self { count: limit("countHardLimit"), bytes: limit("byteHardLimit") }
    }
}

/// The value of a `key=value` part; parts are separated by commas and semicolons. A text that is too long has none.
fn number(text: &[u8], key: &str) -> Option<i64> {
    if text.len() > LONGEST {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    text.split([',', ';']).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        // The soft limits end in a stray `=` before the first semicolon.
        (name.trim() == key).then(|| value.trim_end_matches('=').trim().parse().ok())?
    })
}

/// A length, to compute changes with: no data is too long for that.
pub(crate) fn signed(len: usize) -> i64 {
    len as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_parsed_in_the_form_that_clients_write() {
        let text = b"count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=5";
        assert_eq!(HardLimits::parse(text), HardLimits { count: Some(5), bytes: Some(100) });
        assert_eq!(HardLimits::parse(b"count=5,bytes=-1"), HardLimits::default());
        assert_eq!(Usage::parse(b"count=5,bytes=-1"), Some(Usage { count: 5, bytes: -1 }));
        assert_eq!(Usage::parse(b"garbage"), None);
    }

    #[test]
    fn the_deepest_quota_counts_and_names_are_whole_components() {
        let mut quotas = Quotas::default();
        quotas.created("/zookeeper/quota/a/zookeeper_limits");
        quotas.created("/zookeeper/quota/a/b/zookeeper_limits");
        let over = |path| quotas.over(path).map(stats_path);
        assert_eq!(over("/a/b/c").as_deref(), Some("/zookeeper/quota/a/b/zookeeper_stats"));
        assert_eq!(over("/a/c").as_deref(), Some("/zookeeper/quota/a/zookeeper_stats"));
        assert_eq!(over("/ab"), None);
    }

    #[test]
    fn the_root_cannot_have_a_quota() {
        let mut quotas = Quotas::default();
        quotas.created("/zookeeper/quota/zookeeper_limits");
        assert!(quotas.over("/a").is_none());
    }
}
