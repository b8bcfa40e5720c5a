//! The values of a `zoo.cfg`, each parsed as Apache ZooKeeper does. Errors say what the value must be.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use zoolet_proto::is_digest_id;
use zoolet_storage::{Compression, Durability};

use crate::text::Secret;

/// The smallest request limit that the builder accepts: a connect request must fit.
pub(crate) const MIN_FRAME: usize = 64;

const INTS: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
const POSITIVE: RangeInclusive<i64> = 1..=i32::MAX as i64;

/// `Integer.parseInt`.
pub(crate) fn int(value: &str) -> Option<i64> {
    value.parse::<i32>().ok().map(i64::from)
}

/// `Integer.decode`, with which ZooKeeper parses JVM properties: decimal, hexadecimal after `0x` or `#`, octal after `0`.
pub(crate) fn decoded(value: &str) -> Option<i64> {
    decoded_long(value).filter(|number| INTS.contains(number))
}

/// `Long.parseLong`.
pub(crate) fn long(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// `Long.decode`.
pub(crate) fn decoded_long(value: &str) -> Option<i64> {
    let (minus, number) = match value.strip_prefix(['-', '+']) {
        Some(number) => (value.starts_with('-'), number),
        None => (false, value),
    };
    let hexadecimal = ["0x", "0X", "#"].into_iter().find_map(|prefix| number.strip_prefix(prefix));
    let (digits, radix) = match (hexadecimal, number.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (number, 10),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if minus { -number } else { number })
}

fn within<T: TryFrom<i64>>(number: Option<i64>, range: RangeInclusive<i64>, what: &str) -> Result<T, String> {
    let (low, high) = (*range.start(), *range.end());
    number
        .filter(|number| range.contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("must be {what} from {low} to {high}"))
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

pub(crate) fn interval(value: &str) -> Result<Duration, String> {
    within(int(value), POSITIVE, "a number of milliseconds").map(duration)
}

pub(crate) fn decoded_interval(value: &str) -> Result<Duration, String> {
    within(decoded(value), POSITIVE, "a number of milliseconds").map(duration)
}

/// A bound of session timeouts; -1 derives it from the tick.
pub(crate) fn bound(value: &str) -> Result<Option<Duration>, String> {
    if int(value) == Some(-1) {
        return Ok(None);
    }
    interval(value).map(Some).map_err(|hint| format!("{hint}, or -1 to derive it from tickTime"))
}

pub(crate) fn port(value: &str) -> Result<u16, String> {
    within(int(value), 0..=i64::from(u16::MAX), "a port")
}

pub(crate) fn address(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("must be an address or a host name".to_owned()) } else { Ok(value.to_owned()) }
}

/// A limit of connections; 0 or a negative number is no limit.
pub(crate) fn limit(number: Option<i64>) -> Result<usize, String> {
    let number: i64 = within(number, INTS, "a number of connections, where 0 is no limit,")?;
    Ok(usize::try_from(number).unwrap_or(0))
}

/// The queue length of a listening socket; anything below 1 is the default.
pub(crate) fn backlog(value: &str) -> Result<Option<u32>, String> {
    let number: i64 = within(int(value), INTS, "a number of connections, where -1 is the default,")?;
    Ok(u32::try_from(number).ok().filter(|backlog| *backlog > 0))
}

pub(crate) fn max_frame(value: &str) -> Result<usize, String> {
    let least = i64::try_from(MIN_FRAME).unwrap_or(i64::MAX);
    within(decoded(value), least..=i64::from(i32::MAX), "a number of bytes")
}

pub(crate) fn deletions(value: &str) -> Result<u32, String> {
    within(decoded(value), POSITIVE, "a number of deletions")
}

/// An age; 0 or a negative number is never.
pub(crate) fn age(value: &str) -> Result<Duration, String> {
    let millis =
        within(decoded_long(value), i64::MIN..=i64::MAX, "a number of milliseconds, where 0 is never,")?;
    Ok(duration(millis))
}

/// ZooKeeper silently takes anything but `true` for false, at most keys. Here a typing error is an error.
pub(crate) fn boolean(value: &str) -> Result<bool, String> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Ok(true),
        _ if value.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(crate) fn yes_or_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("must be yes or no".to_owned()),
    }
}

/// Checks the form of a super digest. One of another form would never match.
pub(crate) fn check_super_digest(text: &str) -> Result<(), &'static str> {
    if is_digest_id(text) {
        Ok(())
    } else {
        Err("must be user:base64(sha1(user:password)), with 28 characters after the colon")
    }
}

pub(crate) fn super_digest(value: &str) -> Result<Secret, String> {
    check_super_digest(value)?;
    Ok(Secret::from(value))
}

pub(crate) fn directory(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("must be a directory".to_owned()) } else { Ok(PathBuf::from(value)) }
}

pub(crate) fn file(value: &str) -> Result<PathBuf, String> {
    if value.is_empty() { Err("must be a file".to_owned()) } else { Ok(PathBuf::from(value)) }
}

/// A number of KiB, in bytes; 0 or a negative number is none.
pub(crate) fn kibibytes(number: Option<i64>, zero: &str) -> Result<u64, String> {
    const LARGEST: i64 = i64::MAX >> 10;
    match number {
        Some(number @ ..=LARGEST) => Ok(u64::try_from(number).unwrap_or(0) << 10),
        _ => Err(format!("must be a number of KiB up to {LARGEST}, where 0 or less {zero}")),
    }
}

/// A number of transactions. Less than 2 is 2, as on an Apache server.
pub(crate) fn transactions(value: &str) -> Result<u64, String> {
    let number: i64 = within(int(value), INTS, "a number of transactions")?;
    Ok(u64::try_from(number).unwrap_or(0).max(2))
}

/// A threshold; 0 or a negative number is always exceeded.
pub(crate) fn threshold(value: &str) -> Result<Duration, String> {
    decoded_long(value).map(duration).ok_or_else(|| "must be a number of milliseconds".to_owned())
}

/// Whether the log is synced. Apache takes anything but `no` for yes.
pub(crate) fn force_sync(value: &str) -> Result<Durability, String> {
    Ok(if yes_or_no(value)? { Durability::Sync } else { Durability::Os })
}

pub(crate) fn compression(value: &str) -> Result<Compression, String> {
    match value {
        "" => Ok(Compression::None),
        _ if value.eq_ignore_ascii_case("gz") => Ok(Compression::Gzip),
        _ if value.eq_ignore_ascii_case("snappy") => Ok(Compression::Snappy),
        _ => Err("must be gz or snappy, or empty for none".to_owned()),
    }
}

/// How often old snapshots are removed: whether at all.
pub(crate) fn purge_interval(value: &str) -> Result<bool, String> {
    within::<i64>(int(value), INTS, "a number of hours, where 0 is never,").map(|hours| hours > 0)
}

/// How many snapshots are kept. Less than 3 is 3, as on an Apache server.
pub(crate) fn retained(value: &str) -> Result<usize, String> {
    let number: i64 = within(int(value), INTS, "a number of snapshots")?;
    Ok(usize::try_from(number).unwrap_or(0).max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_digest_has_a_user_and_a_sha1() {
        assert_eq!(check_super_digest("super:lK75jTNcA+U9vtVEw5vB51mj/w4="), Ok(()));
        for text in [
            "",
            "super",
            "super:secret",
            ":lK75jTNcA+U9vtVEw5vB51mj/w4=",
            "super:lK75jTNcA+U9vtVEw5vB51mj/w4",
        ] {
            assert!(check_super_digest(text).is_err(), "{text}");
        }
    }
}
