//! The settings of authentication.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use zoolet_proto::digest_md5::UserKey;

use crate::core::{Core, RequestContext};

/// A way to authenticate that connections and ACLs can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthScheme {
    /// The address of the peer, which every connection has.
    Ip,
    /// User and password, by addauth.
    Digest,
    /// The subject of the client's certificate.
    X509,
    /// The user of a SASL exchange.
    Sasl,
}

impl AuthScheme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ip, Self::Digest, Self::X509, Self::Sasl];

    /// Its name on the wire and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Digest => "digest",
            Self::X509 => "x509",
            Self::Sasl => "sasl",
        }
    }

    /// The scheme with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }
}

/// The users of SASL DIGEST-MD5.
#[derive(Clone)]
pub struct SaslServer {
    /// The keys of the users by name.
    pub users: Arc<HashMap<String, UserKey>>,
    /// What makes the nonces of connections unguessable: random bytes that only this server knows, others at each start. With the
    /// same ones again, who has recorded an exchange could repeat it.
    pub secret: [u8; 32],
    /// [`Core::take_token`]. Whoever sets users brings the code of the exchange: a program that sets none is linked without it.
    pub(crate) take_token: fn(&mut Core, RequestContext, &[u8]),
}

impl SaslServer {
    /// The users, with the keys that [`UserKey`] makes, and the secret.
    pub fn new(users: HashMap<String, UserKey>, secret: [u8; 32]) -> Self {
        Self { users: Arc::new(users), secret, take_token: Core::take_token }
    }
}

// Hand-written, to keep users and secret out of logs.
impl fmt::Debug for SaslServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslServer").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// Who may authenticate how, and who must. The defaults are those of Apache ZooKeeper 3.9.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthConfig {
    /// Whether scheme `digest` is known (`DigestAuthenticationProvider.enabled`).
    pub digest: bool,
    /// Whether scheme `x509` is known: to ACLs, and so that a certificate is an identity.
    pub x509: bool,
    /// The subject of the super user's certificate, exactly (`X509AuthenticationProvider.superUser`).
    pub x509_super: Option<String>,
    /// Whether scheme `sasl` is known to ACLs (`authProvider.*`). Users can authenticate without it.
    pub sasl: bool,
    /// The users of SASL. Without, a client that tries gets a null token, and goes on without or gives up.
    pub sasl_server: Option<SaslServer>,
    /// The SASL users who are super users too (`superUser`, `superUser.*`).
    pub sasl_supers: Vec<String>,
    /// Whether a client that fails to authenticate by SASL keeps its connection (`allowSaslFailedClients`). Without effect if SASL
    /// is required.
    pub allow_sasl_failed: bool,
    /// A connection needs an identity of one of these schemes before any request (`enforce.auth.schemes`). None are needed if
    /// it is empty.
    pub required: Vec<AuthScheme>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            digest: true,
            x509: false,
            x509_super: None,
            sasl: false,
            sasl_server: None,
            sasl_supers: Vec::new(),
            allow_sasl_failed: false,
            required: Vec::new(),
        }
    }
}

impl AuthConfig {
    /// Whether a scheme is known, to ACLs and to what is required.
    pub fn knows(&self, scheme: AuthScheme) -> bool {
        match scheme {
            AuthScheme::Ip => true,
            AuthScheme::Digest => self.digest,
            AuthScheme::X509 => self.x509,
            AuthScheme::Sasl => self.sasl,
        }
    }
}
