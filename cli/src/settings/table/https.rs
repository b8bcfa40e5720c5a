//! HTTPS of the admin server, by the keys that Apache ZooKeeper has for it: its stores are those of the quorum.

use super::tls::{parsed, password};
use super::{BOOL, FILE, SettingRow, key};
use crate::settings::put;

pub(super) const ROWS: &[SettingRow] = &[
    key("admin.forceHttps", BOOL, "false")
        .builder("AdminServerBuilder::https")
        .help("Serve the admin server by HTTPS alone; needs ssl.quorum.keyStore.location")
        .sets(|to, value| put(&mut to.http.https.forced, value.boolean())),
    key("admin.portUnification", BOOL, "false")
        .builder("AdminServerBuilder::http_and_https")
        .help("Serve HTTPS at its port as well")
        .sets(|to, value| put(&mut to.http.https.unified, value.boolean())),
    key("admin.needClientAuth", BOOL, "false")
        .builder("ServerTls::client_auth")
        .help("With HTTPS, ask clients for a certificate")
        .sets(|to, value| put(&mut to.http.https.need_client_auth, value.boolean())),
    key("ssl.quorum.keyStore.location", FILE, "none")
        .builder("ServerTls::new")
        .help("Certificate chain and private key of HTTPS, as ssl.keyStore.location")
        .sets(|to, value| put(&mut to.http.https.key_store.file, value.file().map(Some))),
    key("ssl.quorum.keyStore.password", "TEXT", "none")
        .builder("Store::password")
        .secret()
        .help("Password of that store and of the key in it")
        .sets(|to, value| put(&mut to.http.https.key_store.password, Ok(password(value)))),
    key("ssl.quorum.keyStore.passwordPath", FILE, "none")
        .builder("Store::password_file")
        .help("File with that password; takes precedence over it")
        .sets(|to, value| put(&mut to.http.https.key_store.password_file, value.file().map(Some))),
    key("ssl.quorum.keyStore.type", "TYPE", "by the content")
        .builder("Store::kind")
        .help("Format of that store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.http.https.key_store.kind, parsed(value).map(Some))),
    key("ssl.quorum.trustStore.location", FILE, "none")
        .builder("ServerTls::trust_store")
        .help("Certificates of the authorities of those who ask the admin server")
        .sets(|to, value| put(&mut to.http.https.trust_store.file, value.file().map(Some))),
    key("ssl.quorum.trustStore.password", "TEXT", "none")
        .builder("Store::password")
        .secret()
        .help("Password of that store")
        .sets(|to, value| put(&mut to.http.https.trust_store.password, Ok(password(value)))),
    key("ssl.quorum.trustStore.passwordPath", FILE, "none")
        .builder("Store::password_file")
        .help("File with that password; takes precedence over it")
        .sets(|to, value| put(&mut to.http.https.trust_store.password_file, value.file().map(Some))),
    key("ssl.quorum.trustStore.type", "TYPE", "by the content")
        .builder("Store::kind")
        .help("Format of that store: PEM, PKCS12 or JKS")
        .sets(|to, value| put(&mut to.http.https.trust_store.kind, parsed(value).map(Some))),
];
