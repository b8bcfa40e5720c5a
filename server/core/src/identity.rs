//! The identities of connections.

use std::net::IpAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use zoolet_proto::records::ClientInfo;
use zoolet_proto::{Acl, Perms, digest_id};

use crate::address::{ip_matches, ip_text};
use crate::auth_config::{AuthConfig, AuthScheme};
use crate::config::CoreConfig;

/// An identity that a connection has authenticated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Its peer address. Every connection has this one.
    Ip(IpAddr),
    /// `user:base64(sha1(user:password))`.
    Digest(String),
    /// The subject of its certificate.
    X509(Arc<str>),
    /// The user of its SASL exchange. `None` if ACLs do not know the scheme: the user has authenticated to no effect.
    Sasl(Option<String>),
    /// May do everything.
    Super,
}

/// It matches every user of SASL in an ACL (`SASLAuthenticationProvider.matches`).
pub(crate) const SASL_SUPER: (&str, &str) = ("sasl", "super");

impl Identity {
    /// Its entry in the reply to whoAmI, without secrets.
    pub(crate) fn info(&self) -> ClientInfo {
        let (scheme, user) = match self {
            Self::Ip(addr) => ("ip", ip_text(*addr)),
            Self::Digest(id) => ("digest", user_of(id).to_owned()),
            Self::X509(subject) => ("x509", subject.to_string()),
            // A scheme without a provider has no names.
            Self::Sasl(user) => ("sasl", user.clone().unwrap_or_default()),
            Self::Super => ("super", String::new()),
        };
        ClientInfo { scheme: scheme.to_owned(), user }
    }

    /// How many bytes its id has, if a client has chosen it.
    pub(crate) fn len(&self) -> usize {
        self.authenticated().map_or(0, |(_, id)| id.len())
    }

    pub(crate) fn matches(&self, entry: &Acl) -> bool {
        if let Self::Ip(addr) = self {
            return entry.scheme == "ip" && ip_matches(&entry.id, *addr);
        }
        self.authenticated().is_some_and(|(scheme, id)| {
            entry.scheme == scheme && (entry.id == id || (scheme, id) == SASL_SUPER)
        })
    }

    /// What an `auth` entry becomes for it.
    pub(crate) fn entry(&self, perms: Perms) -> Option<Acl> {
        self.authenticated().map(|(scheme, id)| Acl::new(perms, scheme, id))
    }

    /// Scheme and id, as ACLs have them. Addresses and the super user do not count as authenticated.
    pub(crate) fn authenticated(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Digest(id) => Some(("digest", id)),
            Self::X509(subject) => Some(("x509", subject)),
            Self::Sasl(user) => user.as_deref().map(|user| ("sasl", user)),
            Self::Ip(_) | Self::Super => None,
        }
    }

    /// Its scheme, if a server can require that.
    fn scheme(&self) -> Option<AuthScheme> {
        match self {
            Self::Ip(_) => Some(AuthScheme::Ip),
            Self::Digest(_) => Some(AuthScheme::Digest),
            Self::X509(_) => Some(AuthScheme::X509),
            Self::Sasl(_) => Some(AuthScheme::Sasl),
            Self::Super => None,
        }
    }
}

/// The longest credentials of an addauth, in bytes. Every `auth` entry of a list becomes all identities of its connection.
const MAX_CREDENTIALS: usize = 1024;

/// The longest subject of a certificate that is an identity, in bytes, for the same reason.
const MAX_SUBJECT: usize = 4096;

impl CoreConfig {
    /// The identities that an addauth adds to those of a connection; `None` if authentication fails.
    pub(crate) fn authenticate(
        &self,
        scheme: Option<&str>,
        auth: Option<&[u8]>,
        peer: IpAddr,
        ids: &[Identity],
    ) -> Option<Vec<Identity>> {
        match AuthScheme::from_name(scheme?).filter(|scheme| self.auth.knows(*scheme))? {
            AuthScheme::Ip => Some(vec![Identity::Ip(peer)]),
            AuthScheme::Digest => {
                let id = digest_id(auth.filter(|auth| auth.len() <= MAX_CREDENTIALS)?);
                let is_super = self
                    .super_digest
                    .as_deref()
                    .is_some_and(|wanted| wanted.as_bytes().ct_eq(id.as_bytes()).into());
                Some(with_super(Identity::Digest(id), is_super))
            }
            // The certificate has been an identity since the handshake; the packet adds nothing.
            AuthScheme::X509 => ids.iter().any(|id| matches!(id, Identity::X509(_))).then(Vec::new),
            // Not by addauth.
            AuthScheme::Sasl => None,
        }
    }
}

impl AuthConfig {
    /// The identities of a connection whose client has proved to own this certificate.
    pub(crate) fn identities_of_certificate(&self, subject: Arc<str>) -> Vec<Identity> {
        if !self.x509 {
            return Vec::new();
        }
        if subject.len() > MAX_SUBJECT {
            tracing::info!(
                bytes = subject.len(),
                max = MAX_SUBJECT,
                "the subject of a certificate is too long for an identity"
            );
            return Vec::new();
        }
        let is_super = self.x509_super.as_deref() == Some(&*subject);
        with_super(Identity::X509(subject), is_super)
    }

    /// The identities of a SASL user who has authenticated.
    pub(crate) fn identities_of_sasl(&self, user: String) -> Vec<Identity> {
        let is_super = self.sasl_supers.contains(&user);
        with_super(Identity::Sasl(self.sasl.then_some(user)), is_super)
    }

    /// Whether a connection with these identities may send requests.
    pub(crate) fn suffice(&self, ids: &[Identity]) -> bool {
        let is_required = |id: &Identity| id.scheme().is_some_and(|scheme| self.required.contains(&scheme));
        self.required.is_empty() || ids.iter().any(is_required)
    }
}

fn with_super(id: Identity, is_super: bool) -> Vec<Identity> {
    if is_super { vec![id, Identity::Super] } else { vec![id] }
}

fn user_of(digest: &str) -> &str {
    digest.split(':').next().unwrap_or_default()
}
