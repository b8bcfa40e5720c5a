//! Certificates made in the test.

use rcgen::{BasicConstraints, CertifiedIssuer, DistinguishedName, IsCa, KeyUsagePurpose};

pub use rcgen;
pub use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};

/// An authority.
pub struct Authority(pub CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, key()).expect("a certificate"))
    }

    /// Its certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of this machine, and its key.
    pub fn issue_parts(&self, name: &str) -> (String, String) {
        let key = key();
        let certificate = of_this_machine(name).signed_by(&key, &self.0).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// A key and its certificate, of this machine.
    pub fn issue(&self, name: &str) -> String {
        self.issue_with(name, |_| {})
    }

    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = of_this_machine(name);
        change(&mut params);
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        format!("{}{}", key.serialize_pem(), certificate.pem())
    }
}

/// What a certificate of this machine says.
pub fn of_this_machine(name: &str) -> CertificateParams {
    named(name, &["localhost", "127.0.0.1"])
}

/// A key and a certificate that is its own issuer.
pub fn self_signed(name: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
    let mut params = named(name, &["localhost"]);
    change(&mut params);
    let key = key();
    let certificate = params.self_signed(&key).expect("a certificate");
    format!("{}{}", key.serialize_pem(), certificate.pem())
}

/// What a certificate with this common name, and these names and addresses, says.
pub fn named(name: &str, alternatives: &[&str]) -> CertificateParams {
    let alternatives: Vec<_> = alternatives.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(alternatives).expect("names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
