//! The side that is asked: its response, and its check of the confirmation.

use std::fmt;

use subtle::ConstantTimeEq;

use super::directives::{Directives, quoted};
use super::{Computation, DIGEST_URI, DigestMd5Error, MAX_TOKEN, NONCE_COUNT, UserKey};

/// The longest challenge that a client reads (RFC 2831, 2.1.1).
const MAX_CHALLENGE: usize = 2048;

/// A response to a challenge.
#[derive(Clone)]
pub struct DigestResponse {
    token: String,
    rspauth: String,
}

/// Responds to a challenge, in the words of a Java client. `cnonce` must be random, of characters of base64.
///
/// # Errors
/// If the challenge is not one that ZooKeeper servers send, or the name of the user does not fit into a token.
pub fn respond(
    challenge: &[u8],
    user: &str,
    password: &str,
    cnonce: &str,
) -> Result<DigestResponse, DigestMd5Error> {
    use DigestMd5Error::{Malformed, Unexpected};
    if challenge.len() > MAX_CHALLENGE {
        return Err(Malformed("it is too long"));
    }
    let asked = Directives::parse(challenge, &["realm", "nonce", "algorithm", "qop", "charset"])?;
    let readable = |name| std::str::from_utf8(asked.required(name)?).map_err(|_| Unexpected(name));
    let (realm, nonce) = (readable("realm")?, readable("nonce")?);
    if asked.required("algorithm")? != b"md5-sess" {
        return Err(Unexpected("algorithm"));
    }
    // Absent, it is `auth` alone.
    let offers_auth = |qop: &[u8]| qop.split(|byte| *byte == b',').any(|one| one.trim_ascii() == b"auth");
    if !asked.get("qop").is_none_or(offers_auth) {
        return Err(Unexpected("qop"));
    }
    let charset = match asked.get("charset") {
        Some(b"utf-8") => "charset=utf-8,",
        None if user.is_ascii() => "",
        _ => return Err(Unexpected("charset")),
    };
    let computed = Computation {
        key: &UserKey::in_realm(user, realm.as_bytes(), password),
        nonce: nonce.as_bytes(),
        cnonce: cnonce.as_bytes(),
        authzid: Some(user.as_bytes()),
        digest_uri: DIGEST_URI.as_bytes(),
    };
    let [name, realm, nonce, cnonce] = [user, realm, nonce, cnonce].map(quoted);
    let response = computed.response();
    let token = format!(
        "{charset}username={name},realm={realm},nonce={nonce},nc={NONCE_COUNT},cnonce={cnonce},\
         digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={response},qop=auth,authzid={name}"
    );
    if token.len() > MAX_TOKEN {
        return Err(Unexpected("length of the user name"));
    }
    Ok(DigestResponse { token, rspauth: computed.rspauth() })
}

impl DigestResponse {
    /// What to send.
    pub fn token(&self) -> &[u8] {
        self.token.as_bytes()
    }

    /// Whether this last token of the server proves that it knows the password.
    pub fn is_confirmed_by(&self, token: &[u8]) -> bool {
        let proof = if token.len() > MAX_TOKEN { None } else { Directives::parse(token, &["rspauth"]).ok() };
        let rspauth = proof.as_ref().and_then(|proof| proof.get("rspauth"));
        rspauth.is_some_and(|value| self.rspauth.as_bytes().ct_eq(value).into())
    }
}

// Hand-written, to keep out of logs what passwords can be tried against.
impl fmt::Debug for DigestResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestResponse").finish_non_exhaustive()
    }
}
