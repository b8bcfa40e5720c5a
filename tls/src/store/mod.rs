//! Stores of keys and certificates: where one is, its format and password, and what is in it.

mod encrypted;
mod jks;
mod pem;
mod pkcs12;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::{TlsError, both};

/// Most bytes of a store or of a list of revoked certificates: a thousand certificates of 4 KiB.
const MAX_FILE: u64 = 4 << 20;
/// Most bytes of a file with a password.
const MAX_PASSWORD_FILE: u64 = 64 << 10;

/// A store of keys or certificates: in PEM, PKCS12 or JKS, in a file or in memory. Nothing is read before it is used.
///
/// A *key store* has a private key with its certificate chain, leaf first; of several keys the first is used. A *trust store* has
/// the certificates of authorities. The format is that of the content, whatever the name of the file.
///
/// ```
/// use zoolet_tls::Store;
///
/// let key_store = Store::file("/etc/zookeeper/server.p12").password_file("/run/secrets/store-password");
/// assert_eq!(format!("{key_store:?}"), "Store(\"/etc/zookeeper/server.p12\")");
/// ```
// `Debug` shows no password and no key.
#[derive(Clone)]
pub struct Store {
    source: Source,
    kind: Option<StoreKind>,
    password: Option<Password>,
    /// The private key, if it is not in the store.
    key: Option<PathBuf>,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

#[derive(Clone)]
enum Password {
    Value(Arc<str>),
    File(PathBuf),
}

/// The format of a store (`ssl.keyStore.type`). Parsed from Java's names in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// Text with a private key (PKCS#8, also encrypted, PKCS#1 or SEC1) and certificates, or with certificates alone.
    Pem,
    /// PKCS#12, also under the name JKS: Java takes either for the other.
    Pkcs12,
    /// Java's older format, also under the name PKCS12.
    Jks,
}

impl FromStr for StoreKind {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        match text.to_ascii_uppercase().as_str() {
            "PEM" => Ok(Self::Pem),
            "PKCS12" => Ok(Self::Pkcs12),
            "JKS" => Ok(Self::Jks),
            _ => Err(TlsError::new(format!("{text:?} is not a type of a store; use PEM, PKCS12 or JKS"))),
        }
    }
}

/// A private key with its certificates, the leaf first.
pub(crate) struct KeyEntry {
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

impl Store {
    /// The store in this file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { source: Source::File(path.into()), kind: None, password: None, key: None }
    }

    /// A store in memory, in PEM.
    pub fn pem(text: impl Into<String>) -> Self {
        Self::bytes(text.into()).kind(StoreKind::Pem)
    }

    /// A store in memory, in any format.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Vec<u8> = bytes.into();
        Self { source: Source::Memory(bytes.into()), kind: None, password: None, key: None }
    }

    /// Refuses the file if it has another format. Default: any format.
    #[must_use]
    pub fn kind(mut self, kind: StoreKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The password of the store and of the key in it. It is not checked for a PEM store without an encrypted key.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Password::Value(password.into().into()));
        self
    }

    /// Reads the private key from this file, in PEM, and the certificates alone from the store, which has to be PEM as well.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.key = Some(path.into());
        self
    }

    /// Reads the password from this file, without one line end at its end.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password = Some(Password::File(path.into()));
        self
    }

    /// The files that it is read from.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let password = match &self.password {
            Some(Password::File(path)) => Some(path.as_path()),
            _ => None,
        };
        self.path().into_iter().chain(self.key.as_deref()).chain(password)
    }

    fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Memory(_) => None,
        }
    }

    /// The key and its certificates.
    pub(crate) fn identity(&self) -> Result<KeyEntry, TlsError> {
        let key = self.key.as_ref().map(|file| read_file(file, MAX_FILE)).transpose();
        let ((bytes, password), key) = both(self.read(), key)?;
        let password = password.as_deref();
        let entry = self.kind_of(&bytes).and_then(|kind| match (kind, key) {
            (StoreKind::Pem, Some(key)) => {
                let chain = pem::trusted(&bytes)?;
                let key = pem::identity(&key, password).map_err(|error| error.of(self.key.as_deref()))?;
                Ok(key.map(|KeyEntry { key, .. }| KeyEntry { key, chain }))
            }
            (_, Some(_)) => Err(TlsError::new("it is not PEM, and its private key is to be in another file")),
            (StoreKind::Pem, None) => pem::identity(&bytes, password),
            (StoreKind::Pkcs12, None) => pkcs12::identity(&bytes, password),
            (StoreKind::Jks, None) => jks::identity(&bytes, jks_password(password)?),
        });
        let entry = entry.and_then(|entry| {
            let none = || match &self.key {
                Some(key) => TlsError::new("no private key in PEM is in it").of(Some(key)),
                None => TlsError::new("no private key is in it; a key store has a key and its certificates"),
            };
            let entry = entry.ok_or_else(none)?;
            match entry.chain.is_empty() {
                true => Err(TlsError::new("the certificate of its private key is not in it")),
                false => Ok(entry),
            }
        });
        entry.map_err(|error| error.of(self.path()))
    }

    /// The certificates of the authorities.
    pub(crate) fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let (bytes, password) = self.read()?;
        let password = password.as_deref();
        let trusted = self.kind_of(&bytes).and_then(|kind| match kind {
            StoreKind::Pem => pem::trusted(&bytes),
            StoreKind::Pkcs12 => pkcs12::trusted(&bytes, password),
            StoreKind::Jks => jks::trusted(&bytes, jks_password(password)?),
        });
        let trusted = trusted.and_then(|trusted| match trusted.is_empty() {
            // In Java this is "trustAnchors parameter must be non-empty".
            true => Err(TlsError::new(
                "no trusted certificate is in it; a trust store has those of the authorities",
            )),
            false => Ok(trusted),
        });
        trusted.map_err(|error| error.of(self.path()))
    }

    /// The bytes and the password.
    fn read(&self) -> Result<(Arc<[u8]>, Option<String>), TlsError> {
        let bytes = match &self.source {
            Source::File(path) => read_file(path, MAX_FILE).map(Arc::from),
            Source::Memory(bytes) => Ok(Arc::clone(bytes)),
        };
        let password = match &self.password {
            None => Ok(None),
            Some(Password::Value(password)) => Ok(Some(password.to_string())),
            Some(Password::File(path)) => read_password(path).map(Some),
        };
        both(bytes, password)
    }

    /// The format of the content, if it is the declared one.
    fn kind_of(&self, bytes: &[u8]) -> Result<StoreKind, TlsError> {
        let found = found_kind(bytes)?;
        match (self.kind, found) {
            (Some(StoreKind::Pem), StoreKind::Pkcs12 | StoreKind::Jks) => {
                Err(TlsError::new("it is not PEM, as which it is declared"))
            }
            (Some(StoreKind::Pkcs12 | StoreKind::Jks), StoreKind::Pem) => {
                Err(TlsError::new("it is PEM, and is declared as another type of store"))
            }
            _ => Ok(found),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File(path) => f.debug_tuple("Store").field(path).finish(),
            Source::Memory(_) => f.write_str("Store(in memory)"),
        }
    }
}

/// The format, by the first bytes.
fn found_kind(bytes: &[u8]) -> Result<StoreKind, TlsError> {
    match bytes {
        [] => Err(TlsError::new("it is empty")),
        [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(StoreKind::Jks),
        [0xce, 0xce, 0xce, 0xce, ..] => {
            let fix = "a JCEKS store is not supported; convert it with \"keytool -importkeystore -deststoretype PKCS12\"";
            Err(TlsError::new(fix))
        }
        [0x30, 0x80..=0x84, ..] => Ok(StoreKind::Pkcs12),
        // Text may stand before the first block.
        _ if pem::is_pem(bytes) => Ok(StoreKind::Pem),
        _ => Err(TlsError::new("it is neither PEM nor PKCS12 nor JKS")),
    }
}

/// The whole of a file.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, TlsError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(max + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let bytes = read().map_err(|error| TlsError::new(format!("cannot be read: {error}")).of(Some(path)))?;
    if bytes.len() as u64 > max {
        return Err(TlsError::new(format!("it has more than {max} bytes")).of(Some(path)));
    }
    Ok(bytes)
}

/// A password from a file, without one line end at its end (`SecretUtils`).
fn read_password(path: &Path) -> Result<String, TlsError> {
    let text = read_file(path, MAX_PASSWORD_FILE)?;
    let text =
        String::from_utf8(text).map_err(|_| TlsError::new("the password is not UTF-8").of(Some(path)))?;
    let line = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(&text);
    Ok(line.to_owned())
}

/// The lists of revoked certificates in a file: PEM, or one list in DER.
pub(crate) fn read_crls(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read_file(path, MAX_FILE)?;
    let lists = match bytes.first() {
        Some(0x30) => vec![bytes.into()],
        _ => pem::read_crls(&bytes).map_err(|error| error.of(Some(path)))?,
    };
    if lists.is_empty() {
        return Err(TlsError::new("no list of revoked certificates (X509 CRL) is in it").of(Some(path)));
    }
    Ok(lists)
}

fn jks_password(password: Option<&str>) -> Result<&str, TlsError> {
    password.ok_or_else(|| TlsError::new("a JKS store needs a password"))
}

/// A wrong password and a damaged store look alike.
fn wrong_password() -> TlsError {
    TlsError::new("the password is wrong, or the store is damaged")
}
