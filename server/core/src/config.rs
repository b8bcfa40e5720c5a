//! The settings of the core.

use std::fmt;

/// The settings of a [`Core`](crate::Core). Times are in milliseconds, as they are in the protocol.
#[derive(Clone)]
#[non_exhaustive]
pub struct CoreConfig {
    /// The unit in which sessions expire; also the default bounds of session timeouts are multiples of it. At least 1.
    pub tick_time: i32,
    /// The shortest session timeout granted; twice the tick if `None`.
    pub min_session_timeout: Option<i32>,
    /// The longest session timeout granted; twenty times the tick if `None`.
    pub max_session_timeout: Option<i32>,
    /// After how long a connection without a session is closed: between this and twice this.
    pub sessionless_timeout: i64,
    /// Whether znodes with a time to live may be created (`extendedTypesEnabled`).
    pub extended_types: bool,
    /// How often empty containers and expired TTL znodes are looked for.
    pub container_check_interval: i64,
    /// How many of them may be deleted in a minute. At least 1.
    pub container_max_per_minute: i64,
    /// The age at which a container that never had a child may go; `None` for never.
    pub container_max_never_used: Option<i64>,
    /// The digest `user:base64(sha1(user:password))` whose owner may do everything.
    pub super_digest: Option<String>,
    /// Whether hard quotas refuse writes.
    pub enforce_quota: bool,
    /// Whether ACLs are not looked at.
    pub skip_acl: bool,
    /// Whether reconfig is enabled, which only changes how it is refused.
    pub reconfig_enabled: bool,
    /// How many sessions may live; connections past it are closed. `None` for any number.
    pub max_sessions: Option<usize>,
    /// How many paths may be watched by one connection; a request past it is refused with −127, throttled.
    /// `None` for any number.
    pub max_watches_per_connection: Option<usize>,
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
            enforce_quota: false,
            skip_acl: false,
            reconfig_enabled: false,
            max_sessions: None,
            max_watches_per_connection: None,
        }
    }
}

impl CoreConfig {
    /// The shortest session timeout granted, in milliseconds.
    pub fn min_timeout(&self) -> i32 {
        self.min_session_timeout.unwrap_or(self.tick_time.saturating_mul(2))
    }

    /// The longest session timeout granted, in milliseconds.
    pub fn max_timeout(&self) -> i32 {
        self.max_session_timeout.unwrap_or(self.tick_time.saturating_mul(20))
    }

    /// The session timeout that is granted for the one that is requested, in milliseconds.
    pub fn negotiate(&self, asked: i32) -> i32 {
        // Not `clamp`, which panics where a caller set the bounds the wrong way round.
        asked.max(self.min_timeout()).min(self.max_timeout())
    }
}

// The super digest is a secret, so `Debug` is written by hand.
impl fmt::Debug for CoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreConfig")
            .field("tick_time", &self.tick_time)
            .field("min_timeout", &self.min_timeout())
            .field("max_timeout", &self.max_timeout())
            .field("extended_types", &self.extended_types)
            .field("enforce_quota", &self.enforce_quota)
            .field("skip_acl", &self.skip_acl)
            .finish_non_exhaustive()
    }
}
