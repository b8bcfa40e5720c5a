//! Keys that ask for a protection that is not there. To ignore one would leave the server open, so it is an error.

use super::ConfigError;
use super::properties::Entry;
use crate::settings::{Written, bare};

/// A protection that is not there, and the key that asks for it.
struct Protection {
    key: &'static str,
    /// Whether a value asks for it, or what the value must be.
    is_asked: IsAsked,
    what: &'static str,
}

type IsAsked = fn(&str) -> Result<bool, String>;

const fn row(key: &'static str, is_asked: IsAsked, what: &'static str) -> Protection {
    Protection { key, is_asked, what }
}

/// All of them. A key that only says how a protection works, such as where a key store is, is absent: another key asks for it.
const PROTECTIONS: &[Protection] = &[
    #[cfg(not(feature = "tls"))]
    row("secureClientPort", |_| Ok(true), "TLS in a build without cargo's feature `tls`"),
    #[cfg(not(feature = "tls"))]
    row("client.portUnification", is_true, "TLS in a build without cargo's feature `tls`"),
    #[cfg(not(feature = "tls"))]
    row("admin.forceHttps", is_true, "HTTPS in a build without cargo's features `tls` and `admin`"),
    #[cfg(not(feature = "tls"))]
    row("admin.needClientAuth", is_true, "HTTPS in a build without cargo's features `tls` and `admin`"),
    row("ssl.ocsp", is_true, "to ask an OCSP server about client certificates"),
    row("ssl.authProvider", |value| Ok(value != "x509"), "a provider for certificates other than x509"),
    row("sslQuorum", is_true, "TLS between servers"),
    row("portUnification", is_true, "TLS between servers"),
    row("quorum.auth.enableSasl", is_true, "SASL between servers"),
    row("quorum.auth.learnerRequireSasl", is_true, "SASL between servers"),
    row("quorum.auth.serverRequireSasl", is_true, "SASL between servers"),
    row("DigestAuthenticationProvider.digestAlg", is_not_sha1, "a digest other than SHA1"),
    row(
        "IPAuthenticationProvider.usexforwardedfor",
        is_true,
        "to take the address of a client from X-Forwarded-For",
    ),
    row("ensembleAuthName", |value| Ok(!value.is_empty()), "the scheme ensemble"),
];

/// Why a line is refused, if it asks for a protection that is not there. `None` if no protection belongs to its key.
pub(super) fn judge(entry: &Entry) -> Option<Result<(), ConfigError>> {
    let row = PROTECTIONS.iter().find(|row| row.key == bare(&entry.key))?;
    Some(match (row.is_asked)(&entry.value) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let hint = format!("{} is not supported; remove the key to run without it", row.what);
            Err(ConfigError::unsupported(entry, &hint))
        }
        Err(hint) => Err(ConfigError::invalid(entry, &hint)),
    })
}

/// The names of the keys, for the search of misspelt ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PROTECTIONS.iter().map(|row| row.key)
}

fn is_true(value: &str) -> Result<bool, String> {
    Written::Key(value).boolean()
}

/// With another algorithm no digest of an ACL in the data would match.
fn is_not_sha1(value: &str) -> Result<bool, String> {
    Ok(!["SHA1", "SHA-1", "SHA"].iter().any(|name| value.eq_ignore_ascii_case(name)))
}
