//! Certificates that are made in the test, and connections by TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use zoolet_test_support::certificates::{self, KeyPair, of_this_machine};
use zoolet_tls::rustls::pki_types::CertificateDer;
use zoolet_tls::rustls::{ClientConnection, StreamOwned};
use zoolet_tls::{ClientTls, Store, TlsSettings as _};

/// An authority.
pub struct Authority(certificates::Authority);

impl Authority {
    pub fn new() -> Self {
        Self(certificates::Authority::new("authority"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of this machine and its key, each in PEM.
    pub fn issue(&self, name: &str) -> (String, String) {
        self.0.issue_parts(name)
    }

    /// A certificate of this machine with its key, as PKCS12.
    pub fn issue_pkcs12(&self, name: &str, password: &str) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let certificate = of_this_machine(name).signed_by(&key, &self.0.0).unwrap();
        let chain = [certificate.der(), self.0.0.der()].map(|der| Certificate::from_der(der).unwrap());
        let key = PrivateKey::from_der(&key.serialize_der()).unwrap();
        let entry = KeyStoreEntry::PrivateKeyChain(PrivateKeyChain::new("server", key, chain));
        store(name, entry, password)
    }

    /// Its own certificate, as a trust store in PKCS12.
    pub fn pkcs12(&self, password: &str) -> Vec<u8> {
        store("ca", KeyStoreEntry::Certificate(Certificate::from_der(self.0.0.der()).unwrap()), password)
    }

    /// A connection to a server whose certificate is of this authority.
    pub fn connect(&self, addr: &str, identity: Option<&(String, String)>) -> TlsStream {
        let tls = ClientTls::new().trust_store(Store::pem(self.pem()));
        let tls = identity
            .iter()
            .fold(tls, |tls, (certificate, key)| tls.key_store(Store::pem(format!("{key}{certificate}"))));
        let connection = ClientConnection::new(tls.load().unwrap(), "localhost".try_into().unwrap()).unwrap();
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        TlsStream(StreamOwned::new(connection, socket))
    }
}

fn store(alias: &str, entry: KeyStoreEntry, password: &str) -> Vec<u8> {
    let mut store = KeyStore::new();
    store.add_entry(alias, entry);
    store.writer(password).write().unwrap()
}

pub struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsStream {
    /// The answer to a four-letter word; empty if the server refuses the connection.
    pub fn word(mut self, word: &str) -> String {
        let mut answer = Vec::new();
        let _ = self.0.write_all(word.as_bytes()).and_then(|()| self.0.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    }

    /// Sends bytes and reads as many.
    pub fn exchange(&mut self, sent: &[u8], answer: &mut [u8]) {
        self.0.write_all(sent).unwrap();
        self.0.read_exact(answer).unwrap();
    }

    /// The certificate that the server has shown, after the first bytes.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }
}
