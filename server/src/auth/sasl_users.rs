//! The users of SASL.

use std::collections::HashMap;
use std::fmt;

use zoolet_proto::digest_md5::UserKey;

use super::jaas::{self, JaasError};

/// The user whose password [`SaslUsers::super_password`] replaces.
const SUPER: &str = "super";

/// Users and their passwords, for [`ServerBuilder::sasl`](crate::ServerBuilder::sasl). What is kept of a password is a hash, which serves
/// in its place on any ZooKeeper server.
///
/// ```
/// # use zoolet_server::{SaslUsers, Server};
/// let users = SaslUsers::new().user("alice", "secret").user("bob", "other secret");
/// let server = Server::builder().sasl(users).sasl_super_user("alice");
/// ```
#[derive(Clone, Default)]
pub struct SaslUsers {
    keys: HashMap<String, UserKey>,
}

impl SaslUsers {
    /// No users.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a user. A user of that name gets the new password.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl AsRef<str>) -> Self {
        self.set(name.into(), password.as_ref());
        self
    }

    /// The users of a section of a JAAS file, by the name that Apache looks for: `Server`, unless `sasl.serverconfig` says otherwise.
    /// They are the options `user_<name>="<password>"` of its modules. `None` if the file has no such section: Apache then runs
    /// without SASL.
    ///
    /// ```
    /// # use zoolet_server::SaslUsers;
    /// let text = r#"
    ///     Server {
    ///         org.apache.zookeeper.server.auth.DigestLoginModule required
    ///         user_alice="secret";
    ///     };
    /// "#;
    /// let users = SaslUsers::from_jaas(text, "Server")?.expect("a section Server");
    /// assert_eq!(users.names().collect::<Vec<_>>(), ["alice"]);
    /// # Ok::<(), zoolet_server::JaasError>(())
    /// ```
    ///
    /// # Errors
    /// Where the text is not what a JVM reads; for a module other than `DigestLoginModule`, such as that of Kerberos; and for a
    /// password with `${...}`, where a JVM puts one of its properties.
    pub fn from_jaas(text: &str, section: &str) -> Result<Option<Self>, JaasError> {
        jaas::users(text, section)
    }

    /// Replaces the password of the user `super`, if there is one (`SASLAuthenticationProvider.superPassword`).
    #[must_use]
    pub fn super_password(mut self, password: impl AsRef<str>) -> Self {
        if self.keys.contains_key(SUPER) {
            self.set(SUPER.to_owned(), password.as_ref());
        }
        self
    }

    /// The names, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    pub(super) fn set(&mut self, name: String, password: &str) {
        let key = UserKey::new(&name, password);
        self.keys.insert(name, key);
    }

    pub(super) fn into_keys(self) -> HashMap<String, UserKey> {
        self.keys
    }
}

// Hand-written, to keep names and passwords out of logs.
impl fmt::Debug for SaslUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslUsers").field("users", &self.keys.len()).finish_non_exhaustive()
    }
}
