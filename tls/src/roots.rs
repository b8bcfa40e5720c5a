//! Which authorities are trusted: those of a trust store, or those of the system.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::error::TlsError;
use crate::store::Store;

/// The certificates of a trust store as authorities.
pub(crate) fn roots(store: &Store, trusted: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let (_, ignored) = roots.add_parsable_certificates(trusted.iter().cloned());
    // A bundle of many authorities may have an odd one.
    if ignored > 0 {
        let file = store.files().next().map(|file| file.display().to_string());
        tracing::warn!(
            file,
            ignored,
            "TLS: certificates of a trust store are damaged or of an old version, and are not trusted"
        );
    }
    if roots.is_empty() {
        let error = TlsError::new("no certificate in it is a usable one of an authority");
        return Err(error.of(store.files().next()));
    }
    Ok(roots)
}

/// The authorities of the system.
#[cfg(feature = "system-roots")]
pub(crate) fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    match (roots.is_empty(), found.errors.first()) {
        (false, _) => Ok(roots),
        (true, Some(error)) => {
            Err(TlsError::new(format!("no authorities of the system: {error}; set a trust store")))
        }
        (true, None) => Err(TlsError::new("the system has no authorities; set a trust store")),
    }
}

#[cfg(not(feature = "system-roots"))]
pub(crate) fn system_roots() -> Result<RootCertStore, TlsError> {
    Err(TlsError::new("a client needs a trust store: the feature `system-roots` is off"))
}
