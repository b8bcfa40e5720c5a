//! The settings of the core.

use std::fmt;
use std::sync::Arc;

use zoolet_proto::Zxid;

use crate::auth_config::AuthConfig;
use crate::session::SessionSecret;

/// The settings of a [`Core`](crate::Core). Times are in milliseconds, as in the protocol.
///
/// Start from the defaults and assign what differs:
///
/// ```
/// let mut config = zoolet_server_core::CoreConfig::default();
/// config.extended_types = true;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct CoreConfig {
    /// The unit in which sessions expire, at least 1. The default bounds of session timeouts are multiples of it.
    pub tick_time: i32,
    /// The minimum session timeout; twice the tick if `None`.
    pub min_session_timeout: Option<i32>,
    /// The maximum session timeout; twenty times the tick if `None`.
    pub max_session_timeout: Option<i32>,
    /// A connection without a session is closed after between this time and twice this time.
    pub sessionless_timeout: i64,
    /// Whether znodes with a time to live may be created (`extendedTypesEnabled`).
    pub extended_types: bool,
    /// The interval of the search for empty containers and expired TTL znodes.
    pub container_check_interval: i64,
    /// How many of them may be deleted per minute. At least 1.
    pub container_max_per_minute: i64,
    /// The age at which a container that never had a child is deleted; `None` for never.
    pub container_max_never_used: Option<i64>,
    /// The digest `user:base64(sha1(user:password))` of the super user, whom no ACL restricts.
    pub super_digest: Option<String>,
    /// The other settings of authentication.
    pub auth: AuthConfig,
    /// Whether changes are logged as events of the target `audit`; the user that ephemerals are deleted by when a session ends.
    pub audit: Option<Arc<str>>,
    /// Whether hard quotas are enforced.
    pub enforce_quota: bool,
    /// Disables ACL checks.
    pub skip_acl: bool,
    /// Whether reconfig is enabled. This only changes the error that refuses it.
    pub reconfig_enabled: bool,
    /// The maximum number of sessions; connections for more are closed. `None` for no limit.
    pub max_sessions: Option<usize>,
    /// The maximum number of paths that a connection may watch; a request for more fails with −127, throttled.
    /// `None` for no limit.
    pub max_watches_per_connection: Option<usize>,
    /// What session passwords are made from; if `None`, the password follows from the session id, as on Apache ZooKeeper.
    pub session_secret: Option<SessionSecret>,
    /// The zxid of the empty tree; the first transaction takes the next one.
    pub initial_zxid: Zxid,
    /// How many session ids of the millisecond of the start are skipped, of 65,536: a server that started earlier in that
    /// millisecond may have given them.
    pub skipped_session_ids: u16,
    /// The maximum size in bytes of the access control lists that one request stores, after `auth` entries are replaced
    /// by the identities of the connection. A request for more fails with −114, invalid ACL. With the default,
    /// the frame and its lists have room in an entry of a log that every server reads, of 2,097,150 bytes.
    pub max_acl_bytes: usize,
    /// Whether transactions go to a log, which reports how far it is by
    /// [`set_durable`](crate::Core::set_durable). Then a reply to a read names not the newest zxid but one
    /// that is durable, unless what it shows has changed since; and a new tree keeps its digest, which transactions contain.
    pub logged: bool,
}

impl Default for CoreConfig {
    /// The defaults of Apache ZooKeeper 3.9.
    fn default() -> Self {
        Self {
            tick_time: 3000,
            min_session_timeout: None,
            max_session_timeout: None,
            sessionless_timeout: 10_000,
            extended_types: false,
            container_check_interval: 60_000,
            container_max_per_minute: 10_000,
            container_max_never_used: None,
            super_digest: None,
            auth: AuthConfig::default(),
            audit: None,
            enforce_quota: false,
            skip_acl: false,
            reconfig_enabled: false,
            max_sessions: None,
            max_watches_per_connection: None,
            session_secret: None,
            initial_zxid: Zxid(0),
            skipped_session_ids: 0,
            max_acl_bytes: 0xf_ffff - 64,
            logged: false,
        }
    }
}

impl CoreConfig {
    /// The minimum session timeout, in milliseconds.
    pub fn min_timeout(&self) -> i32 {
        self.min_session_timeout.unwrap_or(self.tick_time.saturating_mul(2))
    }

    /// The maximum session timeout, in milliseconds.
    pub fn max_timeout(&self) -> i32 {
        self.max_session_timeout.unwrap_or(self.tick_time.saturating_mul(20))
    }

    /// The session timeout granted for a requested one, in milliseconds.
    pub fn negotiate(&self, requested: i32) -> i32 {
        // Not `clamp`, which panics if the minimum is above the maximum.
        requested.max(self.min_timeout()).min(self.max_timeout())
    }
}

// Hand-written, to keep the super digest out of logs.
impl fmt::Debug for CoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreConfig")
            .field("tick_time", &self.tick_time)
            .field("min_timeout", &self.min_timeout())
            .field("max_timeout", &self.max_timeout())
            .field("extended_types", &self.extended_types)
            .field("auth", &self.auth)
            .field("audit", &self.audit.is_some())
            .field("enforce_quota", &self.enforce_quota)
            .field("skip_acl", &self.skip_acl)
            .finish_non_exhaustive()
    }
}
