//! The constants of the format, and the order of transactions.

use zoolet_proto::Zxid;

/// The first bytes of a log file: `ZKLG`.
pub(super) const MAGIC: [u8; 4] = *b"ZKLG";
pub(super) const VERSION: i32 = 2;
/// The length of the header: magic, version, and a database id, which is 0.
pub(super) const FILE_HEADER: u64 = 16;

/// Whether a transaction may come after another one: the zxid is one higher, or the first of a later epoch, which an ensemble
/// begins when it elects a leader.
#[must_use]
pub fn follows(last: Zxid, next: Zxid) -> bool {
    let (epoch, counter) = (next.0 >> 32, next.0 & 0xffff_ffff);
    next.0 > last.0 && (next.0 - 1 == last.0 || (epoch > last.0 >> 32 && counter == 1))
}
