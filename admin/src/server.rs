//! [`AdminServer`]: the commands, the metrics and the page of a server, on one HTTP port.

use std::net::SocketAddr;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
#[cfg(feature = "tls")]
use tokio::runtime::Handle;
use zoolet_server::Observer;
#[cfg(feature = "tls")]
use zoolet_tls::{LiveTls, ServerTls};

use crate::commands::{Commands, TransferSettings, without_secret};
use crate::error::AdminError;
use crate::http::limits::IDLE_TIMEOUT;
use crate::http::{
    Answering, HttpBody, HttpHandler, HttpRequest, HttpResponse, HttpServer, Https, ListPermits,
};
use crate::page::Page;

/// Where it listens unless told otherwise: nobody else than this machine gets there.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// A running admin server. Dropping it stops it without waiting; [`AdminServer::shutdown`] waits. It does not keep its ZooKeeper
/// server running, and answers that nothing is served once that has stopped.
///
/// ```
/// use zoolet_admin::AdminServer;
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().bind("127.0.0.1:0").start().await?;
/// let admin = AdminServer::builder(&server).bind("127.0.0.1:0").start().await?;
/// println!("commands at {}/commands", admin.url());
/// admin.shutdown().await;
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "an admin server stops when its handle is dropped"]
#[derive(Debug)]
pub struct AdminServer {
    http: HttpServer,
    scheme: &'static str,
    #[cfg(feature = "tls")]
    tls: Option<Arc<LiveTls<ServerTls>>>,
}

impl AdminServer {
    /// Settings for the admin server of a server.
    pub fn builder(server: impl Into<Observer>) -> AdminServerBuilder {
        AdminServerBuilder {
            observer: server.into(),
            addr: DEFAULT_ADDRESS.to_owned(),
            idle_timeout: IDLE_TIMEOUT,
            command_url: "/commands".to_owned(),
            initial_configuration: String::new(),
            page: true,
            writable: false,
            hosts: Vec::new(),
            transfers: TransferSettings::default(),
            #[cfg(feature = "tls")]
            https: None,
        }
    }

    /// The address that it listens on, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.http.addr()
    }

    /// Where a browser finds it: `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr())
    }

    /// Reads the files of HTTPS again now. They are read by themselves when they have changed; this reports whether they could be.
    ///
    /// # Errors
    /// If one is missing or broken; new connections use what was there before.
    ///
    /// # Cancel safety
    /// The files are read even if the future is dropped.
    #[cfg(feature = "tls")]
    pub async fn reload_tls(&self) -> Result<(), zoolet_tls::TlsError> {
        match &self.tls {
            Some(tls) => tls.reload_in(&Handle::current()).await,
            None => Ok(()),
        }
    }

    /// Stops it: closes the port, and waits until its last task has ended. Requests under way are finished, if that takes no longer
    /// than half a second.
    ///
    /// # Cancel safety
    /// It stops even if the future is dropped.
    pub async fn shutdown(self) {
        self.http.shutdown().await;
    }
}

/// Settings of an [`AdminServer`], each with the default of Apache ZooKeeper 3.9 unless its documentation says otherwise.
#[derive(Debug, Clone)]
#[must_use]
pub struct AdminServerBuilder {
    observer: Observer,
    addr: String,
    idle_timeout: Duration,
    command_url: String,
    initial_configuration: String,
    page: bool,
    writable: bool,
    hosts: Vec<String>,
    transfers: TransferSettings,
    #[cfg(feature = "tls")]
    https: Option<HttpsSettings>,
}

/// The stores of HTTPS, and whether plain HTTP is served too.
#[cfg(feature = "tls")]
#[derive(Debug, Clone)]
struct HttpsSettings {
    tls: ServerTls,
    is_unified: bool,
}

impl AdminServerBuilder {
    /// The address and the port that it listens on; port 0 takes a free one. Default: `127.0.0.1:8080`, while Apache's is all
    /// addresses of the machine (`admin.serverAddress`, `admin.serverPort`).
    pub fn bind(mut self, addr: impl Into<String>) -> Self {
        self.addr = addr.into();
        self
    }

    /// How long a connection may be idle, take for the head of a request, or take nothing of a response. Default: 30 s
    /// (`admin.idleTimeout`).
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// The path of the commands. Default: `/commands` (`admin.commandURL`).
    pub fn command_url(mut self, path: impl Into<String>) -> Self {
        self.command_url = path.into();
        self
    }

    /// What the command `initial_configuration` shows: the settings of the file that the server was started with, each a key and a
    /// value, in a line each. Values whose keys name a password or a secret are left out. Default: none.
    pub fn initial_configuration<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        settings: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let lines = settings.into_iter().map(|(key, value)| without_secret(key.as_ref(), value.as_ref()));
        self.initial_configuration = lines.collect();
        self
    }

    /// Whether there is a page for people at `/`: the tree, sessions, lock queues, transactions and load. It only reads. Default: yes;
    /// Apache has none.
    ///
    /// Whoever reaches the port reads what an anonymous client reads there, and the sessions with their addresses. ACLs hold for the
    /// page, but not for the commands `dump`, `watches` and `watches_by_path`, which list paths on the same port.
    pub fn page(mut self, page: bool) -> Self {
        self.page = page;
        self
    }

    /// Lets the page create, change and delete znodes, as far as ACLs allow it. Default: no.
    pub fn writable_page(mut self) -> Self {
        (self.page, self.writable) = (true, true);
        self
    }

    /// A name by which the server may be asked, such as `zk1.example.com` or that of a proxy which passes the host on. Without it the page
    /// answers to the names of the loopback and to the address that the server is bound to. By plain HTTP the commands on the loopback,
    /// and those for snapshots anywhere, answer to these and to any address. So no other site can read them through the browser of an
    /// operator (DNS rebinding).
    pub fn page_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Whether the command `snapshot` is executed. Default: yes (`admin.snapshot.enabled`).
    pub fn snapshots(mut self, enabled: bool) -> Self {
        self.transfers.snapshots = enabled;
        self
    }

    /// Whether the command `restore` is executed. Default: yes (`admin.restore.enabled`).
    pub fn restores(mut self, enabled: bool) -> Self {
        self.transfers.restores = enabled;
        self
    }

    /// How often a snapshot may be taken, and how often one may be restored: once in this time. Default: 300 ms for snapshots and five
    /// minutes for restores, as Apache's `admin.rateLimiterIntervalInMS` of 300,000 works.
    pub fn rate_limit_interval(mut self, interval: Duration) -> Self {
        (self.transfers.snapshot_interval, self.transfers.restore_interval) = (interval, interval);
        self
    }

    /// Lets other machines take and restore snapshots without HTTPS, as Apache does: their passwords and all data can be read on the way.
    /// Default: no.
    pub fn allow_plaintext_snapshots(mut self, allow: bool) -> Self {
        self.transfers.allow_plain = allow;
        self
    }

    /// Serves HTTPS only (`admin.forceHttps`). Apache's admin server uses the stores of its quorum (`ssl.quorum.*`) and speaks TLS 1.2 and
    /// 1.3: [`Protocols::ALL`](zoolet_tls::Protocols::ALL). Clients are asked for certificates if
    /// [`ClientAuth`](zoolet_tls::ClientAuth) says so (`admin.needClientAuth`).
    /// A file that has changed is used for the next connection.
    #[cfg(feature = "tls")]
    pub fn https(mut self, tls: ServerTls) -> Self {
        self.https = Some(HttpsSettings { tls, is_unified: false });
        self
    }

    /// Serves HTTPS and plain HTTP on the same port (`admin.portUnification`). Snapshots are not sent by plain HTTP to other machines.
    #[cfg(feature = "tls")]
    pub fn http_and_https(mut self, tls: ServerTls) -> Self {
        self.https = Some(HttpsSettings { tls, is_unified: true });
        self
    }

    /// Whether `path` is one that [`command_url`](AdminServerBuilder::command_url) takes: not below `/api`, which is the page's.
    pub fn is_command_url(path: &str) -> bool {
        let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains(['?', '#', '%']);
        is_path && !Page::has(&format!("{path}/"))
    }

    /// Starts it in the current tokio runtime.
    ///
    /// # Errors
    /// [`AdminError::Setting`] for an invalid value, [`AdminError::Listen`] for an address on which it cannot listen.
    pub async fn start(self) -> Result<AdminServer, AdminError> {
        #[cfg(feature = "tls")]
        let https = self.https;
        let Self {
            observer,
            addr,
            idle_timeout,
            command_url,
            initial_configuration,
            page,
            writable,
            hosts,
            transfers,
            ..
        } = self;
        if !Self::is_command_url(&command_url) {
            let hint = "must be a path such as /commands, and not below /api, which is the page's";
            return Err(AdminError::Setting { setting: "command_url", value: command_url, hint });
        }
        let (secure, scheme) = (None::<Https>, "http");
        #[cfg(feature = "tls")]
        let (secure, scheme, tls) = match https {
            None => (secure, scheme, None),
            Some(HttpsSettings { tls, is_unified }) => {
                let tls = LiveTls::open(tls).await?;
                let scheme = if is_unified { scheme } else { "https" };
                (Some(Https::new(Arc::clone(&tls), is_unified, observer.clone())), scheme, Some(tls))
            }
        };
        let lists = ListPermits::new();
        let page = page.then(|| Page::new(observer.clone(), writable, lists.clone()));
        let commands = Commands::new(observer, command_url, initial_configuration, transfers, lists);
        let routes = Routes { commands, page };
        let http = HttpServer::start(&addr, &hosts, idle_timeout, routes, secure).await;
        let http = http.map_err(|source| AdminError::Listen { addr, source })?;
        Ok(AdminServer {
            http,
            scheme,
            #[cfg(feature = "tls")]
            tls,
        })
    }
}

/// Who answers which path.
struct Routes {
    commands: Commands,
    page: Option<Page>,
}

impl HttpHandler for Routes {
    fn handle<'r>(&'r self, request: HttpRequest, body: &'r mut HttpBody) -> Answering<'r> {
        Box::pin(async move {
            if let Some(page) = self.page.as_ref().filter(|_| Page::has(&request.path)) {
                return page.respond(&request, body).await;
            }
            match self.commands.answer(&request, body).await {
                Some(response) => response,
                None => HttpResponse::error_page(StatusCode::NOT_FOUND, &request.path),
            }
        })
    }
}
