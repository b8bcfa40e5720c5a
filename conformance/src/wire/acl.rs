//! [`AclEntry`]: an entry of an ACL as a case writes it.

use bytes::{BufMut, BytesMut};
use zoolet_proto::Acl;

use crate::wire::operations::put_bytes;

/// An entry `scheme:id:perms` of an ACL.
pub(crate) struct AclEntry {
    scheme: String,
    id: String,
    perms: i32,
}

impl AclEntry {
    pub(crate) fn parse(entry: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(entry);
        let parts = text.split_once(':').and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once(':')?)));
        let Some((scheme, (id, perms))) = parts else {
            return Err(format!("`{text}` is no ACL entry; one is scheme:id:perms"));
        };
        let bit = |letter| PERMS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| bit);
        let letters: Option<i32> = perms.chars().map(bit).sum();
        let perms = perms.parse().ok().or(letters).ok_or_else(|| {
            format!("`{perms}` of {text} are no permissions; those are c, d, r, w and a, or a number")
        })?;
        Ok(Self { scheme: scheme.to_owned(), id: id.to_owned(), perms })
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.perms);
        for text in [&self.scheme, &self.id] {
            if text == "null" { out.put_i32(-1) } else { put_bytes(text.as_bytes(), out) }
        }
    }
}

/// `scheme:id:perms`, as cases write it.
pub(crate) fn acl_text(acl: &Acl) -> String {
    format!("{}:{}:{}", acl.scheme, acl.id, perms_text(acl.perms.0))
}

/// The letters of permissions, and their bits.
const PERMS: [(char, i32); 5] = [('c', 4), ('d', 8), ('r', 1), ('w', 2), ('a', 16)];

/// The letters of permissions, or the number if other bits are set.
fn perms_text(perms: i32) -> String {
    if perms & !31 != 0 {
        return perms.to_string();
    }
    PERMS.iter().filter(|(_, bit)| perms & bit != 0).map(|(letter, _)| letter).collect()
}
