//! PKCS12 stores, by a library.

use p12_keystore::{CertificateBag, Pkcs12Archive, PrivateKeyBag};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::encrypted::explain;
use super::{KeyEntry, wrong_password};
use crate::error::TlsError;

/// Most certificates of a chain.
const MAX_CHAIN: usize = 16;

/// The first key, with its certificate and those of its issuers.
pub(super) fn identity(bytes: &[u8], password: Option<&str>) -> Result<Option<KeyEntry>, TlsError> {
    let archive = archive(bytes, password)?;
    let Some(key) = archive.keys.first() else { return Ok(None) };
    let chain = chain_of(key, &archive.certs).into_iter().map(der).collect();
    Ok(Some(KeyEntry { key: PrivateKeyDer::Pkcs8(key.key.as_der().to_vec().into()), chain }))
}

/// The certificates that are marked as trusted, as `keytool` marks them.
pub(super) fn trusted(
    bytes: &[u8],
    password: Option<&str>,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let archive = archive(bytes, password)?;
    let trusted: Vec<_> = archive.certs.iter().filter(|bag| bag.trusted).map(der).collect();
    if trusted.is_empty() && !archive.certs.is_empty() {
        let fix = "none of its certificates is marked as trusted; import those of the authorities with \"keytool -importcert\"";
        return Err(TlsError::new(fix));
    }
    Ok(trusted)
}

fn archive(bytes: &[u8], password: Option<&str>) -> Result<Pkcs12Archive, TlsError> {
    let archive = Pkcs12Archive::from_pkcs12(bytes, password.unwrap_or_default());
    archive.map_err(|error| match explain(error) {
        // Most stores have a password, and look damaged without.
        error if error == wrong_password() && password.is_none() => {
            TlsError::new("it has a password, which is not set, or the store is damaged")
        }
        error => error,
    })
}

fn der(bag: &CertificateBag) -> CertificateDer<'static> {
    CertificateDer::from(bag.cert.as_der().to_vec())
}

/// The certificate of a key, and then the issuer of each.
fn chain_of<'a>(key: &PrivateKeyBag, bags: &'a [CertificateBag]) -> Vec<&'a CertificateBag> {
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    let of_key = |bag: &&CertificateBag| id.is_some() && bag.local_key_id.as_deref() == id;
    // Some programs write no ids if there is one key: then the first certificate is its own.
    let Some(leaf) = bags.iter().find(of_key).or_else(|| bags.iter().find(|bag| !bag.trusted)) else {
        return Vec::new();
    };
    let mut chain = vec![leaf];
    while let Some(last) = chain.last().filter(|last| last.cert.subject() != last.cert.issuer()) {
        let issuer = bags.iter().find(|bag| bag.cert.subject() == last.cert.issuer());
        match issuer.filter(|issuer| chain.len() < MAX_CHAIN && !chain.contains(issuer)) {
            Some(issuer) => chain.push(issuer),
            None => break,
        }
    }
    chain
}
