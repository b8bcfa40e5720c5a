//! What an ACL lets the identities of a connection do.

use std::collections::HashSet;

use hashbrown::HashMap;
use zoolet_proto::{Acl, AclList, ErrorCode, Perms};

use crate::address::{Subnet, subnet, subnets_of};
use crate::auth_config::{AuthConfig, AuthScheme};
use crate::identity::{Identity, SASL_SUPER};
use crate::x500_name::is_x500_name;

/// Whether `acl` grants one of `perms` to a connection with these identities (`ZooKeeperServer.checkACL`).
pub(crate) fn allows(acl: &AclList, perms: Perms, ids: &[Identity]) -> bool {
    acl.is_open()
        || acl.is_empty()
        || ids.contains(&Identity::Super)
        || acl.iter().any(|entry| {
            entry.perms.intersects(perms) && (is_anyone(entry) || ids.iter().any(|id| id.matches(entry)))
        })
}

/// Whom a list without `world` grants something. For a list of tens of thousands of entries that is asked about many connections:
/// [`allows`] looks at all entries for each.
pub(crate) struct Granted<'l> {
    ids: HashSet<(&'l str, &'l str)>,
    subnets: HashSet<Subnet>,
}

impl<'l> Granted<'l> {
    pub(crate) fn by(acl: &'l AclList, perms: Perms) -> Self {
        let entries = || acl.iter().filter(move |entry| entry.perms.intersects(perms));
        let of_scheme = |scheme| entries().filter(move |entry| entry.scheme == scheme);
        let mut ids: HashSet<_> = entries().map(|entry| (&*entry.scheme, &*entry.id)).collect();
        ids.extend(of_scheme("sasl").next().map(|_| SASL_SUPER));
        Self { ids, subnets: of_scheme("ip").filter_map(|entry| subnet(&entry.id)).collect() }
    }

    /// Whether a connection with these identities is among them.
    pub(crate) fn includes(&self, ids: &[Identity]) -> bool {
        ids.iter().any(|id| match id {
            Identity::Super => true,
            Identity::Ip(addr) => subnets_of(*addr).any(|subnet| self.subnets.contains(&subnet)),
            id => id.authenticated().is_some_and(|id| self.ids.contains(&id)),
        })
    }
}

/// The result for a list. It holds the list, so that no other gets its address.
type CachedResult = (AclList, bool);

/// The results of checking long ACLs during one request: a multi or multiRead can check one list of tens of thousands of
/// entries tens of thousands of times.
#[derive(Debug, Default)]
pub(crate) struct AclCheckCache {
    /// By the address of the list.
    results: Option<HashMap<(usize, Perms), CachedResult>>,
}

impl AclCheckCache {
    /// As [`allows`], for the identities of the request.
    pub(crate) fn allows(&mut self, acl: &AclList, perms: Perms, ids: &[Identity]) -> bool {
        const LONG: usize = 16;
        if acl.len() <= LONG {
            return allows(acl, perms, ids);
        }
        let key = (acl.address(), perms);
        let results = self.results.get_or_insert_default();
        results.entry(key).or_insert_with(|| (acl.clone(), allows(acl, perms, ids))).1
    }
}

fn is_anyone(entry: &Acl) -> bool {
    entry.scheme == "world" && entry.id == "anyone"
}

/// The list as it is stored: without duplicates, `auth` replaced by the identities of the connection
/// (`PrepRequestProcessor.fixupACL`). Its size is taken from `room`.
///
/// # Errors
/// [`ErrorCode::InvalidAcl`] if the list is empty, one entry is not valid, or there is no room.
pub(crate) fn fix_up(
    acl: &[Acl],
    ids: &[Identity],
    config: &AuthConfig,
    room: &mut usize,
) -> Result<Vec<Acl>, ErrorCode> {
    const FEW: usize = 16;
    let mut fixed: Vec<Acl> = Vec::with_capacity(acl.len());
    let mut push = |fixed: &mut Vec<Acl>, entry: Acl| {
        take_room(std::slice::from_ref(&entry), room)?;
        fixed.push(entry);
        Ok(())
    };
    let mut seen = HashSet::new();
    for (at, entry) in acl.iter().enumerate() {
        // Duplicates among the entries as sent; the expansion of `auth` may repeat them.
        let duplicate = if acl.len() <= FEW { acl[..at].contains(entry) } else { !seen.insert(entry) };
        if duplicate {
            continue;
        }
        if entry.scheme == "auth" {
            let before = fixed.len();
            for own in ids.iter().filter_map(|id| id.entry(entry.perms)) {
                push(&mut fixed, own)?;
            }
            if fixed.len() == before {
                return Err(ErrorCode::InvalidAcl);
            }
        } else if is_valid(entry, config) {
            push(&mut fixed, entry.clone())?;
        } else {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    if fixed.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(fixed) }
}

/// Takes the bytes of a list from what there is room for.
///
/// # Errors
/// `InvalidAcl` if that is less.
pub(crate) fn take_room(acl: &[Acl], room: &mut usize) -> Result<(), ErrorCode> {
    /// The permissions, and the lengths of scheme and id.
    const ENTRY: usize = 12;
    let bytes: usize = acl.iter().map(|entry| ENTRY + entry.scheme.len() + entry.id.len()).sum();
    *room = room.checked_sub(bytes).ok_or(ErrorCode::InvalidAcl)?;
    Ok(())
}

fn is_valid(entry: &Acl, config: &AuthConfig) -> bool {
    if entry.scheme == "world" {
        return entry.id == "anyone";
    }
    match AuthScheme::from_name(&entry.scheme).filter(|scheme| config.knows(*scheme)) {
        // Java's split drops empty trailing parts, so `a:` has one part and `:b` has two.
        Some(AuthScheme::Digest) => entry.id.trim_end_matches(':').matches(':').count() == 1,
        Some(AuthScheme::Ip) => subnet(&entry.id).is_some(),
        Some(AuthScheme::X509) => is_x500_name(&entry.id),
        Some(AuthScheme::Sasl) => is_principal(&entry.id),
        None => false,
    }
}

/// Whether `id` may be the name of a SASL user: with a realm only as Kerberos has it, `service@realm` or `service/host@realm`
/// (`KerberosName`).
fn is_principal(id: &str) -> bool {
    let Some((principal, realm)) = id.split_once('@') else { return true };
    !realm.contains(['/', '@']) && principal.matches('/').count() <= 1
}

/// The list as a reader without ADMIN sees it: digests cut after the user name.
pub(crate) fn masked(acl: &[Acl]) -> Vec<Acl> {
    acl.iter()
        .map(|entry| match entry.scheme.as_str() {
            "digest" => Acl::new(entry.perms, "digest", masked_id(&entry.id)),
            _ => entry.clone(),
        })
        .collect()
}

/// The id with everything from a colon to the end of its line cut (`replaceAll(":.*", ":x")`).
fn masked_id(id: &str) -> String {
    const LINE_ENDS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    let mask = |line: &str| match line.split_once(':') {
        Some((user, rest)) => format!("{user}:x{}", &rest[rest.trim_end_matches(LINE_ENDS).len()..]),
        None => line.to_owned(),
    };
    id.split_inclusive(LINE_ENDS).map(mask).collect()
}

/// The ACLs in use but the open one, each stored once, with the number of znodes that have it. The count is not that of the
/// allocation, which transactions and the trees of other servers may hold too.
#[derive(Debug, Default)]
pub(crate) struct AclCache {
    lists: HashMap<AclList, AclUse>,
    /// How many lists have come into use.
    uses: u64,
}

/// The use of a list.
#[derive(Debug)]
struct AclUse {
    znodes: usize,
    /// Which one it was to come into use.
    number: u64,
}

impl AclCache {
    /// The stored list equal to `acl`, or else `acl` itself.
    pub(crate) fn shared(&self, acl: Vec<Acl>) -> AclList {
        match self.lists.get_key_value(acl.as_slice()) {
            Some((stored, _)) => stored.clone(),
            None => acl.into(),
        }
    }

    /// Stores the list of a new znode and returns the one that equal lists share. Equal lists of one multi are distinct until
    /// then: none was stored when it was decided.
    #[must_use]
    pub(crate) fn keep(&mut self, acl: &AclList) -> AclList {
        if acl.is_open() {
            return AclList::OPEN;
        }
        let stored = self.lists.get_key_value(acl).map_or(acl, |(stored, _)| stored).clone();
        let entry = self.lists.entry(stored.clone()).or_insert_with(|| {
            self.uses += 1;
            AclUse { znodes: 0, number: self.uses }
        });
        entry.znodes += 1;
        stored
    }

    /// Removes the list of a deleted znode if no other znode has it.
    pub(crate) fn release(&mut self, acl: &AclList) {
        if acl.is_open() {
            return;
        }
        if let Some(entry) = self.lists.get_mut(acl) {
            entry.znodes -= 1;
            if entry.znodes == 0 {
                self.lists.remove(acl);
            }
        }
    }

    /// The lists in the order in which they came into use: no output depends on the order of the table.
    pub(crate) fn lists(&self) -> Vec<AclList> {
        let mut lists: Vec<_> = self.lists.iter().map(|(list, entry)| (entry.number, list)).collect();
        lists.sort_unstable_by_key(|(number, _)| *number);
        lists.into_iter().map(|(_, list)| list.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zoolet_proto::Jute;

    use super::*;

    #[test]
    fn digest_entries_have_exactly_one_pair() {
        for (id, valid) in
            [("a:b", true), (":b", true), ("a", false), ("a:", false), ("a:b:c", false), ("", false)]
        {
            assert_eq!(
                is_valid(&Acl::new(Perms::ALL, "digest", id), &AuthConfig::default()),
                valid,
                "{id:?}"
            );
        }
    }

    #[test]
    fn auth_expands_to_the_digests_of_the_connection_and_needs_one() {
        let fixed = |ids: &[Identity]| fix_up(&Acl::creator_all(), ids, &AuthConfig::default(), &mut 1000);
        let ip = Identity::Ip("127.0.0.1".parse().unwrap());
        assert_eq!(fixed(std::slice::from_ref(&ip)), Err(ErrorCode::InvalidAcl));
        let ids = [ip, Identity::Digest("bob:x=".into())];
        assert_eq!(fixed(&ids), Ok(vec![Acl::new(Perms::ALL, "digest", "bob:x=")]));
    }

    #[test]
    fn a_long_list_grants_the_same_to_many_at_once_as_to_each() {
        let ids = |scheme: &str| Acl::new(Perms::READ, scheme, "super");
        let lists: [Vec<Acl>; 8] = [
            vec![ids("digest")],
            vec![ids("sasl")],
            vec![ids("x509")],
            vec![Acl::new(Perms::READ, "sasl", "another")],
            vec![Acl::new(Perms::READ, "ip", "10.1.2.3/8")],
            vec![Acl::new(Perms::READ, "ip", "10.1.2.3/32"), Acl::new(Perms::READ, "ip", "1::/128")],
            vec![Acl::new(Perms::READ, "ip", "::/0"), ids("ip")],
            vec![Acl::new(Perms::WRITE, "ip", "0.0.0.0/0")],
        ];
        let ip = |addr: &str| Identity::Ip(addr.parse().expect("an address"));
        let single = [
            Identity::Digest("super".to_owned()),
            Identity::X509("super".into()),
            Identity::Sasl(Some("super".to_owned())),
            Identity::Sasl(None),
            Identity::Super,
            ip("10.1.2.3"),
            ip("10.9.9.9"),
            ip("1::"),
            ip("2::"),
        ];
        let mut granted = 0;
        for list in lists.map(AclList::from) {
            for id in &single {
                let ids = [ip("192.168.0.1"), id.clone()];
                let expected = allows(&list, Perms::READ, &ids);
                assert_eq!(Granted::by(&list, Perms::READ).includes(&ids), expected, "{:?}", &list[..]);
                granted += usize::from(expected);
            }
        }
        assert_eq!(granted, 18);
    }

    #[test]
    fn a_list_takes_the_room_that_it_takes_in_a_frame() {
        let mut wire = BytesMut::new();
        Acl::read_only().encode(&mut wire);
        let mut room = 1000;
        fix_up(&Acl::read_only(), &[], &AuthConfig::default(), &mut room).unwrap();
        assert_eq!(1000 - room, wire.len() - 4, "but for its count");
        assert_eq!(
            fix_up(&Acl::read_only(), &[], &AuthConfig::default(), &mut 22),
            Err(ErrorCode::InvalidAcl)
        );
    }

    #[test]
    fn equal_lists_are_stored_once_and_forgotten_with_their_last_znode() {
        let mut cache = AclCache::default();
        let one = cache.keep(&cache.shared(Acl::read_only()));
        let two = cache.shared(Acl::read_only());
        assert_eq!(one.address(), two.address());
        let two = cache.keep(&Acl::read_only().into());
        assert_eq!(one.address(), two.address(), "though nothing was stored when it was decided");
        cache.release(&one);
        assert_eq!(cache.lists.len(), 1);
        cache.release(&two);
        assert_eq!(cache.lists.len(), 0, "though the list itself is still held");
    }
}
