//! The settings of authentication: users from a file, and what several keys decide together.

use std::path::PathBuf;

use zoolet_server::{AuthScheme, SaslUsers, ServerBuilder};

use super::SettingMistake;
use super::secret::Secret;

/// The section of a JAAS file that a server reads.
const SECTION: &str = "Server";

/// What was set of authentication.
#[derive(Debug, Default)]
pub(crate) struct AuthParts {
    pub(crate) jaas: Option<PathBuf>,
    pub(crate) section: Option<String>,
    pub(crate) super_password: Option<Secret>,
    /// The users of the file, once it is read.
    users: Option<SaslUsers>,
    /// The schemes that are asked for by name.
    pub(crate) sasl: bool,
    /// Whether a user of SASL is named whom no ACL restricts.
    pub(crate) has_super_user: bool,
    pub(crate) x509: bool,
    /// Whether the scheme digest is switched off.
    pub(crate) without_digest: bool,
    pub(crate) enforce: bool,
    pub(crate) schemes: Vec<AuthScheme>,
    /// Takes precedence over the other two.
    pub(crate) require_sasl: bool,
}

impl AuthParts {
    /// Reads the users.
    pub(super) fn load(&mut self) -> Result<(), SettingMistake> {
        let Some(file) = &self.jaas else { return Ok(()) };
        let shown = file.display();
        let text = std::fs::read_to_string(file)
            .map_err(|source| SettingMistake::Jaas(format!("{shown}: cannot be read: {source}")))?;
        let section = self.section.as_deref().unwrap_or(SECTION);
        let users = SaslUsers::from_jaas(&text, section)
            .map_err(|error| SettingMistake::Jaas(format!("{shown}:{}: {}", error.line, error.reason)))?;
        let users = users.ok_or_else(|| {
            SettingMistake::Jaas(format!(
                "{shown}: no section {section}, whose users may authenticate; name another one with sasl.serverconfig, or \
                 remove the setting to run without SASL"
            ))
        })?;
        self.users = Some(match &self.super_password {
            Some(password) => users.super_password(&password.0),
            None => users,
        });
        Ok(())
    }

    /// Whether clients can authenticate by SASL.
    pub(super) fn has_users(&self) -> bool {
        self.jaas.is_some()
    }

    /// Whether SASL is asked for and nobody can authenticate by it.
    pub(super) fn has_no_users(&self) -> bool {
        (self.sasl || self.has_super_user) && self.jaas.is_none()
    }

    /// The schemes of which a connection needs one.
    fn required(&self) -> Vec<AuthScheme> {
        match (self.require_sasl, self.enforce) {
            (true, _) => vec![AuthScheme::Sasl],
            (false, true) => self.schemes.clone(),
            (false, false) => Vec::new(),
        }
    }

    /// What does not fit together. `tls` is whether clients can connect by TLS.
    pub(super) fn check(&self, tls: bool) -> Vec<SettingMistake> {
        let mut mistakes = Vec::new();
        if self.enforce && !self.require_sasl && self.schemes.is_empty() {
            mistakes.push(SettingMistake::Together(
                "enforce.auth.enabled = true needs enforce.auth.schemes, such as sasl,x509; remove the key to let everybody in",
            ));
        }
        for scheme in self.required() {
            mistakes.extend(match scheme {
                AuthScheme::Sasl if !self.has_users() => Some(SettingMistake::Together(
                    "clients are required to authenticate by SASL, and there are no users: name a file with --jaas \
                     (java.security.auth.login.config), or nobody can connect",
                )),
                AuthScheme::X509 if !tls && !self.x509 => Some(SettingMistake::Together(
                    "clients are required to have a certificate, and there is no TLS: set secureClientPort (--tls-bind)",
                )),
                AuthScheme::Digest if self.without_digest => Some(SettingMistake::Together(
                    "clients are required to authenticate by scheme digest, which DigestAuthenticationProvider.enabled = false switches \
                     off",
                )),
                _ => None,
            });
        }
        mistakes
    }

    /// The builder with these settings.
    pub(super) fn apply(&self, server: ServerBuilder) -> ServerBuilder {
        let required = self.required();
        let server = server.digest(!self.without_digest).enforce_auth(required);
        let server = if self.x509 { server.x509(true) } else { server };
        let server = if self.sasl { server.sasl_scheme(true) } else { server };
        self.users.iter().cloned().fold(server, ServerBuilder::sasl)
    }
}
