//! Who may authenticate how, and who must: settings of [`ServerBuilder`].

mod jaas;
mod sasl_users;

use zoolet_server_core::{AuthScheme, SaslServer};

pub use jaas::JaasError;
pub use sasl_users::SaslUsers;

use crate::config::ServerBuilder;
use crate::error::SettingError;

impl ServerBuilder {
    /// Lets these users authenticate by SASL DIGEST-MD5, and lets ACLs name them by scheme `sasl`. On Apache the first is the section
    /// `Server` of a JAAS file, and the second an `authProvider.*`; see [`sasl_scheme`](ServerBuilder::sasl_scheme).
    ///
    /// It proves who a client is when it connects, and no more: who can read the connection can try passwords against what he has
    /// read, and who can change it can send requests in the user's name. Over a network, use it inside of TLS.
    ///
    /// Default: no users. A client that tries goes on without SASL, or gives up.
    pub fn sasl(mut self, users: SaslUsers) -> Self {
        self.core.auth.sasl |= self.sasl_scheme.is_none();
        // The secret is drawn at the start.
        self.core.auth.sasl_server = Some(SaslServer::new(users.into_keys(), [0; 32]));
        self
    }

    /// Whether ACLs know scheme `sasl` (`authProvider.*=org.apache.zookeeper.server.auth.SASLAuthenticationProvider`). Without it users
    /// can authenticate, but their identity has no effect. Default: yes, if there are [users](ServerBuilder::sasl).
    pub fn sasl_scheme(mut self, known: bool) -> Self {
        self.core.auth.sasl = known;
        self.sasl_scheme = Some(known);
        self
    }

    /// Makes this SASL user a super user, whom no ACL restricts. May be called for several. Default: none (`superUser`,
    /// `superUser.*`).
    pub fn sasl_super_user(mut self, name: impl Into<String>) -> Self {
        self.core.auth.sasl_supers.push(name.into());
        self
    }

    /// Whether a client that fails to authenticate by SASL keeps its connection, without an identity. Without effect if SASL is
    /// [required](ServerBuilder::enforce_auth). The clients of Java and kazoo give up all the same. Default: no
    /// (`allowSaslFailedClients`).
    pub fn allow_sasl_failed_clients(mut self, allow: bool) -> Self {
        self.core.auth.allow_sasl_failed = allow;
        self
    }

    /// Whether the certificate of a client is an identity, and ACLs know scheme `x509`. The id is the subject as Java writes it, such as
    /// `CN=alice,O=Acme`. ACLs can name certificates from any connection. Default: no, or yes with TLS
    /// (`authProvider.*=org.apache.zookeeper.server.auth.X509AuthenticationProvider`).
    pub fn x509(mut self, known: bool) -> Self {
        self.x509 = Some(known);
        self
    }

    /// The subject of the certificate of the super user, exactly as [`x509`](ServerBuilder::x509) writes it. Default: none
    /// (`X509AuthenticationProvider.superUser`).
    pub fn x509_super_user(mut self, subject: impl Into<String>) -> Self {
        self.core.auth.x509_super = Some(subject.into());
        self
    }

    /// Whether scheme `digest` is known, to addauth and to ACLs. Default: yes (`DigestAuthenticationProvider.enabled`).
    pub fn digest(mut self, known: bool) -> Self {
        self.core.auth.digest = known;
        self
    }

    /// Serves only connections that have an identity of one of these schemes. The first request of another one is refused with −124,
    /// and its connection closed; its session stays until its timeout. With [`AuthScheme::Ip`] everybody has one. This concerns clients
    /// in the server's process too. Default: none is needed (`enforce.auth.schemes`; `sessionRequireClientSASLAuth` is
    /// [`AuthScheme::Sasl`] alone).
    pub fn enforce_auth(mut self, schemes: impl IntoIterator<Item = AuthScheme>) -> Self {
        self.core.auth.required = schemes.into_iter().collect();
        self
    }

    pub(crate) fn check_auth(&self) -> Result<(), SettingError> {
        let auth = &self.core.auth;
        let Some(unknown) = auth.required.iter().find(|scheme| !auth.knows(**scheme)) else { return Ok(()) };
        let hint = match unknown {
            AuthScheme::Sasl => {
                "needs scheme sasl: add users with sasl(), or switch it on with sasl_scheme(true)"
            }
            AuthScheme::X509 => "needs scheme x509: switch it on with x509(true)",
            AuthScheme::Digest | AuthScheme::Ip => "needs scheme digest, which is switched off",
        };
        Err(SettingError { setting: "enforce_auth", value: unknown.name().to_owned(), hint })
    }
}
