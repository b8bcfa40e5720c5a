//! How a server starts: its settings are checked, and it runs in this runtime or on a thread of its own.

use std::fmt::Display;

use zoolet_proto::is_digest_id;

use crate::config::ServerBuilder;
#[cfg(feature = "tls")]
use crate::config::TlsConfig;
use crate::error::{SettingError, StartError};
use crate::own_thread::OwnThread;
use crate::server::Server;
use crate::shared::Shared;

impl ServerBuilder {
    /// Checks the settings and starts the server in the current tokio runtime. Ports are bound last: when a client
    /// can connect, it is answered.
    ///
    /// # Errors
    /// [`StartError::Setting`] for an invalid value, [`StartError::Storage`] for a data directory that is damaged or in use,
    /// `StartError::Tls` for a file of TLS that is missing or broken, [`StartError::Bind`] for an address on which the server cannot
    /// listen. Nothing is left running then.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and in one without timers, or without I/O if there is a `bind`: see
    /// [`enable_all`](tokio::runtime::Builder::enable_all). A server [on its own thread](ServerBuilder::on_own_thread) needs no runtime
    /// of the caller: any executor can await this.
    pub async fn start(mut self) -> Result<Server, StartError> {
        self.core.auth.x509 = self.x509.unwrap_or(false);
        self.check()?;
        if self.own_thread {
            return OwnThread::start(self).await;
        }
        Ok(Server { shared: Shared::start(self).await?, thread: None })
    }

    fn check(&self) -> Result<(), SettingError> {
        const A_MILLISECOND: &str = "must be at least a millisecond";
        for bind in &self.binds {
            let hint = "must be an address and a port, such as 127.0.0.1:2181, or port 0 for any free one";
            ensure(Self::is_address(bind), "bind", bind.escape_debug(), hint)?;
        }
        #[cfg(feature = "tls")]
        self.tls.check(self.binds.is_empty())?;
        let Self { core, net, .. } = self;
        let (min, max) = (core.min_timeout(), core.max_timeout());
        ensure(core.tick_time >= 1, "tick_time", core.tick_time, A_MILLISECOND)?;
        ensure(min >= 1, "min_session_timeout", min, A_MILLISECOND)?;
        ensure(min <= max, "min_session_timeout", min, "must not be longer than max_session_timeout")?;
        let timeout = core.sessionless_timeout;
        ensure(timeout >= 1, "sessionless_timeout", timeout, A_MILLISECOND)?;
        let interval = core.container_check_interval;
        ensure(interval >= 1, "container_check_interval", interval, A_MILLISECOND)?;
        let rate = core.container_max_per_minute;
        ensure(rate >= 1, "container_max_per_minute", rate, "must be at least 1")?;
        let is_digest = core.super_digest.as_deref().is_none_or(is_digest_id);
        let hint = "must be user:base64(sha1(user:password)), 28 characters after the colon";
        ensure(is_digest, "super_digest", "(not shown)", hint)?;
        self.check_auth()?;
        // A connect request has 44 or 45 bytes.
        ensure(net.max_frame >= 64, "max_frame", net.max_frame, "must be at least 64 bytes")?;
        let secret = self.unguessable == Some(true) && self.durable.is_some();
        let hint = "must not be set with a data directory: a server that takes it over must accept the same passwords";
        ensure(!secret, "unguessable_session_passwords", true, hint)?;
        let alone = self.durable.is_none() || self.replicas == 1;
        ensure(alone, "data_dir", "set", "must not be set for an ensemble, which is in memory")?;
        let fits = self.durable.is_none() || net.max_frame <= 32 << 20;
        let hint = "must be at most 32 MiB with a data directory: an entry of the log may have twice that";
        ensure(fits, "max_frame", net.max_frame, hint)?;
        let limit = net.outbox_limit();
        let hint = "must be at least 1024 bytes, or every client is cut off";
        ensure(limit >= 1 << 10, "outbox_limit", limit, hint)
    }
}

#[cfg(feature = "tls")]
impl TlsConfig {
    fn check(&self, is_unbound: bool) -> Result<(), SettingError> {
        const NEEDS: &str = "needs a certificate and its key: set ServerBuilder::tls";
        for bind in &self.binds {
            let hint = "must be an address and a port, such as 127.0.0.1:2281, or port 0 for any free one";
            ensure(ServerBuilder::is_address(bind), "bind_tls", bind.escape_debug(), hint)?;
            ensure(self.settings.is_some(), "bind_tls", bind.escape_debug(), NEEDS)?;
        }
        ensure(!self.unified || self.settings.is_some(), "unified_ports", true, NEEDS)?;
        let is_used = self.settings.is_none() || !self.binds.is_empty() || (self.unified && !is_unbound);
        ensure(is_used, "tls", "set", "is used by no port: set bind_tls, or unified_ports with a bind")?;
        let max = self.max_handshakes.unwrap_or(1);
        ensure(max >= 1, "max_tls_handshakes", max, "must be at least 1, or nobody can connect by TLS")
    }
}

fn ensure(
    holds: bool,
    setting: &'static str,
    value: impl Display,
    hint: &'static str,
) -> Result<(), SettingError> {
    if holds { Ok(()) } else { Err(SettingError { setting, value: value.to_string(), hint }) }
}
