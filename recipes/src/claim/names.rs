//! The names of contenders: ours, and those of other clients in the same directory.

/// What kind of contender a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ContenderKind {
    /// It shares the lock with other readers.
    Shared,
    /// It excludes all others.
    Exclusive,
    /// No known client uses such names, but this one ends in a number as theirs do.
    Unknown,
}

/// The markers before the number in the names of known clients, and their origin.
const MARKERS: &[(&str, ContenderKind)] = &[
    ("lock-", ContenderKind::Exclusive), // Curator, go-zookeeper, zookeeper-client, the recipe of the documentation
    ("__lock__", ContenderKind::Exclusive), // kazoo
    ("__READ__", ContenderKind::Shared), // Curator, read/write
    ("__WRIT__", ContenderKind::Exclusive), //
    ("__rlock__", ContenderKind::Shared), // kazoo, read/write
    ("read-", ContenderKind::Shared),    // the recipe of the documentation, read/write
    ("write-", ContenderKind::Exclusive), //
    ("latch-", ContenderKind::Exclusive), // Curator, leader latch
    ("lease-", ContenderKind::Exclusive), // Curator, semaphore
    ("n_", ContenderKind::Exclusive),    // the election of the documentation
];

/// How our own contenders are named. The server appends the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameStyle {
    /// Curator's "protected" prefix, the guid with its dashes, and this marker. Curator and go-zookeeper cut off 36
    /// characters after the prefix when they read a name.
    Curator(&'static str),
    /// The guid without dashes and this marker, as in kazoo.
    Kazoo(&'static str),
}

/// An exclusive contender, as in Curator.
pub(crate) const LOCK: NameStyle = NameStyle::Curator("-lock-");
/// An exclusive contender, as in kazoo, where writers have the same name.
pub(crate) const KAZOO_LOCK: NameStyle = NameStyle::Kazoo("__lock__");
/// A reader, as in kazoo.
pub(crate) const KAZOO_READ: NameStyle = NameStyle::Kazoo("__rlock__");
/// A reader, as in Curator. Its marker has the length of the writer's on purpose.
pub(crate) const READ: NameStyle = NameStyle::Curator("-__READ__");
/// A writer, as in Curator.
pub(crate) const WRITE: NameStyle = NameStyle::Curator("-__WRIT__");
/// A candidate, as in Curator's leader latch.
pub(crate) const LATCH: NameStyle = NameStyle::Curator("-latch-");
/// A held permit, as in Curator's semaphore.
pub(crate) const LEASE: NameStyle = NameStyle::Curator("-lease-");

impl NameStyle {
    /// The prefix of the name of the contender `guid`.
    pub(crate) fn prefix(self, guid: &str) -> String {
        match self {
            Self::Curator(marker) => format!("_c_{guid}{marker}"),
            Self::Kazoo(marker) => format!("{}{marker}", guid.replace('-', "")),
        }
    }
}

/// Whether `name` begins as [`NameStyle::prefix`] makes it for the contender `guid`.
pub(crate) fn is_of(name: &str, guid: &str) -> bool {
    let protected = |name: &str| name.strip_prefix("_c_").is_some_and(|rest| rest.starts_with(guid));
    let mut bare = guid.bytes().filter(|byte| *byte != b'-');
    protected(name) || name.len() > 32 && name.bytes().take(32).all(|byte| Some(byte) == bare.next())
}

/// The guid in a name, if there is one: after `_c_` or at the beginning, with dashes or without.
pub(crate) fn guid_in(name: &str) -> Option<u128> {
    let digits = name.strip_prefix("_c_").unwrap_or(name).chars().filter(|char| *char != '-');
    let (guid, len) = digits
        .map_while(|char| char.to_digit(16))
        .take(32)
        .fold((0, 0), |(guid, len), digit| (guid << 4 | u128::from(digit), len + 1));
    (len == 32).then_some(guid)
}

/// The reader's prefix in the same style, if `prefix` is the writer's prefix of the contender `guid`.
pub(crate) fn reader_of(prefix: &str, guid: &str) -> Option<String> {
    let pairs = [(WRITE, READ), (KAZOO_LOCK, KAZOO_READ)];
    pairs.into_iter().find(|(write, _)| write.prefix(guid) == prefix).map(|(_, read)| read.prefix(guid))
}

/// A parsed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParsedName {
    /// The number that the server appended.
    pub(crate) sequence: i64,
    pub(crate) kind: ContenderKind,
}

/// Parses a name; `None` if it does not end in a number and so belongs to no contender.
pub(crate) fn parse(name: &str) -> Option<ParsedName> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, number) = name.split_at(name.len() - digits);
    // A known marker decides where the number starts, so that its dash is never mistaken for a sign.
    let known = match marked(head) {
        Some(kind) => (digits >= 10).then_some((kind, 1)),
        None => head.strip_suffix('-').and_then(marked).and_then(|kind| (digits >= 9).then_some((kind, -1))),
    };
    let (kind, sign) = match known {
        Some(known) => known,
        None if digits >= 10 => (ContenderKind::Unknown, 1),
        None if digits == 9 && head.ends_with('-') => (ContenderKind::Unknown, -1),
        None => return None,
    };
    // Unknown names may have any number of digits before the counter.
    let number = if kind == ContenderKind::Unknown { &number[digits.saturating_sub(10)..] } else { number };
    Some(ParsedName { sequence: sign * number.parse::<i64>().ok()?, kind })
}

/// The kind that a known client encodes in the part of a name before the number.
fn marked(head: &str) -> Option<ContenderKind> {
    let ends_so = |marker| head.strip_suffix(marker).is_some_and(|front| begins_after(front, marker));
    let kind = MARKERS.iter().find(|(marker, _)| ends_so(marker)).map(|(_, kind)| *kind);
    kind.or_else(|| (session_recipe(head) || accumulo(head)).then_some(ContenderKind::Exclusive))
}

/// Whether a marker after `front` is a word of its own, and not the end of one, as `read-` is of `thread-`. The letters
/// of a guid do not count as a word.
fn begins_after(front: &str, marker: &str) -> bool {
    let in_a_word = marker.starts_with(char::is_alphabetic) && front.ends_with(char::is_alphabetic);
    let digits = front.bytes().rev().filter(|byte| *byte != b'-').take_while(u8::is_ascii_hexdigit);
    !in_a_word || digits.take(32).count() == 32
}

/// `x-<session>-`, the recipe shipped with ZooKeeper: the session in decimal, possibly negative, or in hex.
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
    fn the_names_of_every_known_client_are_parsed() {
        use ContenderKind::*;
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
            assert_eq!(parse(&name), Some(ParsedName { sequence, kind }), "{name}");
        }
        for name in ["config", "lock-", "lock-12", "readme-1.2", "", "lock-99999999999999999999"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_without_a_guid_has_none() {
        for name in ["n_0000000017", "deadbeef-lock-0000000018", "x-72057594037927937-0000000013", "_c_"] {
            assert_eq!(guid_in(name), None, "{name}");
        }
    }

    #[test]
    fn our_names_are_those_of_the_clients_we_are_compatible_with() {
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
