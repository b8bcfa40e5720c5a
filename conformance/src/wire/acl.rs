//! Entries of ACLs, as cases write them and on the wire. They are not coded by `zoolet-proto`, so that a mistake there is found.

use bytes::{Buf, BufMut, BytesMut};
use zoolet_proto::{Acl, Perms};

use crate::wire::encoding::{lossy, put_bytes, take_bytes};

/// Reads an entry `scheme:id:perms`.
pub(crate) fn parse(entry: &[u8]) -> Result<Acl, String> {
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
    Ok(Acl::new(Perms(perms), scheme, id))
}

/// Writes an entry as a case does.
pub(crate) fn show(acl: &Acl) -> String {
    format!("{}:{}:{}", acl.scheme, acl.id, perms_text(acl.perms.0))
}

pub(crate) fn encode(acl: &Acl, out: &mut BytesMut) {
    out.put_i32(acl.perms.0);
    for text in [&acl.scheme, &acl.id] {
        if text == "null" { out.put_i32(-1) } else { put_bytes(text.as_bytes(), out) }
    }
}

/// Takes an entry from a body.
pub(crate) fn take(body: &mut &[u8]) -> Option<Acl> {
    let perms = Perms(body.try_get_i32().ok()?);
    let mut text = || Some(take_bytes(body)?.map_or_else(|| "null".to_owned(), lossy));
    Some(Acl { perms, scheme: text()?, id: text()? })
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
