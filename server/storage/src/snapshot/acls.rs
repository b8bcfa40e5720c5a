//! [`AclIds`]: the table of access control lists of a snapshot that is being written.

use std::collections::HashMap;

use zoolet_proto::AclList;

use super::format::OPEN_ACL;

/// The ids of the lists, in the order in which a snapshot's table has them: from 1 on.
pub(super) struct AclIds {
    lists: Vec<AclList>,
    /// By the address of a list. Equal lists of one tree are one allocation, so nearly all are found here. `lists` keeps them, so
    /// that no address is used again.
    by_address: HashMap<usize, i64>,
    by_value: HashMap<AclList, i64>,
}

impl AclIds {
    pub(super) fn new(acls: Vec<AclList>) -> Self {
        let mut ids = Self { lists: Vec::new(), by_address: HashMap::new(), by_value: HashMap::new() };
        for acl in acls {
            if acl.is_open() || ids.by_value.contains_key(&acl) {
                continue;
            }
            ids.lists.push(acl.clone());
            let id = ids.lists.len() as i64;
            ids.by_address.insert(acl.address(), id);
            ids.by_value.insert(acl, id);
        }
        ids
    }

    /// The lists in the order of their ids, from 1 on.
    pub(super) fn lists(&self) -> &[AclList] {
        &self.lists
    }

    /// The id of a list. `None` if the table lacks it.
    pub(super) fn id(&self, acl: &AclList) -> Option<i64> {
        let known = || self.by_address.get(&acl.address()).or_else(|| self.by_value.get(acl)).copied();
        if acl.is_open() { Some(OPEN_ACL) } else { known() }
    }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{Acl, Perms};

    use super::*;

    #[test]
    fn ids_count_from_one_and_the_open_list_has_minus_one() {
        let read: AclList = Acl::read_only().into();
        let bob: AclList = vec![Acl::digest(Perms::ALL, "bob", "secret")].into();
        let ids = AclIds::new(vec![read.clone(), Acl::open().into(), bob.clone(), Acl::read_only().into()]);
        assert_eq!(ids.lists(), [read.clone(), bob.clone()]);
        assert_eq!((ids.id(&read), ids.id(&bob)), (Some(1), Some(2)));
        assert_eq!(ids.id(&Acl::read_only().into()), Some(1), "an equal list in another allocation");
        assert_eq!(ids.id(&Acl::open().into()), Some(-1));
        assert_eq!(ids.id(&Acl::creator_all().into()), None);
    }
}
