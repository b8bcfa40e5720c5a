//! Tokens of SASL from a peer: a server grants only who knows the password, and a client believes only such a server.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zoolet_proto::digest_md5::{UserKey, challenge, judge, respond};

const NONCE: &str = "7ltqz44Y/VAjbFxQEG2mTBjDLkKfq4yI+QIYvQbc";
const PASSWORD: &str = "a long password that is in no seed";

fuzz_target!(|data: &[u8]| {
    // Nobody can guess it: a token from outside is never right.
    let key_of = |user: &str| Some(UserKey::new(user, PASSWORD));
    assert!(judge(NONCE, data, key_of).is_err());

    // As the challenge of another server.
    if let Ok(response) = respond(data, "bob", PASSWORD, "cnonce") {
        assert!(!response.is_confirmed_by(data));
        // A challenge that has it, by chance, may have it with backslashes.
        let has_password = |text: &[u8]| {
            let text: Vec<_> = text.iter().copied().filter(|byte| *byte != b'\\').collect();
            text.windows(PASSWORD.len()).any(|text| text == PASSWORD.as_bytes())
        };
        assert!(has_password(data) || !has_password(response.token()));
    }

    // As the name of a user, and as what confirms a response.
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(response) = respond(challenge(NONCE).as_bytes(), text, PASSWORD, "cnonce") else { return };
    assert!(!response.is_confirmed_by(data));
    let user = judge(NONCE, response.token(), key_of).expect("the right password");
    assert_eq!(user.name, text);
    assert!(response.is_confirmed_by(user.rspauth.as_bytes()));
});
