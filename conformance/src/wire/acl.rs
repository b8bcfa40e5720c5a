//! [`AclEntry`]: an entry of an ACL as a case writes it.

use std::fmt;

use bytes::{Buf, BufMut, BytesMut};
use zoolet_proto::Acl;

use crate::wire::encoding::{lossy, put_bytes, take_bytes};

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
            return Err(format!("`{text}` is not an ACL entry; one is scheme:id:perms"));
        };
        let bit = |letter| PERMS.iter().find(|(known, _)| *known == letter).map(|(_, bit)| bit);
        let letters: Option<i32> = perms.chars().map(bit).sum();
        let perms = perms.parse().ok().or(letters).ok_or_else(|| {
            format!("`{perms}` of {text} are not permissions; those are c, d, r, w and a, or a number")
        })?;
        Ok(Self { scheme: scheme.to_owned(), id: id.to_owned(), perms })
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.perms);
        for text in [&self.scheme, &self.id] {
            if text == "null" { out.put_i32(-1) } else { put_bytes(text.as_bytes(), out) }
        }
    }

    /// Takes an entry from a body.
    pub(crate) fn take(body: &mut &[u8]) -> Option<Self> {
        let perms = body.try_get_i32().ok()?;
        let mut text = || Some(take_bytes(body)?.map_or_else(|| "null".to_owned(), lossy));
        Some(Self { perms, scheme: text()?, id: text()? })
    }
}

/// `scheme:id:perms`, as cases write it.
impl fmt::Display for AclEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.scheme, self.id, perms_text(self.perms))
    }
}

impl From<&Acl> for AclEntry {
    fn from(acl: &Acl) -> Self {
        Self { scheme: acl.scheme.clone(), id: acl.id.clone(), perms: acl.perms.0 }
    }
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
