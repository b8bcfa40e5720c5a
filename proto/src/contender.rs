//! The names of contenders in the lock queues of known clients: what a znode of such a queue says by its name.

/// What kind of contender a name belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContenderKind {
    /// It shares the lock with other readers.
    Shared,
    /// It excludes all others.
    Exclusive,
    /// No known client uses such names, but this one ends in a number as theirs do.
    Unknown,
}

/// The markers before the number in the names of known clients, and who queues like that.
const MARKERS: &[(&str, ContenderKind, &str)] = &[
    ("lock-", ContenderKind::Exclusive, LOCK),
    ("__lock__", ContenderKind::Exclusive, "kazoo lock"),
    ("__READ__", ContenderKind::Shared, READ_WRITE_LOCK),
    ("__WRIT__", ContenderKind::Exclusive, READ_WRITE_LOCK),
    ("__rlock__", ContenderKind::Shared, "kazoo read/write lock"),
    ("read-", ContenderKind::Shared, READ_WRITE_LOCK),
    ("write-", ContenderKind::Exclusive, READ_WRITE_LOCK),
    ("latch-", ContenderKind::Exclusive, "leader latch"), // Curator
    ("lease-", ContenderKind::Exclusive, "semaphore leases"), // Curator
    ("n_", ContenderKind::Exclusive, "election"),         // of the documentation
];
/// Of Curator, go-zookeeper, zookeeper-client, the documentation's recipe, and ours.
const LOCK: &str = "lock";
/// Of Curator, ours, and the documentation's recipe.
const READ_WRITE_LOCK: &str = "read/write lock";

/// A parsed name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContenderName {
    /// The number that the server appended.
    pub sequence: i64,
    /// How it holds the lock.
    pub kind: ContenderKind,
}

/// Parses a name; `None` if it does not end in a number and so belongs to no contender.
pub fn parse(name: &str) -> Option<ContenderName> {
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
    Some(ContenderName { sequence: sign * number.parse::<i64>().ok()?, kind })
}

/// In words, which recipe uses such names; `None` if no known one does.
pub fn recipe(name: &str) -> Option<&'static str> {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = known(head).or_else(|| known(head.strip_suffix('-')?));
    known.filter(|_| parse(name).is_some()).map(|(_, recipe)| recipe)
}

/// The kind that a known client encodes in the part of a name before the number.
fn marked(head: &str) -> Option<ContenderKind> {
    known(head).map(|(kind, _)| kind)
}

/// What is known of a name by the part before the number.
fn known(head: &str) -> Option<(ContenderKind, &'static str)> {
    let ends_so = |marker| head.strip_suffix(marker).is_some_and(|front| begins_after(front, marker));
    let row = MARKERS.iter().find(|(marker, ..)| ends_so(marker)).map(|(_, kind, recipe)| (*kind, *recipe));
    let lock = |recipe| (ContenderKind::Exclusive, recipe);
    let row = row.or_else(|| session_recipe(head).then_some(lock("lock of the Java recipe")));
    row.or_else(|| accumulo(head).then_some(lock("Accumulo lock")))
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
            assert_eq!(parse(&name), Some(ContenderName { sequence, kind }), "{name}");
        }
        for name in ["config", "lock-", "lock-12", "readme-1.2", "", "lock-99999999999999999999"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_name_shows_its_recipe_if_a_known_one_uses_it() {
        for (name, known) in [
            (format!("_c_{UUID}-lock-0000000007"), Some("lock")),
            (format!("_c_{UUID}-lock--000000007"), Some("lock")),
            ("0123456789abcdef0123456789abcdef__rlock__0000000012".into(), Some("kazoo read/write lock")),
            ("x-72057594037927937-0000000013".into(), Some("lock of the Java recipe")),
            (format!("zlock#{UUID}#0000000016"), Some("Accumulo lock")),
            ("node_0000000019".into(), None),
            ("lock-12".into(), None),
            ("config".into(), None),
        ] {
            assert_eq!(recipe(&name), known, "{name}");
        }
    }
}
