//! The value of a setting as it was written: a flag has units, and a `zoo.cfg` is read as Apache ZooKeeper reads it. Errors
//! say what the value must be.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use zoolet_proto::is_digest_id;
use zoolet_server::ServerBuilder;
use zoolet_storage::{Compression, Durability};

use crate::{duration, size};

/// The text of a value, and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Written<'a> {
    Flag(&'a str),
    Key(&'a str),
}

/// How Java parses a number, which depends on the key.
type JavaNumber = fn(&str) -> Option<i64>;

const INTS: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;
const POSITIVE: RangeInclusive<i64> = 1..=i32::MAX as i64;

/// The smallest request limit that the builder accepts: a connect request must fit.
const MIN_FRAME: i64 = 64;

impl<'a> Written<'a> {
    pub(crate) fn text(self) -> &'a str {
        match self {
            Self::Flag(text) | Self::Key(text) => text,
        }
    }

    pub(crate) fn interval(self, java: JavaNumber) -> Result<Duration, String> {
        match self {
            Self::Flag(text) => duration::interval(text),
            Self::Key(_) => self.number(java, POSITIVE, "a number of milliseconds").map(millis),
        }
    }

    /// A bound of session timeouts; -1 in a file derives it from the tick.
    pub(crate) fn bound(self) -> Result<Option<Duration>, String> {
        match self {
            Self::Flag(_) => self.interval(int).map(Some),
            Self::Key(text) if int(text) == Some(-1) => Ok(None),
            Self::Key(_) => self
                .interval(int)
                .map(Some)
                .map_err(|hint| format!("{hint}, or -1 to derive it from tickTime")),
        }
    }

    /// A time that can be zero; in a file a negative one is zero.
    pub(crate) fn time(self) -> Result<Duration, String> {
        match self {
            Self::Flag(text) => duration::parse(text),
            Self::Key(text) => {
                decoded_long(text).map(millis).ok_or_else(|| "must be a number of milliseconds".to_owned())
            }
        }
    }

    pub(crate) fn port(self) -> Result<u16, String> {
        self.number(int, 0..=i64::from(u16::MAX), "a port")
    }

    pub(crate) fn count(self) -> Result<usize, String> {
        self.text().parse().map_err(|_| "must be a whole number, such as 100".to_owned())
    }

    /// A limit of connections, where 0 means no limit.
    pub(crate) fn connections(self, java: JavaNumber) -> Result<usize, String> {
        match self {
            Self::Flag(_) => self.count(),
            Self::Key(_) => self.natural(java, "a number of connections, where 0 is no limit,"),
        }
    }

    /// The queue length of a listening socket; in a file anything below 1 is the default.
    pub(crate) fn backlog(self) -> Result<Option<u32>, String> {
        match self {
            Self::Flag(_) => self.number(int, 0..=i64::from(u32::MAX), "a number of connections").map(Some),
            Self::Key(_) => self
                .natural(int, "a number of connections, where -1 is the default,")
                .map(|backlog| Some(backlog).filter(|backlog| *backlog > 0)),
        }
    }

    pub(crate) fn max_frame(self) -> Result<usize, String> {
        self.number(decoded, MIN_FRAME..=i64::from(i32::MAX), "a number of bytes")
    }

    pub(crate) fn deletions(self) -> Result<u32, String> {
        self.number(decoded, POSITIVE, "a number of deletions")
    }

    /// A number of transactions. Less than 2 is 2 in a file, as on an Apache server.
    pub(crate) fn transactions(self) -> Result<u64, String> {
        let what = "a number of transactions";
        match self {
            Self::Flag(_) => self.number(int, 2..=i64::MAX, what),
            Self::Key(_) => self.natural(int, what).map(|number: u64| number.max(2)),
        }
    }

    /// How often old snapshots are removed: whether at all.
    pub(crate) fn purge_interval(self) -> Result<bool, String> {
        self.natural(int, "a number of hours, where 0 is never,").map(|hours: u32| hours > 0)
    }

    /// How many snapshots are kept. Less than 3 is 3, as on an Apache server.
    pub(crate) fn retained(self) -> Result<usize, String> {
        self.natural(int, "a number of snapshots").map(|number: usize| number.max(3))
    }

    /// A Java `int`, of which a negative one is 0.
    fn natural<T: TryFrom<i64> + Default>(self, java: JavaNumber, what: &str) -> Result<T, String> {
        self.number(java, INTS, what).map(|number: i64| T::try_from(number).unwrap_or_default())
    }

    /// A number in a range, decimal in a flag.
    fn number<T: TryFrom<i64>>(
        self,
        java: JavaNumber,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Result<T, String> {
        let number = match self {
            Self::Flag(text) => long(text),
            Self::Key(text) => java(text),
        };
        let (low, high) = (*range.start(), *range.end());
        number
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("must be {what} from {low} to {high}"))
    }

    /// Bytes: a size with a unit in a flag, a number of KiB in a file, where 0 or less is 0. `zero` is what 0 does.
    pub(crate) fn size(self, java: JavaNumber, zero: &str) -> Result<u64, String> {
        const LARGEST: i64 = i64::MAX >> 10;
        match self {
            Self::Flag(text) => size::parse(text),
            Self::Key(text) => match java(text) {
                Some(number @ ..=LARGEST) => Ok(u64::try_from(number).unwrap_or(0) << 10),
                _ => Err(format!("must be a number of KiB up to {LARGEST}, where 0 or less {zero}")),
            },
        }
    }

    /// Bytes, where 0 means no limit.
    pub(crate) fn size_limit(self) -> Result<Option<u64>, String> {
        self.size(decoded_long, "is no limit").map(|bytes| Some(bytes).filter(|bytes| *bytes > 0))
    }

    /// ZooKeeper silently takes anything but `true` for false, at most keys. Here a typing error is an error.
    pub(crate) fn boolean(self) -> Result<bool, String> {
        match self.text() {
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err("must be true or false".to_owned()),
        }
    }

    /// A boolean that is `yes` or `no` in a file.
    pub(crate) fn yes_or_no(self) -> Result<bool, String> {
        match self {
            Self::Flag(_) => self.boolean(),
            Self::Key("yes") => Ok(true),
            Self::Key("no") => Ok(false),
            Self::Key(_) => Err("must be yes or no".to_owned()),
        }
    }

    pub(crate) fn durability(self) -> Result<Durability, String> {
        match self {
            Self::Flag("sync") => Ok(Durability::Sync),
            Self::Flag("os") => Ok(Durability::Os),
            Self::Flag(_) => Err("must be sync or os".to_owned()),
            // Apache takes anything but `no` for yes.
            Self::Key(_) => self.yes_or_no().map(|yes| if yes { Durability::Sync } else { Durability::Os }),
        }
    }

    pub(crate) fn compression(self) -> Result<Compression, String> {
        match self {
            Self::Flag(text) => compression(text),
            Self::Key("") => Ok(Compression::None),
            Self::Key(text) => {
                compressed(text).ok_or_else(|| "must be gz or snappy, or empty for none".to_owned())
            }
        }
    }

    /// How many snapshots are kept; `None` is all.
    pub(crate) fn retention(self) -> Result<Option<usize>, String> {
        match (self.text(), self.text().parse()) {
            ("all", _) => Ok(None),
            (_, Ok(count)) if count > 0 => Ok(Some(count)),
            _ => Err("must be a number of snapshots, at least 1, or all".to_owned()),
        }
    }

    /// A super digest. One of another form would never match.
    pub(crate) fn super_digest(self) -> Result<String, String> {
        match self.text() {
            text if is_digest_id(text) => Ok(text.to_owned()),
            _ => {
                Err("must be user:base64(sha1(user:password)), with 28 characters after the colon".to_owned())
            }
        }
    }

    pub(crate) fn address(self) -> Result<String, String> {
        self.not_empty("an address or a host name").map(str::to_owned)
    }

    pub(crate) fn bind(self) -> Result<String, String> {
        match self.text() {
            text if ServerBuilder::is_address(text) => Ok(text.to_owned()),
            _ => Err("must be an address and a port, such as 127.0.0.1:2181 or [::1]:0".to_owned()),
        }
    }

    /// A text that is not empty.
    pub(crate) fn name(self) -> Result<String, String> {
        self.not_empty("a name").map(str::to_owned)
    }

    /// A number, of which one that is not positive is the default.
    #[cfg(feature = "tls")]
    pub(crate) fn positive(self, java: JavaNumber, what: &str) -> Result<Option<usize>, String> {
        self.natural(java, what).map(|number: usize| Some(number).filter(|number| *number > 0))
    }

    pub(crate) fn directory(self) -> Result<PathBuf, String> {
        self.not_empty("a directory").map(PathBuf::from)
    }

    pub(crate) fn file(self) -> Result<PathBuf, String> {
        self.not_empty("a file").map(PathBuf::from)
    }

    fn not_empty(self, what: &str) -> Result<&'a str, String> {
        Some(self.text()).filter(|text| !text.is_empty()).ok_or_else(|| format!("must be {what}"))
    }
}

/// A directory on the command line.
pub(crate) fn directory(text: &str) -> Result<PathBuf, String> {
    Written::Flag(text).directory()
}

/// A compression on the command line.
pub(crate) fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        _ => compressed(text).ok_or_else(|| "must be none, gz or snappy".to_owned()),
    }
}

fn compressed(text: &str) -> Option<Compression> {
    match text {
        _ if text.eq_ignore_ascii_case("gz") => Some(Compression::Gzip),
        _ if text.eq_ignore_ascii_case("snappy") => Some(Compression::Snappy),
        _ => None,
    }
}

/// `Integer.parseInt`.
pub(crate) fn int(text: &str) -> Option<i64> {
    text.parse::<i32>().ok().map(i64::from)
}

/// `Long.parseLong`.
pub(crate) fn long(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// `Integer.decode`, with which ZooKeeper parses JVM properties: decimal, hexadecimal after `0x` or `#`, octal after `0`.
pub(crate) fn decoded(text: &str) -> Option<i64> {
    decoded_long(text).filter(|number| INTS.contains(number))
}

/// `Long.decode`.
pub(crate) fn decoded_long(text: &str) -> Option<i64> {
    let (minus, number) = match text.strip_prefix(['-', '+']) {
        Some(number) => (text.starts_with('-'), number),
        None => (false, text),
    };
    let hexadecimal = ["0x", "0X", "#"].into_iter().find_map(|prefix| number.strip_prefix(prefix));
    let (digits, radix) = match (hexadecimal, number.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (number, 10),
    };
    // A second sign, which `from_str_radix` would take.
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if minus { -number } else { number })
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_super_digest_has_a_user_and_a_sha1() {
        let check = |text| Written::Flag(text).super_digest();
        assert!(check("super:lK75jTNcA+U9vtVEw5vB51mj/w4=").is_ok());
        for text in [
            "",
            "super",
            "super:secret",
            ":lK75jTNcA+U9vtVEw5vB51mj/w4=",
            "super:lK75jTNcA+U9vtVEw5vB51mj/w4",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_java_reads_them_at_that_key() {
        let numbers =
            ["10", "-10", "0x10", "-0X10", "#f", "010", "0", "+7"].map(|text| decoded(text).unwrap());
        assert_eq!(numbers, [10, -10, 16, -16, 15, 8, 0, 7]);
        for text in ["", "-", "0x", "08", "2147483648", "1 0", "--1", "0x-1", "1s"] {
            assert_eq!(decoded(text), None, "{text}");
        }
        assert_eq!(int("+7"), Some(7));
        assert_eq!(int("0x10"), None);
    }

    #[test]
    fn all_snapshots_or_some_number_of_them_are_kept() {
        let kept = |text| Written::Flag(text).retention();
        assert_eq!([kept("all"), kept("1"), kept("20")], [Ok(None), Ok(Some(1)), Ok(Some(20))]);
        for text in ["0", "-1", "none", ""] {
            assert!(kept(text).unwrap_err().contains("at least 1"), "{text}");
        }
    }
}
