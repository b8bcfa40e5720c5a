//! A JAAS file: it is read or refused with a line of it, and no error shows a part of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zoolet_server::SaslUsers;

/// What errors say of themselves; anything else in one would be from the file.
const SECRET: &str = "pa55word";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    read(text);
    // Within a section, where it is more than noise.
    read(&format!(
        "Server {{\na.DigestLoginModule required user_a=\"{SECRET}\" {text}\nuser_b=\"{SECRET}\";\n}};"
    ));
});

fn read(text: &str) {
    match SaslUsers::from_jaas(text, "Server") {
        Ok(None) => {}
        Ok(Some(users)) => assert!(users.names().all(|name| name.len() <= text.len())),
        Err(error) => {
            assert!((1..=text.matches('\n').count() + 1).contains(&error.line), "{error}");
            assert!(!error.to_string().contains(SECRET), "{error}");
        }
    }
}
