//! The identities of connections.

use std::net::IpAddr;

use subtle::ConstantTimeEq;
use zoolet_proto::records::ClientInfo;
use zoolet_proto::{Acl, digest_id};

use crate::address::{ip_matches, ip_text};

/// An identity that a connection has authenticated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Its peer address. Every connection has this one.
    Ip(IpAddr),
    /// `user:base64(sha1(user:password))`.
    Digest(String),
    /// May do everything.
    Super,
}

impl Identity {
    /// Its entry in the reply to whoAmI, without secrets.
    pub(crate) fn info(&self) -> ClientInfo {
        let (scheme, user) = match self {
            Self::Ip(addr) => ("ip", ip_text(*addr)),
            Self::Digest(id) => ("digest", user_of(id).to_owned()),
            Self::Super => ("super", String::new()),
        };
        ClientInfo { scheme: scheme.to_owned(), user }
    }

    /// How many bytes its id has, if a client has chosen it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Digest(id) => id.len(),
            Self::Ip(_) | Self::Super => 0,
        }
    }

    pub(crate) fn matches(&self, entry: &Acl) -> bool {
        match self {
            Self::Ip(addr) => entry.scheme == "ip" && ip_matches(&entry.id, *addr),
            Self::Digest(id) => entry.scheme == "digest" && entry.id == *id,
            Self::Super => false,
        }
    }
}

/// The longest credentials of an addauth, in bytes. Every `auth` entry of a list becomes all identities of its connection.
const MAX_CREDENTIALS: usize = 1024;

/// The identities that an addauth adds; `None` if authentication fails.
pub(crate) fn authenticate(
    scheme: Option<&str>,
    auth: Option<&[u8]>,
    peer: IpAddr,
    super_digest: Option<&str>,
) -> Option<Vec<Identity>> {
    match scheme? {
        "ip" => Some(vec![Identity::Ip(peer)]),
        "digest" => {
            let id = digest_id(auth.filter(|auth| auth.len() <= MAX_CREDENTIALS)?);
            let is_super = super_digest.is_some_and(|wanted| wanted.as_bytes().ct_eq(id.as_bytes()).into());
            let mut ids = vec![Identity::Digest(id)];
            if is_super {
                ids.push(Identity::Super);
            }
            Some(ids)
        }
        _ => None,
    }
}

fn user_of(digest: &str) -> &str {
    digest.split(':').next().unwrap_or_default()
}
