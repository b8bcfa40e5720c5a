//! The certificates of servers that are measured by TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A folder with an authority and a server, as `tests/apache/zookeeper certificates` makes it.
pub(crate) struct Certificates {
    pub(crate) folder: PathBuf,
}

impl Certificates {
    /// # Errors
    /// What is missing to make them.
    pub(crate) fn find() -> io::Result<Self> {
        let made = Command::new("tests/apache/zookeeper").arg("certificates").output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        Ok(Self { folder: String::from_utf8_lossy(&made.stdout).trim().into() })
    }

    /// What a `zoo.cfg` needs for a TLS port.
    pub(crate) fn settings(&self, addr: SocketAddr) -> Vec<(&'static str, String)> {
        vec![
            ("secureClientPort", addr.port().to_string()),
            ("secureClientPortAddress", addr.ip().to_string()),
            ("ssl.keyStore.location", self.folder.join("server.pem").display().to_string()),
            ("ssl.clientAuth", "none".to_owned()),
        ]
    }

    /// A client that trusts the authority. It resumes no TLS session, as Apache ZooKeeper resumes none.
    pub(crate) fn connector(&self) -> io::Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(self.folder.join("ca.crt")).map_err(io::Error::other)?;
        roots.add(root).map_err(io::Error::other)?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
