//! Versions of the protocol and cipher suites, by the names that Java has for them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::ring::cipher_suite as suite;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::TlsError;

/// The versions of TLS that are offered or accepted (`ssl.enabledProtocols`). Parsed from a list such as `TLSv1.2,TLSv1.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    tls12: bool,
    tls13: bool,
}

impl Protocols {
    /// TLS 1.3 alone.
    pub const TLS13: Self = Self { tls12: false, tls13: true };
    /// TLS 1.2 and 1.3.
    pub const ALL: Self = Self { tls12: true, tls13: true };

    pub(crate) fn versions(self) -> Vec<&'static SupportedProtocolVersion> {
        let versions = [(self.tls13, &TLS13), (self.tls12, &TLS12)];
        versions.into_iter().filter_map(|(enabled, version)| enabled.then_some(version)).collect()
    }
}

impl FromStr for Protocols {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let mut protocols = Self { tls12: false, tls13: false };
        let wrong = |problem: String| TlsError::new(format!("{problem}; use TLSv1.2 and TLSv1.3"));
        for name in names(text) {
            match name {
                "TLSv1.2" => protocols.tls12 = true,
                "TLSv1.3" => protocols.tls13 = true,
                "SSLv2Hello" | "SSLv3" | "TLSv1" | "TLSv1.1" => {
                    return Err(wrong(format!("{name} is broken and not supported")));
                }
                _ => return Err(wrong(format!("{name:?} is not a version of TLS"))),
            }
        }
        match protocols {
            Self { tls12: false, tls13: false } => Err(wrong("it names no version of TLS".to_owned())),
            _ => Ok(protocols),
        }
    }
}

/// The cipher suites that are offered or accepted (`ssl.ciphersuites`), in the order of preference. Parsed from a list of the names
/// that Java and the IANA have for them.
#[derive(Clone, PartialEq)]
pub struct CipherSuites(Vec<SupportedCipherSuite>);

/// Every suite there is. Without the last two these are the default, in the order of Apache (`X509Util`), which has CBC suites
/// between these of TLS 1.2 and those of TLS 1.3.
const SUITES: [(&str, SupportedCipherSuite); 9] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];
const DEFAULT_SUITES: usize = 7;

impl Default for CipherSuites {
    fn default() -> Self {
        Self(SUITES[..DEFAULT_SUITES].iter().map(|(_, suite)| *suite).collect())
    }
}

impl FromStr for CipherSuites {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let mut suites = Vec::new();
        for name in names(text) {
            let found = SUITES.iter().find(|(known, _)| *known == name);
            suites.push(found.ok_or_else(|| TlsError::new(unsupported(name)))?.1);
        }
        match suites.is_empty() {
            true => Err(TlsError::new("it names no cipher suite, such as TLS_AES_256_GCM_SHA384")),
            false => Ok(Self(suites)),
        }
    }
}

impl fmt::Debug for CipherSuites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|suite| suite.suite())).finish()
    }
}

fn unsupported(name: &str) -> String {
    let reason = match name {
        _ if name.contains("_CBC_") => "CBC suites are not supported",
        _ if name.starts_with("TLS_RSA_") => "suites without forward secrecy are not supported",
        _ if name.starts_with("TLS_DHE_") => "DHE suites are not supported",
        _ => "this suite is unknown or not supported",
    };
    let known: Vec<_> = SUITES.iter().map(|(known, _)| *known).collect();
    format!("{}: {reason}; there are {}", name.escape_debug(), known.join(", "))
}

/// The entries of a list. Apache does not trim them, and refuses each connection if that makes a name unknown.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Whether a server asks its clients for certificates (`ssl.clientAuth`). Parsed in any case; an empty text is `need`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum ClientAuth {
    /// A client without a certificate of a trusted authority is refused.
    #[default]
    Need,
    /// A client may have no certificate. One that cannot be verified is refused.
    Want,
    /// Clients are not asked.
    None,
}

impl FromStr for ClientAuth {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        match text.to_ascii_lowercase().as_str() {
            "" | "need" => Ok(Self::Need),
            "want" => Ok(Self::Want),
            "none" => Ok(Self::None),
            _ => Err(TlsError::new(format!("{text:?} is not one of need, want and none"))),
        }
    }
}

/// The cryptography, with these suites.
pub(crate) fn provider(suites: &CipherSuites) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: suites.0.clone(), ..ring::default_provider() })
}

pub(crate) fn unusable() -> TlsError {
    TlsError::new("no cipher suite of the list is of a version of TLS that is enabled")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named_as_in_java() {
        assert_eq!("TLSv1.3".parse(), Ok(Protocols::TLS13));
        assert_eq!("TLSv1.2, TLSv1.3,".parse(), Ok(Protocols::ALL));
        for (text, error) in [
            ("TLSv1.3,TLSv1.1", "TLSv1.1 is broken and not supported; use TLSv1.2 and TLSv1.3"),
            ("TLS1.2", "\"TLS1.2\" is not a version of TLS; use TLSv1.2 and TLSv1.3"),
            ("", "it names no version of TLS; use TLSv1.2 and TLSv1.3"),
        ] {
            assert_eq!(text.parse::<Protocols>().expect_err(text).to_string(), error);
        }
    }

    #[test]
    fn suites_are_named_as_in_java_and_missing_ones_by_their_reason() {
        for (name, suite) in SUITES {
            assert_eq!(name.parse(), Ok(CipherSuites(vec![suite])));
            // The names of rustls differ for TLS 1.3 alone.
            assert_eq!(format!("{:?}", suite.suite()).replace("TLS13_", "TLS_"), name);
        }
        for (name, reason) in [
            ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "CBC suites are not supported"),
            ("TLS_RSA_WITH_AES_128_GCM_SHA256", "suites without forward secrecy are not supported"),
            ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE suites are not supported"),
            ("ECDHE-RSA", "this suite is unknown or not supported"),
        ] {
            let text = format!("TLS_AES_128_GCM_SHA256,{name}");
            let error = text.parse::<CipherSuites>().expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name}: {reason}; there are TLS_ECDHE_ECDSA_")), "{error}");
        }
        assert!(" ,".parse::<CipherSuites>().is_err());
    }

    #[test]
    fn client_authentication_is_needed_unless_it_is_named_otherwise() {
        assert_eq!("".parse(), Ok(ClientAuth::Need));
        assert_eq!("WANT".parse(), Ok(ClientAuth::Want));
        assert_eq!("none".parse(), Ok(ClientAuth::None));
        assert!("yes".parse::<ClientAuth>().is_err());
    }
}
