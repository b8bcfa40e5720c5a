//! The names of contenders: ours, and those that other clients give theirs in the same directory.

/// What a contender wants, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// To read beside other readers.
    Shared,
    /// To be alone.
    Exclusive,
    /// No known client names its contenders so, but it ends in a number as theirs do.
    Unknown,
}

/// What stands before the number in the names of known clients, and where each comes from.
const MARKERS: &[(&str, Kind)] = &[
    ("lock-", Kind::Exclusive), // Curator, go-zookeeper, zookeeper-client, the recipe of the documentation
    ("__lock__", Kind::Exclusive), // kazoo
    ("__READ__", Kind::Shared), // Curator, read/write
    ("__WRIT__", Kind::Exclusive), //
    ("__rlock__", Kind::Shared), // kazoo, read/write
    ("read-", Kind::Shared),    // the recipe of the documentation, read/write
    ("write-", Kind::Exclusive), //
    ("latch-", Kind::Exclusive), // Curator, leader latch
    ("lease-", Kind::Exclusive), // Curator, semaphore
    ("n_", Kind::Exclusive),    // the election of the documentation
];

/// How our own contenders are named. The servers append the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Curator's "protected" prefix, the guid with its dashes, and this marker. Its readers cut 36 characters behind
    /// the prefix, and so does go-zookeeper.
    Curator(&'static str),
    /// The guid without dashes and this marker, as kazoo does.
    Kazoo(&'static str),
}

/// An exclusive contender, as Curator's.
pub(crate) const LOCK: Style = Style::Curator("-lock-");
/// An exclusive contender, as kazoo's; a writer is named so as well.
pub(crate) const KAZOO_LOCK: Style = Style::Kazoo("__lock__");
/// A reader, as kazoo's.
pub(crate) const KAZOO_READ: Style = Style::Kazoo("__rlock__");
/// A reader, as Curator's. Its marker is as long as the writer's on purpose.
pub(crate) const READ: Style = Style::Curator("-__READ__");
/// A writer, as Curator's.
pub(crate) const WRITE: Style = Style::Curator("-__WRIT__");
/// A candidate, as of Curator's leader latch.
pub(crate) const LATCH: Style = Style::Curator("-latch-");
/// A held permit, as of Curator's semaphore.
pub(crate) const LEASE: Style = Style::Curator("-lease-");

impl Style {
    /// The prefix of the name of the contender `guid`.
    pub(crate) fn prefix(self, guid: &str) -> String {
        match self {
            Self::Curator(marker) => format!("_c_{guid}{marker}"),
            Self::Kazoo(marker) => format!("{}{marker}", guid.replace('-', "")),
        }
    }
}

/// Whether `name` is one that [`Style::prefix`] makes for the contender `guid`.
pub(crate) fn is_of(name: &str, guid: &str) -> bool {
    let protected = |name: &str| name.strip_prefix("_c_").is_some_and(|rest| rest.starts_with(guid));
    let mut bare = guid.bytes().filter(|byte| *byte != b'-');
    protected(name) || name.len() > 32 && name.bytes().take(32).all(|byte| Some(byte) == bare.next())
}

/// The guid of the contender that has this name, if it says one: behind `_c_` or in front of all, with dashes or without.
pub(crate) fn guid_in(name: &str) -> Option<u128> {
    let digits = name.strip_prefix("_c_").unwrap_or(name).chars().filter(|char| *char != '-');
    let (guid, len) = digits
        .map_while(|char| char.to_digit(16))
        .take(32)
        .fold((0, 0), |(guid, len), digit| (guid << 4 | u128::from(digit), len + 1));
    (len == 32).then_some(guid)
}

/// The same style for a reader where `prefix` is a writer's of the contender `guid`, if it is.
pub(crate) fn reader_of(prefix: &str, guid: &str) -> Option<String> {
    let pairs = [(WRITE, READ), (KAZOO_LOCK, KAZOO_READ)];
    pairs.into_iter().find(|(write, _)| write.prefix(guid) == prefix).map(|(_, read)| read.prefix(guid))
}

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The number that the server appended.
    pub(crate) sequence: i64,
    pub(crate) kind: Kind,
}

/// Reads a name; `None` if it ends in no number, and so belongs to no contender.
pub(crate) fn parse(name: &str) -> Option<Parsed> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, number) = name.split_at(name.len() - digits);
    // A known marker decides where the number starts, so that a dash of it is never taken for a sign.
    let known = match marked(head) {
        Some(kind) => (digits >= 10).then_some((kind, 1)),
        None => head.strip_suffix('-').and_then(marked).and_then(|kind| (digits >= 9).then_some((kind, -1))),
    };
    let (kind, sign) = match known {
        Some(known) => known,
        None if digits >= 10 => (Kind::Unknown, 1),
        None if digits == 9 && head.ends_with('-') => (Kind::Unknown, -1),
        None => return None,
    };
    // Names that are only like those of contenders may have any number of digits in front.
    let number = if kind == Kind::Unknown { &number[digits.saturating_sub(10)..] } else { number };
    Some(Parsed { sequence: sign * number.parse::<i64>().ok()?, kind })
}

/// What a known client says by the part of a name in front of the number.
fn marked(head: &str) -> Option<Kind> {
    let ends_so = |marker| head.strip_suffix(marker).is_some_and(|front| begins_behind(front, marker));
    let kind = MARKERS.iter().find(|(marker, _)| ends_so(marker)).map(|(_, kind)| *kind);
    kind.or_else(|| (session_recipe(head) || accumulo(head)).then_some(Kind::Exclusive))
}

/// Whether a marker stands for itself behind `front`, and is not the end of a word, as `read-` is of `thread-`. The
/// letters of a guid are none of a word.
fn begins_behind(front: &str, marker: &str) -> bool {
    let in_a_word = marker.starts_with(char::is_alphabetic) && front.ends_with(char::is_alphabetic);
    let digits = front.bytes().rev().filter(|byte| *byte != b'-').take_while(u8::is_ascii_hexdigit);
    !in_a_word || digits.take(32).count() == 32
}

/// `x-<session>-`, the recipe shipped with ZooKeeper: the session in decimal, maybe negative, or in hex.
fn session_recipe(head: &str) -> bool {
    let session = head.strip_prefix("x-").and_then(|rest| rest.strip_suffix('-'));
    let digits = session.map(|session| session.strip_prefix('-').unwrap_or(session));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `zlock#<uuid>#`.
fn accumulo(head: &str) -> bool {
    let uuid = head.strip_prefix("zlock#").and_then(|rest| rest.strip_suffix('#'));
    uuid.is_some_and(|uuid| !uuid.contains('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f";

    #[test]
    fn the_names_of_every_known_client_are_read() {
        use Kind::*;
        for (name, sequence, kind) in [
            (format!("_c_{UUID}-lock-0000000007"), 7, Exclusive),
            (format!("_c_{UUID}-lock--000000007"), -7, Exclusive),
            (format!("_c_{UUID}-lock--2147483648"), -2_147_483_648, Exclusive),
            (format!("_c_{UUID}-__READ__0000000008"), 8, Shared),
            (format!("_c_{UUID}-__WRIT__-000000009"), -9, Exclusive),
            (format!("_c_{UUID}-latch-0000000010"), 10, Exclusive),
            (format!("_c_{UUID}-lease-0000000010"), 10, Exclusive),
            ("0123456789abcdef0123456789abcdef__lock__0000000011".into(), 11, Exclusive),
            ("0123456789abcdef0123456789abcdef__rlock__0000000012".into(), 12, Shared),
            ("guid-read-0000000012".into(), 12, Shared),
            ("guid-write-0000000012".into(), 12, Exclusive),
            ("x-72057594037927937-0000000013".into(), 13, Exclusive),
            ("x--72057594037927937-0000000014".into(), 14, Exclusive),
            ("x-0100000000000001--000000015".into(), -15, Exclusive),
            (format!("zlock#{UUID}#0000000016"), 16, Exclusive),
            ("n_0000000017".into(), 17, Exclusive),
            ("lock-0000000018".into(), 18, Exclusive),
            ("lock-2147483648".into(), 2_147_483_648, Exclusive),
            ("app.lock-0000000018".into(), 18, Exclusive),
            ("7read-0000000018".into(), 18, Shared),
            (format!("{UUID}read-0000000018"), 18, Shared),
            (format!("_c_{}lock-0000000018", UUID.replace('-', "")), 18, Exclusive),
            ("node_0000000019".into(), 19, Unknown),
            ("thread-0000000019".into(), 19, Unknown),
            ("deadread-0000000019".into(), 19, Unknown),
            ("block--000000019".into(), -19, Unknown),
            ("rewrite-0000000019".into(), 19, Unknown),
            ("prerelease-0000000019".into(), 19, Unknown),
            ("run_0000000019".into(), 19, Unknown),
            ("été-read-0000000019".into(), 19, Shared),
            ("éread-0000000019".into(), 19, Unknown),
            ("lock-72057594037927937-0000000020".into(), 20, Unknown),
            ("odd-000000021".into(), -21, Unknown),
            ("20261121-99990000000022".into(), 22, Unknown),
        ] {
            assert_eq!(parse(&name), Some(Parsed { sequence, kind }), "{name}");
        }
        for name in ["config", "lock-", "lock-12", "readme-1.2", "", "lock-99999999999999999999"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn names_without_a_guid_say_none() {
        for name in ["n_0000000017", "deadbeef-lock-0000000018", "x-72057594037927937-0000000013", "_c_"] {
            assert_eq!(guid_in(name), None, "{name}");
        }
    }

    #[test]
    fn our_names_are_those_of_the_clients_we_stand_beside() {
        assert_eq!(LOCK.prefix(UUID), format!("_c_{UUID}-lock-"));
        assert_eq!(READ.prefix(UUID), format!("_c_{UUID}-__READ__"));
        assert_eq!(WRITE.prefix(UUID), format!("_c_{UUID}-__WRIT__"));
        assert_eq!(LATCH.prefix(UUID), format!("_c_{UUID}-latch-"));
        assert_eq!(LEASE.prefix(UUID), format!("_c_{UUID}-lease-"));
        assert_eq!(KAZOO_LOCK.prefix(UUID), "1a2b3c4d0000400080001a2b3c4d5e6f__lock__");
        assert_eq!(KAZOO_READ.prefix(UUID), "1a2b3c4d0000400080001a2b3c4d5e6f__rlock__");
        for style in [LOCK, READ, WRITE, LATCH, LEASE, KAZOO_LOCK, KAZOO_READ] {
            let name = style.prefix(UUID) + "0000000000";
            assert!(is_of(&name, UUID), "{name}");
            assert!(!is_of(&name, &UUID.replace('6', "7")), "{name}");
            assert_eq!(guid_in(&name), Some(0x1a2b_3c4d_0000_4000_8000_1a2b_3c4d_5e6f), "{name}");
        }
    }
}
