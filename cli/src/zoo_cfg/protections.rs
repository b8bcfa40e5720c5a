//! Keys that ask for a protection that is not there. To ignore one would leave the server open, so it is an error.

use crate::settings::Written;

/// A protection that is not there, and the key that asks for it.
struct Protection {
    /// The name of the key; the beginning of it, if it ends with a dot.
    key: &'static str,
    /// Whether this value asks for it, or what the value must be.
    asks: fn(&str) -> Result<bool, String>,
    what: &'static str,
}

const fn row(key: &'static str, asks: fn(&str) -> Result<bool, String>, what: &'static str) -> Protection {
    Protection { key, asks, what }
}

/// All of them. A key that only says how a protection works, such as where a key store is, is not one: another key asks for it.
const PROTECTIONS: &[Protection] = &[
    row("secureClientPort", always, "TLS"),
    row("secureClientPortAddress", always, "TLS"),
    row("client.portUnification", boolean, "TLS at the client port"),
    row("ssl.clientAuth", client_certificates, "the check of client certificates"),
    row("ssl.crl", boolean, "the check of client certificates"),
    row("ssl.ocsp", boolean, "the check of client certificates"),
    row("ssl.clientHostnameVerification", boolean, "the check of client certificates"),
    row("sslQuorum", boolean, "TLS between servers"),
    row("portUnification", boolean, "TLS between servers"),
    row("quorum.auth.enableSasl", boolean, "SASL between servers"),
    row("quorum.auth.learnerRequireSasl", boolean, "SASL between servers"),
    row("quorum.auth.serverRequireSasl", boolean, "SASL between servers"),
    row("requireClientAuthScheme", always, "SASL"),
    row("sessionRequireClientSASLAuth", boolean, "SASL"),
    row("java.security.auth.login.config", always, "SASL"),
    row("enforce.auth.enabled", boolean, "to require authentication"),
    row("authProvider.", is_sasl, "SASL"),
    row("authProvider.", is_x509, "authentication by client certificates"),
    row("authProvider.", is_other, "an authentication provider other than digest and ip"),
    row("DigestAuthenticationProvider.enabled", is_off, "to disable the scheme digest"),
    row("DigestAuthenticationProvider.digestAlg", is_not_sha1, "a digest other than SHA1"),
    row("ensembleAuthName", is_not_empty, "the scheme ensemble"),
    row("audit.enable", boolean, "the audit log"),
];

/// Why a key is refused, if it asks for a protection that is not there. `None` if no protection belongs to it.
pub(super) fn judge(spelling: &str, value: &str) -> Option<Result<(), Refusal>> {
    let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling);
    let matching = |row: &&Protection| {
        if row.key.ends_with('.') { name.starts_with(row.key) } else { name == row.key }
    };
    let mut rows = PROTECTIONS.iter().filter(matching).peekable();
    rows.peek()?;
    Some(rows.try_for_each(|row| match (row.asks)(value) {
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

fn boolean(value: &str) -> Result<bool, String> {
    Written::Key(value).boolean()
}

#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn always(_: &str) -> Result<bool, String> {
    Ok(true)
}

#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn is_not_empty(value: &str) -> Result<bool, String> {
    Ok(!value.is_empty())
}

fn is_off(value: &str) -> Result<bool, String> {
    boolean(value).map(|on| !on)
}

/// `want` also takes the identity of a certificate that a client shows.
fn client_certificates(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "need" | "want" => Ok(true),
        "none" => Ok(false),
        _ => Err("must be need, want or none".to_owned()),
    }
}

/// With another algorithm no digest of an ACL in the data would match.
#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn is_not_sha1(value: &str) -> Result<bool, String> {
    Ok(!["SHA1", "SHA-1", "SHA"].iter().any(|name| value.eq_ignore_ascii_case(name)))
}

const AUTH: &str = "org.apache.zookeeper.server.auth.";

fn is_provider(value: &str, names: &[&str]) -> bool {
    value.strip_prefix(AUTH).is_some_and(|name| names.contains(&name))
}

#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn is_sasl(value: &str) -> Result<bool, String> {
    Ok(is_provider(value, &["SASLAuthenticationProvider"]))
}

#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn is_x509(value: &str) -> Result<bool, String> {
    Ok(is_provider(value, &["X509AuthenticationProvider"]))
}

#[allow(clippy::unnecessary_wraps, reason = "one type for all rows")]
fn is_other(value: &str) -> Result<bool, String> {
    Ok(!is_provider(value, &["DigestAuthenticationProvider", "IPAuthenticationProvider"]))
}
