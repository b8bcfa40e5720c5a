//! The names of contenders: ours, and those that other clients give theirs in the same directory.

use std::collections::HashSet;

/// What stands before the number in the names of known clients, and where each comes from.
const MARKERS: &[&str] = &[
    "lock-",     // Curator, go-zookeeper, zookeeper-client, the recipe of the documentation
    "__lock__",  // kazoo
    "__READ__",  // Curator, read/write
    "__WRIT__",  //
    "__rlock__", // kazoo, read/write
    "read-",     // the recipe of the documentation, read/write
    "write-",    //
    "latch-",    // Curator, leader latch
    "lease-",    // Curator, semaphore
    "n_",        // the election of the documentation
];

/// What is in front of the guid in our names: Curator's "protected" prefix. Its readers cut 36 characters behind it.
const PROTECTED: &str = "_c_";

/// The prefix of the znode of the contender `guid`, to which the server appends the number.
pub(crate) fn prefix(guid: &str) -> String {
    format!("{PROTECTED}{guid}-lock-")
}

/// Whether `name` belongs to the contender `guid`.
pub(crate) fn is_of(name: &str, guid: &str) -> bool {
    name.strip_prefix(PROTECTED).is_some_and(|rest| rest.starts_with(guid))
}

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// The number that the server appended.
    pub(crate) sequence: i64,
    /// Whether a known client names its contenders so.
    pub(crate) known: bool,
}

/// Reads a name; `None` if it ends in no number, and so belongs to no contender.
pub(crate) fn parse(name: &str) -> Option<Parsed> {
    // A known marker decides where the number starts, so that a sign is never taken for a dash.
    for marker in MARKERS {
        let number = name.rfind(marker).map(|at| &name[at + marker.len()..]);
        if let Some(sequence) = number.and_then(signed) {
            return Some(Parsed { sequence, known: true });
        }
    }
    if let Some(sequence) = session_recipe(name).or_else(|| accumulo(name)) {
        return Some(Parsed { sequence, known: true });
    }
    generic(name).map(|sequence| Parsed { sequence, known: false })
}

/// A number as the server appends it: ten columns, the sign among them.
fn signed(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain && text.len() >= 10 { text.parse().ok() } else { None }
}

/// `x-<session>-<number>`, the recipe shipped with ZooKeeper: the session in decimal, maybe negative, or in hex.
fn session_recipe(name: &str) -> Option<i64> {
    let rest = name.strip_prefix("x-")?;
    let session = rest.strip_prefix('-').unwrap_or(rest);
    let (session, number) = session.split_once('-')?;
    let hex = !session.is_empty() && session.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex { signed(number) } else { None }
}

/// `zlock#<uuid>#<number>`.
fn accumulo(name: &str) -> Option<i64> {
    let (_uuid, number) = name.strip_prefix("zlock#")?.split_once('#')?;
    signed(number)
}

/// Ten digits at the end, or a minus and nine: what a sequential znode of any name ends in.
fn generic(name: &str) -> Option<i64> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let start = name.len() - digits;
    match digits {
        9 if name[..start].ends_with('-') => name[start - 1..].parse().ok(),
        10.. => name[name.len() - 10..].parse().ok(),
        _ => None,
    }
}

/// Whether the numbers give the order of creation: each once, none negative. Near the end of a 32-bit counter they do
/// not: it sticks there on servers since 3.6, and turns negative on older ones.
pub(crate) fn is_ordered(sequences: impl Iterator<Item = i64>) -> bool {
    let mut seen = HashSet::new();
    sequences.into_iter().all(|sequence| sequence >= 0 && seen.insert(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_every_known_client_are_read() {
        let uuid = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f";
        for (name, sequence, known) in [
            (format!("_c_{uuid}-lock-0000000007"), 7, true),
            (format!("_c_{uuid}-lock--000000007"), -7, true),
            (format!("_c_{uuid}-__READ__0000000008"), 8, true),
            (format!("_c_{uuid}-__WRIT__-000000009"), -9, true),
            (format!("_c_{uuid}-latch-0000000010"), 10, true),
            ("0123456789abcdef0123456789abcdef__lock__0000000011".into(), 11, true),
            ("0123456789abcdef0123456789abcdef__rlock__0000000012".into(), 12, true),
            ("x-72057594037927937-0000000013".into(), 13, true),
            ("x--72057594037927937-0000000014".into(), 14, true),
            ("x-0100000000000001--000000015".into(), -15, true),
            (format!("zlock#{uuid}#0000000016"), 16, true),
            ("n_0000000017".into(), 17, true),
            ("lock-0000000018".into(), 18, true),
            ("lock-2147483648".into(), 2_147_483_648, true),
            ("node_0000000019".into(), 19, false),
            ("lock-72057594037927937-0000000020".into(), 20, false),
            ("odd-000000021".into(), -21, false),
        ] {
            assert_eq!(parse(&name), Some(Parsed { sequence, known }), "{name}");
        }
        for name in ["config", "lock-", "lock-12", "readme-1.2"] {
            assert_eq!(parse(name), None, "{name}");
        }
    }

    #[test]
    fn our_names_are_curators() {
        let guid = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f";
        assert_eq!(prefix(guid), format!("_c_{guid}-lock-"));
        assert!(is_of(&format!("_c_{guid}-lock-0000000000"), guid));
        assert!(!is_of(&format!("x-{guid}"), guid));
    }

    #[test]
    fn numbers_order_contenders_only_while_each_is_there_once_and_none_is_negative() {
        assert!(is_ordered([3, 1, 2].into_iter()));
        assert!(!is_ordered([2_147_483_647, 2_147_483_647].into_iter()));
        assert!(!is_ordered([1, -5].into_iter()));
    }
}
