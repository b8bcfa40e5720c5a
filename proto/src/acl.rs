//! Access control entries.

use std::fmt;
use std::ops::BitOr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nom::Parser;
use sha1::{Digest, Sha1};

use crate::codec::{ByteSink, Codec, Parsed};
use crate::jute::DecodeError;

/// A set of permissions. Unknown bits are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Perms(pub i32);

impl Perms {
    /// No permission.
    pub const NONE: Self = Self(0);
    /// Read the data and the children of the znode, and get its watch events.
    pub const READ: Self = Self(1);
    /// Set the data of the znode.
    pub const WRITE: Self = Self(2);
    /// Create children of the znode.
    pub const CREATE: Self = Self(4);
    /// Delete children of the znode.
    pub const DELETE: Self = Self(8);
    /// Set the ACL of the znode, and see the digests in it.
    pub const ADMIN: Self = Self(16);
    /// All five.
    pub const ALL: Self = Self(31);

    /// Whether the two sets share a permission.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = [
            (Self::CREATE, 'c'),
            (Self::DELETE, 'd'),
            (Self::READ, 'r'),
            (Self::WRITE, 'w'),
            (Self::ADMIN, 'a'),
        ];
        let letters: String =
            known.iter().filter(|(bit, _)| self.intersects(*bit)).map(|(_, letter)| letter).collect();
        match self.0 & !Self::ALL.0 {
            0 => f.write_str(&letters),
            rest => write!(f, "{letters}+{rest:#x}"),
        }
    }
}

/// One entry of an access control list: permissions for an identity, which is a scheme and an id.
///
/// The hash in the id of a digest entry is sensitive, so `Debug` omits it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// The permissions granted.
    pub perms: Perms,
    /// The authentication scheme: `world`, `auth`, `digest`, `ip`, or another that a server has configured.
    pub scheme: String,
    /// The identity, in the form of the scheme.
    pub id: String,
}

impl Acl {
    /// Creates an entry from its parts.
    pub fn new(perms: Perms, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { perms, scheme: scheme.into(), id: id.into() }
    }

    /// Creates an entry for a user who authenticates by the scheme `digest` with this name and password. The arguments are in
    /// the order of [`Acl::new`]: permissions, then who has them. The password is given in the clear, as to `add_auth`, and
    /// hashed here; for a hash that you have already, use `Acl::new(perms, "digest", "user:hash")`.
    ///
    /// ```
    /// # use zoolet_proto::{Acl, Perms};
    /// let reader = Acl::digest(Perms::READ, "bob", "secret");
    /// assert_eq!((reader.scheme.as_str(), reader.id.as_str()), ("digest", "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="));
    /// ```
    pub fn digest(perms: Perms, user: &str, password: &str) -> Self {
        Self::new(perms, "digest", digest_id(format!("{user}:{password}").as_bytes()))
    }

    /// All permissions for everyone, the usual ACL: `world:anyone:cdrwa`.
    pub fn open() -> Vec<Self> {
        vec![Self::new(Perms::ALL, "world", "anyone")]
    }

    /// All permissions for the identities of the connection: `auth::cdrwa`.
    pub fn creator_all() -> Vec<Self> {
        vec![Self::new(Perms::ALL, "auth", "")]
    }

    /// Reading for everyone: `world:anyone:r`.
    pub fn read_only() -> Vec<Self> {
        vec![Self::new(Perms::READ, "world", "anyone")]
    }
}

/// The id of the scheme `digest` for credentials of the form `user:password`: `user:base64(sha1(user:password))`. Invalid
/// UTF-8 in them becomes replacement characters (`DigestAuthenticationProvider.generateDigest`).
///
/// ACL entries have ids of this form, and so has the super user in the settings of a server.
pub fn digest_id(credentials: &[u8]) -> String {
    let credentials = String::from_utf8_lossy(credentials);
    let user = credentials.split(':').next().unwrap_or_default();
    format!("{user}:{}", BASE64.encode(Sha1::digest(credentials.as_bytes())))
}

/// Whether `id` has the form of a digest id: a user name, and a SHA-1 after the last colon.
pub fn is_digest_id(id: &str) -> bool {
    let base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    let sha1 =
        |hash: &str| hash.len() == 28 && hash.strip_suffix('=').is_some_and(|hash| hash.chars().all(base64));
    id.rsplit_once(':').is_some_and(|(user, hash)| !user.is_empty() && sha1(hash))
}

impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = match (self.scheme.as_str(), self.id.split_once(':')) {
            ("digest", Some((user, _))) => format!("{user}:x"),
            _ => self.id.clone(),
        };
        write!(f, "{}:{}:{:?}", self.scheme, id, self.perms)
    }
}

impl Codec for Acl {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        (i32::parse, Option::<String>::parse, Option::<String>::parse)
            .map_res(|(perms, scheme, id)| {
                // A null scheme is refused like an unknown one, so it need not survive as null.
                let scheme = scheme.unwrap_or_default();
                if id.is_none() && ["world", "digest", "ip"].contains(&scheme.as_str()) {
                    return Err(DecodeError::NullId);
                }
                Ok(Self { perms: Perms(perms), scheme, id: id.unwrap_or_default() })
            })
            .parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        self.perms.0.put(out);
        self.scheme.put(out);
        self.id.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_hash_of_user_and_password() {
        assert_eq!(digest_id(b"bob:pw"), "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=");
        // As on a real server, invalid UTF-8 is replaced before it is hashed.
        assert_eq!(digest_id(b"u\xe4:p\xe4"), "u\u{fffd}:XPvHYIDhEttyoBuJYS5s2SXk1ZY=");
        assert!(is_digest_id(&digest_id(b"bob:pw")) && is_digest_id(&digest_id(b"bob:p:w")));
        for text in ["", "bob", "bob:pw", ":ikIaKsbtGweaHnb/jKn7OHqbunM=", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM"]
        {
            assert!(!is_digest_id(text), "{text}");
        }
    }
}
