//! The options of a session: set by value, checked when connecting.

mod connecting;

#[cfg(feature = "dns-srv")]
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_clock::Clock;
use zoolet_proto::frame::DEFAULT_MAX_FRAME;
use zoolet_proto::records::AuthPacket;
use zoolet_proto::{SessionId, Zxid};
#[cfg(feature = "tls")]
use zoolet_tls::ClientTls;

pub use self::connecting::Connecting;
use crate::features::KnownFeatures;
use crate::framed_stream::HEADER;
use crate::session::{SaslCredentials, SessionSettings};
use crate::session_password::SessionPassword;
use crate::sessions::SessionObserver;
use crate::transport::IntoTransport;
#[cfg(doc)]
use crate::{Client, Error};

/// The range of session timeouts on the wire, an `int` of milliseconds.
const SHORTEST_SESSION: Duration = Duration::from_millis(1);
const LONGEST_SESSION: Duration = Duration::from_millis(i32::MAX as u64);

/// The options of a session, from [`Client::options`]; they end in [`connect`](ConnectOptions::connect).
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let zk = zoolet_client::Client::options()
///     .session_timeout(Duration::from_secs(6))
///     .chroot("/app")
///     .connect("127.0.0.1:2181")
///     .await?;
/// # Ok(()) }
/// ```
// `AuthPacket` keeps credentials out of the `Debug` output.
#[derive(Debug, Clone)]
#[must_use = "options do nothing before `connect`"]
pub struct ConnectOptions {
    pub(crate) session: SessionSettings,
    pub(crate) request_timeout: Option<Duration>,
    chroot: Option<String>,
    pub(crate) max_pending: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) clock: Clock,
    /// Shared by all sessions that are opened with clones of these options.
    pub(crate) features: KnownFeatures,
    /// Who learns of every state of the session.
    pub(crate) observer: Option<Arc<SessionObserver>>,
    #[cfg(feature = "dns-srv")]
    dns_servers: Vec<SocketAddr>,
    #[cfg(feature = "tls")]
    tls: Option<ClientTls>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let session = SessionSettings {
            session_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            read_only: false,
            max_request: DEFAULT_MAX_FRAME,
            max_reply: 64 * 1024 * 1024,
            auths: Vec::new(),
            sasl: None,
            resume: None,
            expire_locally: false,
            last_zxid: Zxid(0),
            // Drawn when it connects.
            seed: 0,
        };
        Self {
            session,
            request_timeout: None,
            chroot: None,
            max_pending: 64 * 1024 * 1024,
            seed: None,
            clock: Clock::tokio(),
            features: KnownFeatures::default(),
            observer: None,
            #[cfg(feature = "dns-srv")]
            dns_servers: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl ConnectOptions {
    /// How long the server may hear nothing from the client before it expires the session. Servers limit it, to 2 and 20 ticks by
    /// default (`minSessionTimeout`, `maxSessionTimeout`): [`Client::session_timeout`] returns what they granted, and a warning
    /// is logged if that is something else. An idle connection costs a ping every third of it. Values are
    /// clamped to 1 ms and 2,147,483,647 ms (almost 25 days), the limits of the protocol.
    ///
    /// Default: 10 s.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session.session_timeout = timeout.clamp(SHORTEST_SESSION, LONGEST_SESSION);
        self
    }

    /// How long [`connect`](ConnectOptions::connect) tries to open a session before it fails. Once there is a session, the
    /// client reconnects without a limit.
    ///
    /// Default: 30 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.session.connect_timeout = timeout;
        self
    }

    /// The timeout of each call that does not set its own; see [`Call::timeout`](crate::Call::timeout).
    ///
    /// Default: none. A call ends nevertheless: without a connection it waits no longer than the session timeout, and a
    /// connection is given up if it is silent for two thirds of the session timeout or skips a reply. Only a server that
    /// answers pings and nothing else would keep it waiting.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = Some(timeout);
        self
    }

    /// The znode that this client sees as `/`. It must exist before anything is created below it. Overrides the chroot of
    /// the connect string.
    ///
    /// Default: none.
    pub fn chroot(mut self, path: impl Into<String>) -> Self {
        self.chroot = Some(path.into());
        self
    }

    /// Adds an identity, such as scheme `digest` with `user:password` (see [`Acl::digest`](crate::Acl::digest)). It is sent
    /// before the first request on every connection. If a server refuses it, the session ends as
    /// [`AuthFailed`](crate::SessionState::AuthFailed): also for a scheme that it does not know.
    ///
    /// Default: only the address of the client.
    pub fn auth(mut self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Self {
        self.session.auths.push(AuthPacket {
            kind: 0,
            scheme: Some(scheme.into()),
            auth: Some(credentials.into()),
        });
        self
    }

    /// Authenticates by SASL DIGEST-MD5, as a Java client whose JAAS file has this user: on every connection, before anything else is
    /// sent. Calls wait until it is done, and the session counts as [`Connected`](crate::SessionState::Connected) only then. The server
    /// proves that it knows the password too. The scheme of the identity is `sasl`, its id the name.
    ///
    /// If a server refuses the user or the password, has no users of SASL, or fails to prove that it knows the password, the session
    /// ends as [`AuthFailed`](crate::SessionState::AuthFailed), and the error says which.
    ///
    /// The password is not sent. But this protects it and the connection little: who can read the exchange can try passwords against it
    /// at the speed of MD5, and who can change what is sent can send requests in the user's name. Use it inside of TLS.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// use zoolet_client::{Acl, Client, Perms};
    ///
    /// let zk = Client::options().sasl_digest_md5("alice", "secret").connect("127.0.0.1:2181").await?;
    /// zk.create("/private", "data").acl(vec![Acl::new(Perms::ALL, "sasl", "alice")]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Default: no SASL.
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.session.sasl = Some(SaslCredentials::new(user.into(), password.into()));
        self
    }

    /// The password of the user whom the connect string names, as in `alice@zk1:2181`: authenticates as
    /// [`sasl_digest_md5`](ConnectOptions::sasl_digest_md5) does, which names the user too.
    ///
    /// ```no_run
    /// # async fn example(password: String) -> Result<(), zoolet_client::Error> {
    /// let zk = zoolet_client::Client::options().sasl_password(password).connect("alice@zk1:2181,zk2:2181/app").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Default: none.
    pub fn sasl_password(self, password: impl Into<String>) -> Self {
        self.sasl_digest_md5("", password)
    }

    /// Connects by TLS, to the secure port of a server or to a unified one. The files are read when connecting, and for a later
    /// connection of the session again if they have changed.
    ///
    /// Every host of the connect string needs a certificate for its name there, or for
    /// [`ClientTls::server_name`](crate::tls::ClientTls::server_name), which a target that is a closure needs in any case: TLS is then
    /// spoken on the stream that it returns. A handshake that fails is a lost connection, and
    /// [`last_connection_error`](Client::last_connection_error) says why. A server that requires a certificate may refuse a client
    /// without one only after the handshake.
    ///
    /// ```no_run
    /// # use zoolet_client::tls::{ClientTls, Store};
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// let tls = ClientTls::new().trust_store(Store::file("authorities.pem")).key_store(Store::file("client.pem"));
    /// let zk = zoolet_client::Client::options().tls(tls).connect("zk1:2281,zk2:2281").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Default: plaintext.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The name servers to ask for SRV records, such as the DNS port of a Consul agent: for a connect string that is `dns-srv://name`. The
    /// names in the records are resolved by the system.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// let consul = "127.0.0.1:8600".parse().expect("an address");
    /// let zk = zoolet_client::Client::options()
    ///     .dns_servers([consul])
    ///     .connect("dns-srv://zookeeper.service.consul/app")
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Default: those of `/etc/resolv.conf`, which is read for each lookup.
    #[cfg(feature = "dns-srv")]
    pub fn dns_servers(mut self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.dns_servers = servers.into_iter().collect();
        self
    }

    /// Resumes a session instead of opening one: that of an earlier process that did not end it, as after a crash. Take the id
    /// and the password from [`Client::session_id`] and [`Client::session_password`], and store them where only this program
    /// can read them. The session timeout is negotiated anew.
    ///
    /// If the session has expired, was closed, or has another password, `connect` fails with
    /// [`Error::SessionExpired`]; servers answer all three alike. It never opens another session instead, because the
    /// ephemerals would be gone without a notice: connect without this option to begin anew. An attempt that fails for another
    /// reason leaves the session as it is.
    ///
    /// Ephemerals are there as before, identities and watches are not: add identities with [`auth`](ConnectOptions::auth). The
    /// first read may be older than what the earlier process has seen, so call [`Client::sync`] before. Locks of the earlier
    /// process stay in their queues and have no guard: a new acquisition waits for them. Delete their znodes, which
    /// `contenders` lists with their session, or begin with a new session instead. Only one process at a time may use a session:
    /// each takes it away from the other.
    ///
    /// ```no_run
    /// # use zoolet_client::{Client, Error, SessionId};
    /// # async fn example(stored: (i64, Vec<u8>)) -> Result<Client, Error> {
    /// let (id, password) = stored;
    /// match Client::options().resume(SessionId(id), password).connect("zk1:2181,zk2:2181").await {
    ///     Err(Error::SessionExpired(_)) => Client::connect("zk1:2181,zk2:2181").await,
    ///     resumed => resumed,
    /// }
    /// # }
    /// ```
    ///
    /// Default: a new session.
    pub fn resume(mut self, id: SessionId, password: impl Into<SessionPassword>) -> Self {
        self.session.resume = Some((id, password.into()));
        self
    }

    /// The zxid that the session begins with, as if it had seen it. A server that has not applied it yet refuses the session,
    /// so that a program which goes on in a new session does not see an older state than in the one before. Take it from
    /// [`Client::last_zxid`] of that, or from a reply [with its zxid](crate::ReplyFuture::with_zxid).
    ///
    /// If no server ever catches up, as after a restore from an older backup, `connect` fails with `Unreachable`: servers
    /// close the connection without an answer (`ZooKeeperServer.processConnectRequest`). [`Sessions`](crate::Sessions) tells
    /// the two apart.
    ///
    /// Default: none; any server will do.
    pub fn last_zxid(mut self, zxid: Zxid) -> Self {
        self.session.last_zxid = zxid.max(Zxid(0));
        self
    }

    /// Whether to accept a server that is cut off from its ensemble. It takes reads only, and their results may be stale.
    /// Meanwhile the client asks the other hosts in turn, after 100 ms and then after pauses that double up to a minute. It
    /// switches to the first that grants the session, as after a lost connection.
    ///
    /// A server of 3.9 that is cut off opens sessions only with `localSessionsEnabled=true`, and resumes only those
    /// (`ReadOnlyZooKeeperServer.validateSession`). So the session there has another id than the one at servers that take
    /// writes, and a session of theirs stays disconnected until the client reaches one of them again.
    ///
    /// Default: no.
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.session.read_only = allowed;
        self
    }

    /// The longest request to send, in bytes; a longer one fails with [`Error::RequestTooLarge`]. Set it to the
    /// `jute.maxbuffer` of the servers, which close the connection of a client that exceeds it. Less than 16 counts as 16.
    ///
    /// Default: 1,048,575.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.session.max_request = bytes.max(HEADER);
        self
    }

    /// The longest reply to read, in bytes; a longer one fails with [`Error::ReplyTooLarge`]. Memory is allocated as a reply
    /// arrives, not as it is announced. Less than 16 counts as 16.
    ///
    /// Default: 64 MiB, enough for a listing of a million children.
    pub fn max_reply(mut self, bytes: usize) -> Self {
        self.session.max_reply = bytes.max(HEADER);
        self
    }

    /// The most memory for requests that have been sent and not answered, in bytes. Each counts with the length of its frame
    /// and half a KiB. Once it is full, an awaited request waits for room, in the order of the awaits; `send` fails with
    /// [`Error::QueueFull`]. A single request fits however large it is. Without a connection, requests wait for one up to
    /// the session timeout, and this bounds what they take.
    ///
    /// Default: 64 MiB, or 131,072 small requests.
    pub fn max_pending(mut self, bytes: usize) -> Self {
        self.max_pending = bytes;
        self
    }

    /// Whether to give up the session as [`Expired`](crate::SessionState::Expired) if there is no connection and the session
    /// timeout has elapsed since the latest request that a server answered. Then programs that hold a lock, or lead, learn
    /// within the session timeout that they lost it, and can open a new session, even if no server ever comes back to tell.
    /// [`Error::connection_error`] of their calls says why none was reached.
    ///
    /// Nothing is said to any server: one that was down, and so did not count the time, may keep the session and its
    /// ephemerals for up to another session timeout after it is back. So a lock that was held stays taken that long, for a
    /// new session of the same program too. Locks of `zoolet-recipes` are no safer with this, because their lease ends before
    /// it, but acquisitions fail instead of waiting for a server.
    ///
    /// Default: no. The session continues if a server resumes it, however long that takes.
    pub fn expire_locally(mut self, expires: bool) -> Self {
        self.session.expire_locally = expires;
        self
    }

    /// Seeds everything random in the session, so that a test is reproducible: the choice of hosts, the jitter of back-off,
    /// and generated names. With the same calls, replies and times, a client with the same seed sends the same bytes.
    ///
    /// Default: from the system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The clock of every timer of the session, and of what is built on it: pings, back-off, and the timeouts of connections
    /// and requests. On a manual clock nothing times out, and no ping is sent, until the clock is advanced.
    ///
    /// Default: [`Clock::tokio`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens a session. The task that drives it runs on the current tokio runtime until the session ends.
    ///
    /// # Errors
    /// `InvalidTarget`, at once also if there is one host at most, or a closure, and it fails with `io::ErrorKind::Unsupported`: no
    /// attempt can succeed.
    /// `NoRuntime` outside of a tokio runtime; `RequestTooLarge` if an identity is; `Unreachable` after the connect timeout; `AuthFailed`
    /// if a server refuses an identity of [`auth`](ConnectOptions::auth) or [`sasl_digest_md5`](ConnectOptions::sasl_digest_md5); `SessionExpired` if there is no session to
    /// [`resume`](ConnectOptions::resume); `Closed` if the target is a closure and panics.
    /// # Ordering and cancel safety
    /// Dropping the future closes the session if there is one, unless it was to be resumed and is not yet. When this returns, the server has accepted
    /// the identities of [`auth`](ConnectOptions::auth) and [`sasl_digest_md5`](ConnectOptions::sasl_digest_md5).
    pub fn connect(self, target: impl IntoTransport) -> Connecting {
        let transport = target.into_transport();
        Connecting::new(async move { self.open(transport?).await })
    }
}
