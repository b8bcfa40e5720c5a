//! DIGEST-MD5 (RFC 2831) as ZooKeeper uses it, for both sides: one mechanism, one realm, no protection of later messages.
//!
//! 1. The client sends an empty token, the server its [`challenge`].
//! 2. The client sends what [`respond`] makes of it; the server [judges](judge) that.
//! 3. The server proves by [`AuthenticatedUser::rspauth`] that it knows the password too, which the client
//!    [checks](DigestResponse::is_confirmed_by).
//!
//! A token never contains the password, but whoever reads the exchange can try passwords against it at the speed of MD5.
//!
//! ```
//! use zoolet_proto::digest_md5::{UserKey, challenge, judge, respond};
//!
//! let nonce = "nonce+of+this+connection";
//! let response = respond(challenge(nonce).as_bytes(), "bob", "bobsecret", "cnonce").unwrap();
//! let key = UserKey::new("bob", "bobsecret");
//! let user = judge(nonce, response.token(), |name| (name == "bob").then(|| key.clone())).unwrap();
//! assert_eq!(user.name, "bob");
//! assert!(response.is_confirmed_by(user.rspauth.as_bytes()));
//! ```

mod client;
mod directives;
mod server;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest, Md5};

pub use client::{DigestResponse, respond};
pub use server::{AuthenticatedUser, challenge, judge};

/// The realm of every ZooKeeper server (`SecurityUtils`).
pub const REALM: &str = "zk-sasl-md5";
/// The longest token that a server reads, in bytes (RFC 2831, 2.1.2).
pub const MAX_TOKEN: usize = 4096;

/// The URI that clients name: the service, and in place of a host the realm.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// A nonce serves one response only.
const NONCE_COUNT: &str = "00000001";

/// What a server keeps of a password: `MD5(user:realm:password)`. It serves in place of the password, so it is a secret too.
#[derive(Clone, PartialEq, Eq)]
pub struct UserKey([u8; 16]);

impl UserKey {
    /// The key of a user in the realm of ZooKeeper.
    pub fn new(user: &str, password: &str) -> Self {
        Self::in_realm(user, REALM.as_bytes(), password)
    }

    fn in_realm(user: &str, realm: &[u8], password: &str) -> Self {
        let (user, password) = (hashed_form(user), hashed_form(password));
        Self(md5([&user, b":", realm, b":", &password]))
    }
}

// Hand-written, to keep it out of logs.
impl fmt::Debug for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserKey(not shown)")
    }
}

/// A nonce, or a cnonce, of this many random bytes, in the form in which servers and Java clients write it.
pub fn nonce(random: [u8; 30]) -> String {
    BASE64.encode(random)
}

/// Why a token is refused. The text names no secret, and nothing that the peer sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestMd5Error {
    /// It is not a list of directives.
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    /// A directive is absent.
    #[error("the token has no {0}")]
    Missing(&'static str),
    /// A directive has a value that does not fit.
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    /// The user is unknown, or the password is another one.
    #[error("unknown user or wrong password")]
    WrongPassword,
}

/// What a response and its confirmation are computed from.
struct Computation<'a> {
    key: &'a UserKey,
    nonce: &'a [u8],
    cnonce: &'a [u8],
    authzid: Option<&'a [u8]>,
    digest_uri: &'a [u8],
}

impl Computation<'_> {
    /// What the client sends.
    fn response(&self) -> String {
        self.hash(b"AUTHENTICATE:")
    }

    /// What the server sends.
    fn rspauth(&self) -> String {
        self.hash(b":")
    }

    fn hash(&self, method: &[u8]) -> String {
        let authzid: [&[u8]; 2] = self.authzid.map_or([b"", b""], |authzid| [b":", authzid]);
        let a1 = md5([&self.key.0, b":", self.nonce, b":", self.cnonce, authzid[0], authzid[1]]);
        let a2 = md5([method, self.digest_uri]);
        let [a1, a2] = [hex(a1), hex(a2)];
        let nc = NONCE_COUNT.as_bytes();
        hex(md5([a1.as_bytes(), b":", self.nonce, b":", nc, b":", self.cnonce, b":auth:", a2.as_bytes()]))
    }
}

/// A name or password as it is hashed: in ISO 8859-1 if all of it fits, else in UTF-8, whatever the charset of the token.
fn hashed_form(text: &str) -> Vec<u8> {
    let latin = text.chars().map(|c| u8::try_from(u32::from(c)).ok());
    latin.collect::<Option<_>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

fn md5<const N: usize>(parts: [&[u8]; N]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
