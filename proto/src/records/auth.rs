//! Identities and access control.

use std::fmt;

use bytes::Bytes;
use nom::Parser;

use crate::acl_list::AclList;
use crate::codec::{ByteSink, Codec, Parsed, fields, record};

record! {
    /// Reads an ACL.
    pub struct GetAcl {
        /// Path.
        pub path: String,
    }
}

record! {
    /// Replaces an ACL.
    pub struct SetAcl {
        /// Path.
        pub path: String,
        /// The new list.
        pub acl: Option<AclList>,
        /// The expected aversion; −1 for any.
        pub version: i32,
    }
}

record! {
    /// An identity of a connection, in the reply to whoAmI.
    pub struct ClientInfo {
        /// Scheme.
        pub scheme: String,
        /// User, without secrets.
        pub user: String,
    }
}

/// Adds an identity to the connection.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPacket {
    /// Always 0, ignored.
    pub kind: i32,
    /// Scheme.
    pub scheme: Option<String>,
    /// Credentials in the form of the scheme.
    pub auth: Option<Bytes>,
}

fields!(AuthPacket { kind, scheme, auth });

// Hand-written, to keep credentials out of logs.
impl fmt::Debug for AuthPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// A step of a SASL negotiation, in the form of its mechanism.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslToken(pub Option<Bytes>);

impl Codec for SaslToken {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        Option::<Bytes>::parse.map(Self).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        self.0.put(out);
    }
}

// Hand-written: a token may contain a secret.
impl fmt::Debug for SaslToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslToken").finish_non_exhaustive()
    }
}
