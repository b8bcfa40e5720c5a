//! Requests about quotas: of the znode of a run, and of znodes below it.
//!
//! Not drawn is what stops an Apache ZooKeeper or is decided otherwise (`docs/deviations.md`): limits of the root, statistics that a
//! client overwrites with anything but two small numbers, and limits that do not parse where they are enforced.

use rand::RngExt as _;

use super::generate::Generator;

const QUOTAS: &[&str] =
    &["/zookeeper/quota~", "/zookeeper/quota~/a", "/zookeeper/quota~/a/b", "/zookeeper/quota~/e"];
/// Soft and hard limits, in every notation that a server reads.
const LIMITS: &[&str] = &[
    "count=2,bytes=-1",
    "count=1,bytes=1=;byteHardLimit=-1;countHardLimit=-1",
    "count=3,bytes=9=;byteHardLimit=20;countHardLimit=3",
    "count=-1,bytes=-1=;byteHardLimit=12;countHardLimit=-1",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2",
    "count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0",
    "count=-1,bytes=-1;byteHardLimit=4;countHardLimit=4",
    "count=-1,bytes=-1,byteHardLimit=4,countHardLimit=4",
    "byteHardLimit=4",
    "countHardLimit=4",
    "",
];
const MALFORMED: &[&str] =
    &["garbage", "count=x,bytes=", "count=-1,bytes=-1=;byteHardLimit=x;countHardLimit="];
const STATISTICS: &[&str] = &["count=0,bytes=0", "count=1,bytes=1", "count=7,bytes=8", "count=100,bytes=100"];

impl Generator {
    pub(super) fn quota(&mut self) -> String {
        let quota = self.of(QUOTAS);
        let path = self.of(&["", "/zookeeper_limits", "/zookeeper_stats"]);
        let limits = if !self.enforces_quotas && self.one_in(4) { MALFORMED } else { LIMITS };
        let limits = self.of(limits);
        match self.random.random_range(0..20) {
            0..=2 => format!("create {quota}"),
            3..=6 => format!("create {quota}/zookeeper_limits \"{limits}\""),
            7 | 8 => format!("setData {quota}/zookeeper_limits \"{limits}\""),
            // What they are created with does not count.
            9..=11 => {
                let statistics = self.of(&["\"\"", "garbage", "\"count=0,bytes=0\""]);
                format!("create {quota}/zookeeper_stats {statistics}")
            }
            12 => format!("setData {quota}/zookeeper_stats \"{}\"", self.of(STATISTICS)),
            13 | 14 => format!("delete {quota}{path}"),
            15 => format!("multi {{ delete {quota}{path} }}"),
            16 => format!("getChildren2 {quota} watch"),
            17 => format!("exists {quota}{path} watch"),
            _ => format!("getData {quota}/zookeeper_stats watch"),
        }
    }
}
