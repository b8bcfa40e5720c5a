//! A private key that is encrypted by itself, as in PEM.

use p12_keystore::Pkcs12Archive;
use rustls::pki_types::PrivateKeyDer;

use super::wrong_password;
use crate::der::{CONTEXT_0, INTEGER, OCTET_STRING, OID, SEQUENCE, element};
use crate::error::TlsError;

/// The object identifiers pkcs7-data and pkcs8ShroudedKeyBag.
const DATA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const SHROUDED_KEY_BAG: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x02];

/// Decrypts an `EncryptedPrivateKeyInfo`.
///
/// A PKCS12 store has its keys in that very form, so that a store without anything else around this one makes one library read
/// both, with PBES2 and with the older schemes that Java writes.
pub(super) fn decrypt(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bag = element(SEQUENCE, &[&element(OID, &[&SHROUDED_KEY_BAG]), &element(CONTEXT_0, &[der])]);
    let bags = data(&element(SEQUENCE, &[&bag]));
    let all = data(&element(SEQUENCE, &[&bags]));
    let store = element(SEQUENCE, &[&element(INTEGER, &[&[3]]), &all]);
    let archive = Pkcs12Archive::from_pkcs12(&store, password).map_err(explain)?;
    let key = archive.keys.first().ok_or_else(wrong_password)?;
    Ok(PrivateKeyDer::Pkcs8(key.key.as_der().to_vec().into()))
}

/// Bytes as PKCS7 has them.
fn data(bytes: &[u8]) -> Vec<u8> {
    let content = element(CONTEXT_0, &[&element(OCTET_STRING, &[bytes])]);
    element(SEQUENCE, &[&element(OID, &[&DATA]), &content])
}

/// What is wrong with a store, in words of an operator.
pub(super) fn explain(error: p12_keystore::error::Error) -> TlsError {
    use p12_keystore::error::Error;
    match error {
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => TlsError::new(
            "it is encrypted with an algorithm that is not supported; write it anew with AES (PBES2)",
        ),
        Error::InvalidParameters => {
            TlsError::new("its encryption asks for more work than is done for a store (1,000,000 iterations)")
        }
        Error::UnpadError | Error::MacError(_) | Error::Pkcs5Error(_) | Error::InvalidPrivateKey => {
            wrong_password()
        }
        _ => TlsError::new("it is damaged, or not PKCS12"),
    }
}
