//! The names of our contenders. Those of other clients in the same directory are parsed by the protocol's crate.

pub(crate) use zoolet_client::internal::contender::{ContenderKind, parse};

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

/// Whether `name` has the guid of the contender `guid`, which no other has.
pub(crate) fn is_of(name: &str, guid: &str) -> bool {
    guid_in(guid).is_some_and(|own| guid_in(name) == Some(own))
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

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f";

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
