//! Stores of keys and certificates, of any format: they are used or refused, and a certificate has a subject or not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sha1::{Digest, Sha1};
use zoolet_tls::{ClientAuth, ServerTls, Store, TlsSettings, subject};

const PASSWORD: &str = "changeit";

fuzz_target!(|data: &[u8]| {
    let _ = subject(data);
    let mut bytes = data.to_vec();
    if bytes.starts_with(&[0xfe, 0xed, 0xfe, 0xed]) {
        // No mutation would find the digest that a JKS store ends with.
        let password: Vec<u8> = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let digest = Sha1::new_with_prefix(password).chain_update(b"Mighty Aphrodite").chain_update(data);
        bytes.extend_from_slice(&digest.finalize());
    }
    let store = Store::bytes(bytes).password(PASSWORD);
    let error = ServerTls::new(store.clone()).client_auth(ClientAuth::None).load().err();
    let trusting =
        ServerTls::new(Store::pem(include_str!("../../tls/tests/stores/pkcs8.pem"))).trust_store(store);
    for error in error.into_iter().chain(trusting.load().err()) {
        let line = error.to_string();
        assert!(!line.contains('\n') && !line.contains(PASSWORD), "{line}");
    }
});
