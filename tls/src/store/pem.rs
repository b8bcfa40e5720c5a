//! PEM: blocks of base64 between lines, in any order, with any text around them.

use pem::Pem;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{KeyEntry, encrypted};
use crate::error::TlsError;

const BEGIN: &[u8] = b"-----BEGIN ";

/// Whether the bytes have a block.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    begun(bytes) > 0
}

/// How many blocks begin.
fn begun(bytes: &[u8]) -> usize {
    bytes.windows(BEGIN.len()).filter(|window| *window == BEGIN).count()
}

/// The first key, and all certificates in the order of the file.
pub(super) fn identity(bytes: &[u8], password: Option<&str>) -> Result<Option<KeyEntry>, TlsError> {
    let (mut key, mut chain) = (None, Vec::new());
    for block in blocks(bytes)? {
        if is_certificate(&block) {
            chain.push(CertificateDer::from(block.into_contents()));
        } else if block.tag().ends_with("PRIVATE KEY") && key.is_none() {
            key = Some(block);
        }
    }
    let Some(key) = key else { return Ok(None) };
    Ok(Some(KeyEntry { key: private_key(key, password)?, chain }))
}

/// All certificates. Keys are skipped.
pub(super) fn trusted(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = blocks(bytes)?.into_iter().filter(is_certificate);
    Ok(certificates.map(|block| CertificateDer::from(block.into_contents())).collect())
}

/// All lists of revoked certificates.
pub(super) fn read_crls(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let lists = blocks(bytes)?.into_iter().filter(|block| block.tag() == "X509 CRL");
    Ok(lists.map(|block| block.into_contents().into()).collect())
}

fn is_certificate(block: &Pem) -> bool {
    block.tag() == "CERTIFICATE" || block.tag() == "X509 CERTIFICATE"
}

fn blocks(bytes: &[u8]) -> Result<Vec<Pem>, TlsError> {
    // The text of the error may show a part of the file, which may be a part of a key. The parser skips a block without an end, as
    // in a file that is still being written.
    let blocks = pem::parse_many(bytes).ok().filter(|blocks| blocks.len() == begun(bytes));
    blocks.ok_or_else(|| TlsError::new("a block of PEM in it is damaged, or has no end"))
}

fn private_key(block: Pem, password: Option<&str>) -> Result<PrivateKeyDer<'static>, TlsError> {
    if block.headers().get("Proc-Type").is_some() {
        let fix = "its private key is encrypted in an old way; convert it with \"openssl pkcs8 -topk8\"";
        return Err(TlsError::new(fix));
    }
    let tag = block.tag().to_owned();
    let der = block.into_contents();
    match tag.as_str() {
        "PRIVATE KEY" => Ok(PrivateKeyDer::Pkcs8(der.into())),
        "RSA PRIVATE KEY" => Ok(PrivateKeyDer::Pkcs1(der.into())),
        "EC PRIVATE KEY" => Ok(PrivateKeyDer::Sec1(der.into())),
        "ENCRYPTED PRIVATE KEY" => {
            let missing = || TlsError::new("its private key is encrypted; a password is needed");
            encrypted::decrypt(&der, password.ok_or_else(missing)?)
        }
        _ => Err(TlsError::new(format!("a key of the type \"{}\" is not supported", tag.escape_debug()))),
    }
}
