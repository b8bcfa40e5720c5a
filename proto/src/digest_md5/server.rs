//! The side that asks: its challenge, and its judgement of the response.

use subtle::ConstantTimeEq;

use super::directives::Directives;
use super::{Computation, DIGEST_URI, DigestMd5Error, MAX_TOKEN, REALM, UserKey};

/// The directives that a server knows. Others may have any value, and come twice.
const DIRECTIVES: [&str; 13] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "digest-uri",
    "response",
    // The JDK looks for this name. So it takes any `nc`, but computes the response with 1.
    "nonce-count",
    "qop",
    "charset",
    "maxbuf",
    "authzid",
    "cipher",
    "auth-param",
];

/// The user whom a response proves, and the proof in return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedUser {
    /// The name that has authenticated. What the client asks to act as (`authzid`) is ignored.
    pub name: String,
    /// The last token, which shows the client that the server knows the password.
    pub rspauth: String,
}

/// The first token of a server, byte for byte as a real one writes it: some clients read nothing else.
pub fn challenge(nonce: &str) -> String {
    format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess")
}

/// Judges the response to the challenge with this nonce, given the keys of the users.
///
/// # Errors
/// Any, and then the token proves nothing (`DigestMD5Server.validateClientResponse`).
pub fn judge(
    nonce: &str,
    token: &[u8],
    key_of: impl FnOnce(&str) -> Option<UserKey>,
) -> Result<AuthenticatedUser, DigestMd5Error> {
    use DigestMd5Error::{Malformed, Unexpected, WrongPassword};
    if token.len() > MAX_TOKEN {
        return Err(Malformed("it is too long"));
    }
    let given = Directives::parse(token, &DIRECTIVES)?;
    let is_number = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.parse::<i32>().is_ok());
    let is_one =
        |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| i32::from_str_radix(text, 16) == Ok(1));
    for (name, is_expected) in [
        ("charset", (|value| value == b"utf-8") as fn(&[u8]) -> bool),
        ("maxbuf", is_number),
        ("nonce-count", is_one),
        ("qop", |value| value == b"auth"),
    ] {
        if !given.get(name).is_none_or(is_expected) {
            return Err(Unexpected(name));
        }
    }
    let username = given.required("username")?;
    for (name, expected) in [("realm", REALM), ("nonce", nonce)] {
        if given.required(name)? != expected.as_bytes() {
            return Err(Unexpected(name));
        }
    }
    let (cnonce, digest_uri) = (given.required("cnonce")?, given.required("digest-uri")?);
    let response = given.required("response")?;
    if !digest_uri.eq_ignore_ascii_case(DIGEST_URI.as_bytes()) {
        return Err(Unexpected("digest-uri"));
    }
    // Also without a charset, as in Java.
    let name = std::str::from_utf8(username).map_err(|_| Unexpected("username"))?;
    // An unknown user takes as long as a wrong password.
    let key = key_of(name);
    let known = key.is_some();
    let computed = Computation {
        key: &key.unwrap_or(UserKey([0; 16])),
        nonce: nonce.as_bytes(),
        cnonce,
        authzid: given.get("authzid"),
        // In the client's spelling.
        digest_uri,
    };
    let is_right: bool = computed.response().as_bytes().ct_eq(response).into();
    if !(known && is_right) {
        return Err(WrongPassword);
    }
    Ok(AuthenticatedUser { name: name.to_owned(), rspauth: format!("rspauth={}", computed.rspauth()) })
}
