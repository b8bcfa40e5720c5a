//! From a private key and its certificates to what signs with them.

use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys};
use x509_parser::certificate::Validity;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::X509Version;

use crate::der::{BIT_STRING, CONTEXT_1, DerReader, INTEGER, OCTET_STRING, OID, SEQUENCE, element};
use crate::error::TlsError;
use crate::store::{KeyEntry, Store};
use crate::verify::OLD_VERSION;

/// The object identifier id-ecPublicKey.
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The certificate of a store, and what signs with its key.
///
/// # Errors
/// If the store cannot be read, or what it has cannot be used; the file is named.
pub(crate) fn identity(store: &Store) -> Result<CertifiedKey, TlsError> {
    certified_key(store.identity()?).map_err(|error| error.of(store.files().next()))
}

/// What shows the certificate of a store and signs with its key. For when nothing is wrong with other files: one that has expired is
/// shown too, and the log says so.
pub(crate) fn resolver(store: &Store, identity: CertifiedKey) -> Arc<SingleCertAndKey> {
    let leaf = identity.cert.first().and_then(|leaf| parse_x509_certificate(leaf).ok());
    if let Some((_, leaf)) = leaf.filter(|(_, leaf)| !leaf.validity().is_valid()) {
        // No error: the clock may be what is wrong, and a client that does not verify connects as before.
        let file = store.files().next().map(|file| tracing::field::display(file.display()));
        let Validity { not_before, not_after } = leaf.validity();
        tracing::warn!(file, %not_before, %not_after, "TLS: the certificate has expired or is not valid yet; peers refuse it");
    }
    Arc::new(identity.into())
}

/// Checks that the key can sign and belongs to the first certificate.
fn certified_key(entry: KeyEntry) -> Result<CertifiedKey, TlsError> {
    let KeyEntry { key, chain } = entry;
    let invalid = || TlsError::new("the certificate of its private key is damaged");
    let leaf = chain.first().ok_or_else(invalid)?;
    let (_, parsed) = parse_x509_certificate(leaf).map_err(|_| invalid())?;
    // rustls would refuse it below, with a message that nobody understands.
    if parsed.version() != X509Version::V3 {
        return Err(TlsError::new(format!("its certificate is {OLD_VERSION}")));
    }
    let key = with_public_key(key, &parsed.public_key().subject_public_key.data);
    let unsupported = |_| {
        TlsError::new(
            "its private key is damaged, or does not belong to its first certificate, or is neither RSA of 2048 bits and more, ECDSA on P-256 or P-384, nor Ed25519",
        )
    };
    let certified = CertifiedKey::new(chain, any_supported_type(&key).map_err(unsupported)?);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(TlsError::new("its private key does not belong to its first certificate"))
        }
        Err(error) => Err(TlsError::new(format!("its certificate is not usable: {error}"))),
    }
}

/// Java writes keys of elliptic curves without their public half, which ring wants to check. The certificate has it.
fn with_public_key(key: PrivateKeyDer<'static>, public: &[u8]) -> PrivateKeyDer<'static> {
    let complete = match &key {
        PrivateKeyDer::Pkcs8(key) => complete_ec_key(key.secret_pkcs8_der(), public),
        _ => None,
    };
    complete.map_or(key, |key| PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)))
}

/// The key with its public half, if it is one of an elliptic curve and has none.
fn complete_ec_key(pkcs8: &[u8], public: &[u8]) -> Option<Vec<u8>> {
    let mut info = DerReader(pkcs8).sequence()?;
    let version = info.read(INTEGER)?;
    let algorithm = info.read(SEQUENCE)?;
    if DerReader(algorithm).read(OID)? != EC_PUBLIC_KEY {
        return None;
    }
    let mut key = DerReader(info.read(OCTET_STRING)?).sequence()?;
    let (key_version, secret) = (key.read(INTEGER)?, key.read(OCTET_STRING)?);
    while let Some(&tag) = key.0.first() {
        if tag == CONTEXT_1 {
            return None;
        }
        key.read(tag)?;
    }
    // A BIT STRING begins with the number of unused bits in its last byte.
    let public = element(CONTEXT_1, &[&element(BIT_STRING, &[&[0], public])]);
    let (key_version, secret) = (element(INTEGER, &[key_version]), element(OCTET_STRING, &[secret]));
    let key = element(SEQUENCE, &[&key_version, &secret, &public]);
    let (version, algorithm) = (element(INTEGER, &[version]), element(SEQUENCE, &[algorithm]));
    Some(element(SEQUENCE, &[&version, &algorithm, &element(OCTET_STRING, &[&key])]))
}
