//! The settings of a server, and their builder.

use std::path::PathBuf;
use std::time::Duration;

use zoolet_clock::Clock;
use zoolet_proto::FourLetterWord;
use zoolet_proto::frame::DEFAULT_MAX_FRAME;
use zoolet_server_core::{Core, CoreConfig};
use zoolet_storage::StorageOptions;
#[cfg(feature = "tls")]
use zoolet_tls::ServerTls;

use crate::audit;
use crate::durable::DurableConfig;
use crate::engine::MakeMachine;
use crate::net::flow::limits::{OUTBOX_BYTES, OUTBOX_FRAMES};

/// Settings of a [`Server`](crate::Server), each with the default of Apache ZooKeeper 3.9 unless its documentation says otherwise.
///
/// Setters take and return the builder; [`ServerBuilder::start`] checks everything and starts.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), zoolet_server::StartError> {
/// let server = zoolet_server::Server::builder()
///     .bind("127.0.0.1:2181")
///     .tick_time(Duration::from_secs(2))
///     .max_sessions(1_000)
///     .start()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ServerBuilder {
    pub(crate) core: CoreConfig,
    pub(crate) net: NetConfig,
    pub(crate) binds: Vec<String>,
    pub(crate) clock: Option<Clock>,
    pub(crate) make_machine: MakeMachine,
    pub(crate) replicas: usize,
    /// Whether session passwords are unguessable, if it was set.
    pub(crate) unguessable: Option<bool>,
    /// Whether scheme `x509` is known, if that was set.
    pub(crate) x509: Option<bool>,
    /// Whether ACLs know scheme `sasl`, if it was set.
    pub(crate) sasl_scheme: Option<bool>,
    /// Where the state is kept; in memory if `None`.
    pub(crate) durable: Option<DurableConfig>,
    /// Whether the server gets a thread and a runtime of its own.
    pub(crate) own_thread: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: TlsConfig,
}

/// Settings of TLS.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsConfig {
    pub(crate) settings: Option<ServerTls>,
    pub(crate) binds: Vec<String>,
    /// Whether the ports of `bind` take TLS as well.
    pub(crate) unified: bool,
    pub(crate) max_handshakes: Option<usize>,
}

/// Settings of the network.
#[derive(Debug, Clone)]
pub(crate) struct NetConfig {
    pub(crate) max_frame: usize,
    pub(crate) max_per_ip: usize,
    pub(crate) max_connections: usize,
    pub(crate) backlog: u32,
    /// If it was set.
    pub(crate) outbox_limit: Option<usize>,
    /// The four-letter words that are answered besides `srvr`.
    pub(crate) words: Vec<FourLetterWord>,
}

impl NetConfig {
    /// How many bytes may be queued for a client.
    pub(crate) fn outbox_limit(&self) -> usize {
        self.outbox_limit.unwrap_or_else(|| self.max_frame.saturating_mul(OUTBOX_FRAMES).max(OUTBOX_BYTES))
    }
}

impl Default for ServerBuilder {
    fn default() -> Self {
        let net = NetConfig {
            max_frame: DEFAULT_MAX_FRAME,
            max_per_ip: 0,
            max_connections: 0,
            backlog: 1024,
            outbox_limit: None,
            words: Vec::new(),
        };
        Self {
            core: CoreConfig::default(),
            net,
            binds: Vec::new(),
            clock: None,
            make_machine: |config, _, now| Box::new(Core::new(config, now)),
            replicas: 1,
            unguessable: None,
            x509: None,
            sasl_scheme: None,
            durable: None,
            own_thread: false,
            #[cfg(feature = "tls")]
            tls: TlsConfig::default(),
        }
    }
}

impl ServerBuilder {
    /// Listens on `addr`, such as `127.0.0.1:2181`; port 0 takes a free one. May be called for several addresses.
    /// A name stands for the first of its addresses that this machine has, IPv4 first; `[::]` is all of IPv4 and IPv6.
    /// Without a `bind` there is no socket, and clients connect by [`Server::in_process`](crate::Server::in_process) or
    /// [`Server::serve_stream`](crate::Server::serve_stream).
    pub fn bind(mut self, addr: impl Into<String>) -> Self {
        self.binds.push(addr.into());
        self
    }

    /// The certificate, the authorities and the rest of TLS, for the ports of [`bind_tls`](ServerBuilder::bind_tls) and
    /// [`unified_ports`](ServerBuilder::unified_ports). The files are read when the server starts, and again when they change: new
    /// connections use what is there, and those that exist stay. If it cannot be used then, they use what was there before, and
    /// a line of the log says why.
    ///
    /// A client with a certificate has its subject as an id of the scheme `x509`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.x509.get_or_insert(true);
        self.tls.settings = Some(tls);
        self
    }

    /// Listens on `addr`, as [`bind`](ServerBuilder::bind), for connections by TLS alone (`secureClientPort`).
    #[cfg(feature = "tls")]
    pub fn bind_tls(mut self, addr: impl Into<String>) -> Self {
        self.tls.binds.push(addr.into());
        self
    }

    /// Whether the ports of [`bind`](ServerBuilder::bind) take connections by TLS as well, told apart by their first bytes. Default:
    /// no (`client.portUnification`).
    #[cfg(feature = "tls")]
    pub fn unified_ports(mut self, unified: bool) -> Self {
        self.tls.unified = unified;
        self
    }

    /// How many TLS handshakes may be under way at a time. If there are as many, a new connection takes the place of one that waits
    /// for its peer and has done so for a second in all, or is closed at once. On a unified port, this counts connections that have sent
    /// nothing as well. Default: 1,000; Apache has no bound (`netty.server.outstandingHandshake.limit`) and always closes the new one.
    #[cfg(feature = "tls")]
    pub fn max_tls_handshakes(mut self, max: usize) -> Self {
        self.tls.max_handshakes = Some(max);
        self
    }

    /// Keeps the state in this directory, in Apache ZooKeeper's own format. What is acknowledged is on disk, and survives the
    /// end of the process and a power loss; a later server on the directory goes on where this one has stopped, with all
    /// sessions. Without it the state is in memory. Default settings; [`storage`](ServerBuilder::storage) takes others.
    ///
    /// The directory is created if it does not exist. One server at a time can use it: a start waits for one that was dropped and still
    /// closes its files, for twice [`slow_sync`](StorageOptions::slow_sync) at most.
    pub fn data_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.storage(StorageOptions::new(dir))
    }

    /// As [`data_dir`](ServerBuilder::data_dir), with settings.
    pub fn storage(mut self, options: StorageOptions) -> Self {
        self.durable = Some(DurableConfig::new(options));
        self
    }

    /// Runs the server on a thread of its own, with a tokio runtime of its own, instead of in the runtime of the caller: code that
    /// blocks the caller's threads holds up no client, and a runtime that ends takes no server along. So a server in a `static` can
    /// be shared by tests that have a runtime each. In-process clients live in the runtime in which they connect, as ever.
    ///
    /// The thread ends with the server: [`Server::shutdown`](crate::Server::shutdown) waits for it. If no clock is
    /// [set](ServerBuilder::clock), the server's is not that of a paused tokio runtime of the caller. A socket that is handed to
    /// [`Server::serve_stream`](crate::Server::serve_stream) is still polled by the runtime in which it was made. Default: no thread is
    /// started.
    pub fn on_own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// The settings of the data directory, if there is one.
    pub fn storage_options(&self) -> Option<&StorageOptions> {
        self.durable.as_ref().map(|durable| &durable.options)
    }

    /// The clock of everything that depends on time: sessions, TTL znodes, containers, connections without a session, and
    /// the times of znodes. Only the timeouts of a closing socket and of a TLS handshake, and the millisecond for which a client that
    /// is far ahead of the log is not read, are on tokio's clock. Default: [`Clock::tokio`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The unit of time: sessions expire at multiples of it, and session timeouts are bounded by 2 and 20 of it.
    /// Whole milliseconds. Default: 3 s (`tickTime`).
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.core.tick_time = millis_i32(tick);
        self
    }

    /// The shortest session timeout granted. Default: 2 ticks (`minSessionTimeout`).
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.core.min_session_timeout = Some(millis_i32(timeout));
        self
    }

    /// The longest session timeout granted. Default: 20 ticks (`maxSessionTimeout`).
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.core.max_session_timeout = Some(millis_i32(timeout));
        self
    }

    /// How many TCP connections one address may have; one more is closed at once. 0 for any number, which is the
    /// default here, while Apache's is 60 when it is started with a configuration file (`maxClientCnxns`).
    pub fn max_connections_per_ip(mut self, max: usize) -> Self {
        self.net.max_per_ip = max;
        self
    }

    /// How many TCP connections there may be in all; one more is closed at once. Default: 0, for any number
    /// (`maxCnxns`).
    pub fn max_connections(mut self, max: usize) -> Self {
        self.net.max_connections = max;
        self
    }

    /// How many sessions there may be; a handshake past it is closed without an answer. Default: any number.
    pub fn max_sessions(mut self, max: usize) -> Self {
        self.core.max_sessions = Some(max);
        self
    }

    /// How many paths one connection may watch; a request past it is refused as throttled. Default: any number.
    pub fn max_watches_per_connection(mut self, max: usize) -> Self {
        self.core.max_watches_per_connection = Some(max);
        self
    }

    /// The longest frame that is accepted from a client, in bytes; a longer one closes its connection. Replies are not limited.
    /// The access control lists that one request stores are bounded by 64 bytes less, after `auth` entries are replaced, and with a
    /// data directory by half of that, where each znode of a multi counts. So a transaction is never longer than twice this number,
    /// which is what Apache reads from a log with the same setting. Default: 1,048,575 (`jute.maxbuffer`).
    pub fn max_frame(mut self, bytes: usize) -> Self {
        self.net.max_frame = bytes;
        self.core.max_acl_bytes = bytes.saturating_sub(64);
        self
    }

    /// How many bytes may be queued for a client that does not read; past it the connection is closed. The server does not
    /// read from a client for which 256 KiB are queued, or less if there are many connections, and a turn ends when its
    /// replies have 256 KiB. So with a limit of 512 KiB and its longest reply a client is only closed for watch events that it
    /// does not read. Default: 64 MiB, or 64 times `max_frame` if that is more; Apache has no such bound.
    pub fn outbox_limit(mut self, bytes: usize) -> Self {
        self.net.outbox_limit = Some(bytes);
        self
    }

    /// How many connections may wait to be accepted. Default: 1024 (`clientPortListenBacklog`, there 50).
    pub fn listen_backlog(mut self, connections: u32) -> Self {
        self.net.backlog = connections;
        self
    }

    /// A connection without a session is closed after this time, at the latest after twice this time.
    /// Default: 10 s (`nio.sessionlessCnxnTimeout`).
    pub fn sessionless_timeout(mut self, timeout: Duration) -> Self {
        self.core.sessionless_timeout = millis(timeout);
        self
    }

    /// The four-letter words to answer besides `srvr`. Default: none (`4lw.commands.whitelist`).
    pub fn four_letter_words(mut self, words: impl IntoIterator<Item = FourLetterWord>) -> Self {
        self.net.words = words.into_iter().collect();
        self
    }

    /// Answers every four-letter word.
    pub fn all_four_letter_words(mut self) -> Self {
        self.net.words = FourLetterWord::ALL.to_vec();
        self
    }

    /// Whether znodes with a time to live may be created. Default: no (`extendedTypesEnabled`).
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.core.extended_types = enabled;
        self
    }

    /// How often the server looks for empty containers and expired TTL znodes. Default: 60 s
    /// (`znode.container.checkIntervalMs`).
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.core.container_check_interval = millis(interval);
        self
    }

    /// How many containers and TTL znodes may be deleted in a minute. Default: 10,000
    /// (`znode.container.maxPerMinute`).
    pub fn container_max_per_minute(mut self, max: u32) -> Self {
        self.core.container_max_per_minute = i64::from(max);
        self
    }

    /// The age at which a container that never had a child may be deleted. Default: never; zero means never too
    /// (`znode.container.maxNeverUsedIntervalMs`).
    pub fn container_max_never_used(mut self, age: Duration) -> Self {
        self.core.container_max_never_used = Some(millis(age)).filter(|age| *age > 0);
        self
    }

    /// The digest `user:base64(sha1(user:password))` of the superuser, as [`digest_id`](zoolet_proto::digest_id) makes it of
    /// `user:password`. Default: none (`DigestAuthenticationProvider.superDigest`).
    pub fn super_digest(mut self, digest: impl Into<String>) -> Self {
        self.core.super_digest = Some(digest.into());
        self
    }

    /// Whether hard quotas refuse writes. Default: no (`enforceQuota`).
    ///
    /// A quota on `/q` is two znodes, as in Apache: `/zookeeper/quota/q/zookeeper_limits` with a text such as
    /// `count=-1,bytes=-1=;byteHardLimit=1000;countHardLimit=3`, and beside it `zookeeper_stats` with `count=0,bytes=0`, without
    /// which nothing is counted and nothing refused. `zkCli.sh setquota` writes both.
    pub fn enforce_quota(mut self, enforce: bool) -> Self {
        self.core.enforce_quota = enforce;
        self
    }

    /// Whether the server logs who changes what, and who is refused to (`audit.enable`). Default: no.
    ///
    /// Each change is an event of `tracing` with the target `audit`, at the level INFO, or ERROR if it was refused. Its fields are
    /// those of Apache ZooKeeper: `session`, `user`, `ip`, `operation`, `znode`, `znode_type`, `acl` and `result`, of which those that
    /// do not apply are absent. Reads and sessions are not logged. An event comes when the change is decided, before it is durable.
    pub fn audit(mut self, enabled: bool) -> Self {
        self.core.audit = enabled.then(audit::own_user);
        self
    }

    /// Disables ACL checks. Default: no (`skipACL`).
    pub fn skip_acl(mut self, skip: bool) -> Self {
        self.core.skip_acl = skip;
        self
    }

    /// Whether session passwords are made from a secret that the server draws at its start. Otherwise a password follows from
    /// the session id, as on Apache ZooKeeper: a client that reads the `ephemeralOwner` of a znode can resume the session of its
    /// owner and end it.
    ///
    /// Default: yes, unless the clock is manual or has a given start, so that such runs repeat byte for byte, or there is a
    /// data directory: another server that takes it over must accept the same passwords.
    pub fn unguessable_session_passwords(mut self, unguessable: bool) -> Self {
        self.unguessable = Some(unguessable);
        self
    }

    /// Whether reconfig is enabled. It fails on a standalone server either way; this only changes the error.
    /// Default: no (`reconfigEnabled`).
    pub fn reconfig_enabled(mut self, enabled: bool) -> Self {
        self.core.reconfig_enabled = enabled;
        self
    }

    /// Whether `addr` is an address and a port, as [`bind`](ServerBuilder::bind) needs them. Nothing is resolved.
    pub fn is_address(addr: &str) -> bool {
        let parts = addr.rsplit_once(':');
        parts.is_some_and(|(address, port)| !address.is_empty() && port.parse::<u16>().is_ok())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn millis_i32(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
