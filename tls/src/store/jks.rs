//! JKS stores. The format is four kinds of fields and a digest; the crates that read it index past the end of damaged ones, and
//! reserve what a length announces.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha1::{Digest, Sha1};

use super::{KeyEntry, wrong_password};
use crate::der::{DerReader, OCTET_STRING, OID};
use crate::error::TlsError;

/// What the digest of a store begins with, after the password (`JavaKeyStore.getPreKeyedHash`).
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// The lengths of a digest, and of the salt of a key.
const DIGEST: usize = 20;
/// The object identifier of the encryption of keys, 1.3.6.1.4.1.42.2.17.1.1 (`KeyProtector`).
const KEY_PROTECTOR: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

enum Entry<'a> {
    Key { encrypted: &'a [u8], chain: Vec<CertificateDer<'static>> },
    Trusted(CertificateDer<'static>),
}

/// The first key and its chain.
pub(super) fn identity(bytes: &[u8], password: &str) -> Result<Option<KeyEntry>, TlsError> {
    for entry in entries(bytes, password)? {
        if let Entry::Key { encrypted, chain } = entry {
            let key = PrivateKeyDer::Pkcs8(decrypt(encrypted, password)?.into());
            return Ok(Some(KeyEntry { key, chain }));
        }
    }
    Ok(None)
}

/// The trusted certificates.
pub(super) fn trusted(bytes: &[u8], password: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let trusted = entries(bytes, password)?.into_iter().filter_map(|entry| match entry {
        Entry::Trusted(certificate) => Some(certificate),
        Entry::Key { .. } => None,
    });
    Ok(trusted.collect())
}

/// Checks the digest, and reads all entries.
fn entries<'a>(bytes: &'a [u8], password: &str) -> Result<Vec<Entry<'a>>, TlsError> {
    let (content, digest) =
        bytes.len().checked_sub(DIGEST).and_then(|at| bytes.split_at_checked(at)).ok_or_else(damaged)?;
    let mut hash = Sha1::new_with_prefix(utf16(password));
    hash.update(WHITENER);
    hash.update(content);
    if hash.finalize().as_slice() != digest {
        return Err(wrong_password());
    }
    let mut fields = Fields(content);
    // Its first four bytes say that it is a JKS store.
    fields.take(4)?;
    let version = fields.number()?;
    if !(1..=2).contains(&version) {
        return Err(TlsError::new(format!("it has version {version} of JKS, which is not supported")));
    }
    let count = fields.number()?;
    (0..count).map(|_| fields.entry(version)).collect()
}

/// Reads fields from the front of the bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], TlsError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, TlsError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    /// Bytes after their length.
    fn bytes(&mut self) -> Result<&'a [u8], TlsError> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| damaged())?)
    }

    /// Text after its length, which nothing here needs.
    fn skip_text(&mut self) -> Result<(), TlsError> {
        let length = self.take(2)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.take(length).map(|_| ())
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, TlsError> {
        if version == 2 {
            // The type of the certificate. Only X.509 exists.
            self.skip_text()?;
        }
        Ok(CertificateDer::from(self.bytes()?.to_vec()))
    }

    fn entry(&mut self, version: u32) -> Result<Entry<'a>, TlsError> {
        let tag = self.number()?;
        // The alias and the time of creation.
        self.skip_text()?;
        self.take(8)?;
        match tag {
            1 => {
                let encrypted = self.bytes()?;
                let length = self.number()?;
                let chain = (0..length).map(|_| self.certificate(version)).collect::<Result<_, _>>()?;
                Ok(Entry::Key { encrypted, chain })
            }
            2 => self.certificate(version).map(Entry::Trusted),
            _ => Err(damaged()),
        }
    }
}

/// Decrypts a key: it is xored with a chain of digests, and its own digest follows (`KeyProtector.recover`).
fn decrypt(encrypted: &[u8], password: &str) -> Result<Vec<u8>, TlsError> {
    let parts = || {
        let mut info = DerReader(encrypted).sequence()?;
        let algorithm = info.sequence()?.read(OID)?;
        let protected = info.read(OCTET_STRING)?;
        let (salt, rest) = protected.split_at_checked(DIGEST)?;
        let (key, digest) = rest.split_at_checked(rest.len().checked_sub(DIGEST)?)?;
        Some((algorithm, salt, key, digest))
    };
    let (algorithm, salt, key, digest) = parts().ok_or_else(damaged)?;
    if algorithm != KEY_PROTECTOR {
        return Err(TlsError::new("its private key is encrypted with an algorithm that is not supported"));
    }
    let password = utf16(password);
    let mut key = key.to_vec();
    let mut stream = salt.to_vec();
    for block in key.chunks_mut(DIGEST) {
        stream = Sha1::new_with_prefix(&password).chain_update(&stream).finalize().to_vec();
        block.iter_mut().zip(&stream).for_each(|(byte, mask)| *byte ^= mask);
    }
    let found = Sha1::new_with_prefix(&password).chain_update(&key).finalize();
    match found.as_slice() == digest {
        true => Ok(key),
        false => Err(TlsError::new("the password of its private key is not that of the store")),
    }
}

fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn damaged() -> TlsError {
    TlsError::new("it is damaged: it ends within an entry, or has an unknown one")
}
