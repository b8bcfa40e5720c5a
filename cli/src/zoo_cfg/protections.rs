//! Keys that ask for a protection that is not there. To ignore one would leave the server open, so it is an error.

use crate::settings::Written;

/// A protection that is not there, and the key that asks for it.
struct Protection {
    /// The name of the key; the beginning of it, if it ends with a dot.
    key: &'static str,
    asked: Asked,
    what: &'static str,
}

/// Which values of a key ask for its protection.
enum Asked {
    Always,
    IfTrue,
    IfFalse,
    If(fn(&str) -> bool),
    /// By `need` or `want`, which also takes the identity of a certificate that a client shows.
    ClientAuth,
}
use Asked::{Always, ClientAuth, If, IfFalse, IfTrue};

impl Asked {
    /// Whether this value asks for the protection, or what the value must be.
    fn by(&self, value: &str) -> Result<bool, String> {
        match self {
            Always => Ok(true),
            IfTrue => Written::Key(value).boolean(),
            IfFalse => Written::Key(value).boolean().map(|on| !on),
            If(asks) => Ok(asks(value)),
            ClientAuth => match value.to_ascii_lowercase().as_str() {
                "need" | "want" => Ok(true),
                "none" => Ok(false),
                _ => Err("must be need, want or none".to_owned()),
            },
        }
    }
}

const fn row(key: &'static str, asked: Asked, what: &'static str) -> Protection {
    Protection { key, asked, what }
}

/// All of them. A key that only says how a protection works, such as where a key store is, is absent: another key asks for it.
const PROTECTIONS: &[Protection] = &[
    row("secureClientPort", Always, "TLS"),
    row("secureClientPortAddress", Always, "TLS"),
    row("client.portUnification", IfTrue, "TLS at the client port"),
    row("ssl.clientAuth", ClientAuth, "the check of client certificates"),
    row("ssl.crl", IfTrue, "the check of client certificates"),
    row("ssl.ocsp", IfTrue, "the check of client certificates"),
    row("ssl.clientHostnameVerification", IfTrue, "the check of client certificates"),
    row("sslQuorum", IfTrue, "TLS between servers"),
    row("portUnification", IfTrue, "TLS between servers"),
    row("quorum.auth.enableSasl", IfTrue, "SASL between servers"),
    row("quorum.auth.learnerRequireSasl", IfTrue, "SASL between servers"),
    row("quorum.auth.serverRequireSasl", IfTrue, "SASL between servers"),
    row("requireClientAuthScheme", Always, "SASL"),
    row("sessionRequireClientSASLAuth", IfTrue, "SASL"),
    row("java.security.auth.login.config", Always, "SASL"),
    row("enforce.auth.enabled", IfTrue, "to require authentication"),
    row("authProvider.", If(is_sasl), "SASL"),
    row("authProvider.", If(is_x509), "authentication by client certificates"),
    row("authProvider.", If(is_other), "an authentication provider other than digest and ip"),
    row("DigestAuthenticationProvider.enabled", IfFalse, "to disable the scheme digest"),
    row("DigestAuthenticationProvider.digestAlg", If(is_not_sha1), "a digest other than SHA1"),
    row("ensembleAuthName", If(|value| !value.is_empty()), "the scheme ensemble"),
];

/// Why a key is refused, if it asks for a protection that is not there. `None` if no protection belongs to it.
pub(super) fn judge(spelling: &str, value: &str) -> Option<Result<(), Refusal>> {
    let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
    let matching = |row: &&Protection| {
        if row.key.ends_with('.') { name.starts_with(row.key) } else { name == row.key }
    };
    let mut rows = PROTECTIONS.iter().filter(matching).peekable();
    rows.peek()?;
    Some(rows.try_for_each(|row| match row.asked.by(value) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Refusal::Missing(format!(
            "{} is not supported yet; remove the key to run without it",
            row.what
        ))),
        Err(hint) => Err(Refusal::Invalid(hint)),
    }))
}

/// The names of the keys, for the search of misspelt ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PROTECTIONS.iter().map(|row| row.key).filter(|key| !key.ends_with('.'))
}

/// Why a key is refused.
pub(super) enum Refusal {
    /// What it asks for is not there.
    Missing(String),
    /// What its value must be.
    Invalid(String),
}

/// With another algorithm no digest of an ACL in the data would match.
fn is_not_sha1(value: &str) -> bool {
    !["SHA1", "SHA-1", "SHA"].iter().any(|name| value.eq_ignore_ascii_case(name))
}

fn is_provider(value: &str, names: &[&str]) -> bool {
    let name = value.strip_prefix("org.apache.zookeeper.server.auth.");
    name.is_some_and(|name| names.contains(&name))
}

fn is_sasl(value: &str) -> bool {
    is_provider(value, &["SASLAuthenticationProvider"])
}

fn is_x509(value: &str) -> bool {
    is_provider(value, &["X509AuthenticationProvider"])
}

fn is_other(value: &str) -> bool {
    !is_provider(value, &["DigestAuthenticationProvider", "IPAuthenticationProvider"])
}
