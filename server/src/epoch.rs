//! Where the zxids and the session ids of a server without a data directory begin.
//!
//! Such a server forgets everything when it stops, and its clients do not. A client that has seen a later zxid than the server
//! gets no answer, and a fencing token that is lower than an earlier one fences nothing. So both numbers follow from the time
//! of the start, in steps that no server outruns: a later server begins above all that an earlier one has given, as far as
//! the machine's clock does not go back.

use std::time::Duration;

use zoolet_proto::Zxid;

/// When zxids begin at 0: 2026-01-01, where a manual clock begins too. Before that they also begin at 0.
const ZERO: Duration = Duration::from_secs(1_767_225_600);

/// A write takes a microsecond at best, so this is ten times faster than any server. Until 2043 such a zxid is exact in
/// a JavaScript number (53 bits); for 9,000 years they rise.
const ZXIDS_PER_MICROSECOND: u128 = 16;

/// The ids that `SessionTable` has for the sessions of one millisecond.
const SESSIONS_PER_MILLISECOND: u32 = 1 << 16;

/// The zxid of the empty tree of a server that starts at `unix`.
pub(crate) fn initial_zxid(unix: Duration) -> Zxid {
    let zxid = unix.saturating_sub(ZERO).as_micros().saturating_mul(ZXIDS_PER_MICROSECOND);
    // Half of the range stays for the writes of a server whose clock is at its end.
    Zxid(i64::try_from(zxid).unwrap_or(i64::MAX).min(i64::MAX / 2))
}

/// How many session ids of its millisecond a server that starts at `unix` skips.
pub(crate) fn skipped_session_ids(unix: Duration) -> u16 {
    let micros = unix.subsec_micros() % 1_000;
    u16::try_from(micros * SESSIONS_PER_MILLISECOND / 1_000).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_a_microsecond_later_begins_above_an_earlier_one() {
        let later = Duration::from_micros(1);
        for start in [ZERO, ZERO + Duration::from_micros(999), ZERO + Duration::from_secs(1 << 33)] {
            assert_eq!(initial_zxid(start + later).0, initial_zxid(start).0 + 16);
        }
        for micros in 0..999 {
            let start = ZERO + Duration::from_micros(micros);
            assert!(skipped_session_ids(start + later) >= skipped_session_ids(start) + 65);
        }
    }

    #[test]
    fn zxids_begin_at_zero_in_2026_and_are_exact_as_floats_until_2043() {
        let year = Duration::from_secs(31_556_952);
        assert_eq!(initial_zxid(Duration::ZERO), Zxid(0));
        assert_eq!((initial_zxid(ZERO), skipped_session_ids(ZERO)), (Zxid(0), 0));
        assert!(initial_zxid(ZERO + 17 * year).0 < 1 << 53);
        assert!(initial_zxid(ZERO + 9_000 * year).0 < i64::MAX / 2);
        assert_eq!(initial_zxid(Duration::MAX), Zxid(i64::MAX / 2));
    }
}
