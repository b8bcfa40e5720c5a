//! TLS at the ports of clients: the certificate, who is trusted, and what is offered.

use std::fmt::Display;
use std::str::FromStr;

use zoolet_server::tls::ClientAuth;

use super::{ADDRESS, BOOL, COUNT, FILE, SettingRow, flag, key};
use crate::settings::put;
use crate::settings::secret::Secret;
use crate::settings::written::{Written, int};

pub(super) const ROWS: &[SettingRow] = &[
    flag("tls-bind", ADDRESS, "none")
        .builder("ServerBuilder::bind_tls")
        .repeats()
        .help("Address to listen on for TLS alone. Can be repeated")
        .sets(|to, value| value.bind().map(|bind| to.tls.binds.push(bind))),
    key("secureClientPort", "PORT", "none")
        .builder("ServerBuilder::bind_tls")
        .help("Port to listen on for TLS alone, in place of --tls-bind")
        .sets(|to, value| put(&mut to.tls.port, value.port().map(Some))),
    key("secureClientPortAddress", "ADDRESS", "all")
        .builder("ServerBuilder::bind_tls")
        .help("Address to listen on for TLS alone; needs secureClientPort")
        .sets(|to, value| put(&mut to.tls.address, value.address().map(Some))),
    key("client.portUnification", BOOL, "false")
        .builder("ServerBuilder::unified_ports")
        .help("Take TLS at the other ports as well, told apart by the first bytes")
        .sets(|to, value| put(&mut to.tls.unified, value.boolean())),
    flag("tls-cert", FILE, "none")
        .builder("ServerTls::new")
        .key("ssl.keyStore.location")
        .help("Certificate chain of the server and its private key: PEM, PKCS12 or JKS. A changed file is used by new connections")
        .sets(|to, value| {
            to.tls.by_flag |= matches!(value, Written::Flag(_));
            to.tls.key_store.set_file(value)
        }),
    flag("tls-key", FILE, "in the file of the certificate")
        .builder("Store::key_file")
        .help("Private key of the server, in PEM, if it is in a file of its own")
        .sets(|to, value| put(&mut to.tls.key_store.key, value.file().map(Some))),
    key("ssl.keyStore.password", "TEXT", "none")
        .builder("Store::password")
        .secret()
        .help("Password of the key store and of the key in it")
        .sets(|to, value| put(&mut to.tls.key_store.password, Ok(password(value)))),
    flag("tls-password-file", FILE, "none")
        .builder("Store::password_file")
        .key("ssl.keyStore.passwordPath")
        .help("File with the password of the certificate's store and of the key in it, if they have one")
        .sets(|to, value| put(&mut to.tls.key_store.password_file, value.file().map(Some))),
    key("ssl.keyStore.type", "TYPE", "by the content")
        .builder("Store::kind")
        .help("Format of the key store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.tls.key_store.kind, parsed(value).map(Some))),
    flag("tls-client-ca", FILE, "none")
        .builder("ServerTls::trust_store")
        .key("ssl.trustStore.location")
        .help("Certificates of the authorities of clients. With the flag, clients need a certificate, whatever ssl.clientAuth says")
        .sets(|to, value| {
            if matches!(value, Written::Flag(_)) {
                (to.tls.by_flag, to.tls.client_auth) = (true, Some(ClientAuth::Need));
            }
            to.tls.trust_store.set_file(value)
        }),
    key("ssl.trustStore.password", "TEXT", "none")
        .builder("Store::password")
        .secret()
        .help("Password of the trust store")
        .sets(|to, value| put(&mut to.tls.trust_store.password, Ok(password(value)))),
    key("ssl.trustStore.passwordPath", FILE, "none")
        .builder("Store::password_file")
        .help("File with that password; takes precedence over it")
        .sets(|to, value| put(&mut to.tls.trust_store.password_file, value.file().map(Some))),
    key("ssl.trustStore.type", "TYPE", "by the content")
        .builder("Store::kind")
        .help("Format of the trust store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.tls.trust_store.kind, parsed(value).map(Some))),
    key("ssl.clientAuth", "need|want|none", "need")
        .builder("ServerTls::client_auth")
        .help("Whether clients need a certificate. With --tls-cert, the default is none if no authorities of clients are named")
        .sets(|to, value| put(&mut to.tls.client_auth, parsed(value).map(Some))),
    key("ssl.enabledProtocols", "NAMES", "that of ssl.protocol")
        .builder("ServerTls::protocols")
        .help("Versions of TLS: TLSv1.2, TLSv1.3")
        .sets(|to, value| put(&mut to.tls.protocols, parsed(value).map(Some))),
    key("ssl.protocol", "NAME", "TLSv1.3")
        .builder("ServerTls::protocols")
        .help("Version of TLS, if ssl.enabledProtocols names none")
        .sets(|to, value| put(&mut to.tls.protocol, parsed(value).map(Some))),
    key("ssl.ciphersuites", "NAMES", "AES-GCM and ChaCha20-Poly1305 with ECDHE")
        .builder("ServerTls::cipher_suites")
        .help("Cipher suites, the preferred ones first, by the names of the IANA")
        .sets(|to, value| put(&mut to.tls.suites, parsed(value).map(Some))),
    key("ssl.hostnameVerification", BOOL, "true")
        .builder("ServerTls::verify_client_address")
        .help("With false, ssl.clientHostnameVerification has no effect")
        .sets(|to, value| put(&mut to.tls.verify_names, value.boolean().map(Some))),
    key("ssl.clientHostnameVerification", BOOL, "false")
        .builder("ServerTls::verify_client_address")
        .help("Refuse a client whose certificate does not name its address")
        .sets(|to, value| put(&mut to.tls.verify_client_names, value.boolean())),
    flag("tls-crl", FILE, "none")
        .builder("ServerTls::revocation_lists")
        .repeats()
        .help("List of revoked certificates, in PEM or DER; then each authority of a client needs one. Can be repeated")
        .sets(|to, value| value.file().map(|file| to.tls.crl_files.push(file))),
    key("ssl.crl", BOOL, "false")
        .help("Refuse revoked certificates; needs --tls-crl, as nothing is fetched")
        .sets(|to, value| put(&mut to.tls.crl, value.boolean())),
    key("netty.server.outstandingHandshake.limit", COUNT, "1000")
        .builder("ServerBuilder::max_tls_handshakes")
        .help("Handshakes of TLS under way at a time; 0 or less is the default")
        .sets(|to, value| put(&mut to.tls.max_handshakes, value.positive(int, "a number of handshakes"))),
];

/// An empty password is none, as in Apache.
pub(super) fn password(value: Written<'_>) -> Option<Secret> {
    Some(value.text()).filter(|text| !text.is_empty()).map(|text| Secret(text.to_owned()))
}

pub(super) fn parsed<T: FromStr<Err: Display>>(value: Written<'_>) -> Result<T, String> {
    value.text().parse().map_err(|error: T::Err| error.to_string())
}
