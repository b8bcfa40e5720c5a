//! Keys that ask for a protection that is not there. To ignore one would leave the server open, so it is an error.

use std::path::Path;

use super::ConfigError;
use super::properties::Entry;
use crate::settings::{Written, bare};

/// A protection that is not there, and the key that asks for it.
struct Protection {
    key: &'static str,
    asked: Asked,
    what: &'static str,
}

/// Which values of a key ask for its protection.
enum Asked {
    #[cfg(not(feature = "tls"))]
    Always,
    IfTrue,
    If(fn(&str) -> bool),
}
#[cfg(not(feature = "tls"))]
use Asked::Always;
use Asked::{If, IfTrue};

impl Asked {
    /// Whether this value asks for the protection, or what the value must be.
    fn by(&self, value: &str) -> Result<bool, String> {
        match self {
            #[cfg(not(feature = "tls"))]
            Always => Ok(true),
            IfTrue => Written::Key(value).boolean(),
            If(asks) => Ok(asks(value)),
        }
    }
}

const fn row(key: &'static str, asked: Asked, what: &'static str) -> Protection {
    Protection { key, asked, what }
}

/// All of them. A key that only says how a protection works, such as where a key store is, is absent: another key asks for it.
const PROTECTIONS: &[Protection] = &[
    #[cfg(not(feature = "tls"))]
    row("secureClientPort", Always, "TLS, which a build with cargo's feature `tls` has,"),
    #[cfg(not(feature = "tls"))]
    row("client.portUnification", IfTrue, "TLS, which a build with cargo's feature `tls` has,"),
    #[cfg(not(feature = "tls"))]
    row("admin.forceHttps", IfTrue, "HTTPS, which a build with cargo's features `tls` and `admin` has,"),
    #[cfg(not(feature = "tls"))]
    row("admin.needClientAuth", IfTrue, "HTTPS, which a build with cargo's features `tls` and `admin` has,"),
    row("ssl.ocsp", IfTrue, "to ask an OCSP server about client certificates"),
    row("ssl.authProvider", If(|value| value != "x509"), "a provider for certificates other than x509"),
    row("sslQuorum", IfTrue, "TLS between servers"),
    row("portUnification", IfTrue, "TLS between servers"),
    row("quorum.auth.enableSasl", IfTrue, "SASL between servers"),
    row("quorum.auth.learnerRequireSasl", IfTrue, "SASL between servers"),
    row("quorum.auth.serverRequireSasl", IfTrue, "SASL between servers"),
    row("DigestAuthenticationProvider.digestAlg", If(is_not_sha1), "a digest other than SHA1"),
    row("ensembleAuthName", If(|value| !value.is_empty()), "the scheme ensemble"),
];

/// Why a line is refused, if it asks for a protection that is not there. `None` if no protection belongs to its key.
pub(super) fn judge(file: &Path, entry: &Entry) -> Option<Result<(), ConfigError>> {
    let row = PROTECTIONS.iter().find(|row| row.key == bare(&entry.key))?;
    Some(match row.asked.by(&entry.value) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let hint = format!("{} is not supported; remove the key to run without it", row.what);
            Err(ConfigError::unsupported(file, entry, &hint))
        }
        Err(hint) => Err(ConfigError::invalid(file, entry, &hint)),
    })
}

/// The names of the keys, for the search of misspelt ones.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PROTECTIONS.iter().map(|row| row.key)
}

/// With another algorithm no digest of an ACL in the data would match.
fn is_not_sha1(value: &str) -> bool {
    !["SHA1", "SHA-1", "SHA"].iter().any(|name| value.eq_ignore_ascii_case(name))
}
