//! [`AdminServer`]: the commands, the metrics and the page of a server, on one HTTP port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use zoolet_server::Observer;

use crate::commands::Commands;
use crate::error::AdminError;
use crate::http::limits::IDLE_TIMEOUT;
use crate::http::{HttpBody, HttpHandler, HttpRequest, HttpResponse, HttpServer};

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
        }
    }

    /// The address that it listens on, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.http.addr()
    }

    /// Where a browser finds it: `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Stops it: closes the port, and waits until its last task has ended. Requests under way are finished, if that takes no longer
    /// than two seconds.
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

    /// What the command `initial_configuration` shows: the text of the file that the server was started with. Values whose keys name a
    /// password or a secret are left out. Default: nothing.
    pub fn initial_configuration(mut self, text: impl Into<String>) -> Self {
        self.initial_configuration = text.into();
        self
    }

    /// Starts it in the current tokio runtime.
    ///
    /// # Errors
    /// [`AdminError::Setting`] for an invalid value, [`AdminError::Listen`] for an address on which it cannot listen.
    pub async fn start(self) -> Result<AdminServer, AdminError> {
        let Self { observer, addr, idle_timeout, command_url, initial_configuration } = self;
        let is_path = command_url.starts_with('/')
            && !command_url.ends_with('/')
            && !command_url.contains(['?', '#', '%']);
        if !is_path {
            let hint = "must be a path such as /commands";
            return Err(AdminError::Setting { setting: "command_url", value: command_url, hint });
        }
        let routes = Routes { commands: Commands::new(observer, command_url, initial_configuration) };
        let http = HttpServer::start(&addr, idle_timeout, Arc::new(routes)).await;
        let http = http.map_err(|source| AdminError::Listen { addr, source })?;
        Ok(AdminServer { http })
    }
}

/// Who answers which path.
struct Routes {
    commands: Commands,
}

impl HttpHandler for Routes {
    async fn handle(&self, request: HttpRequest, body: &mut HttpBody) -> HttpResponse {
        match self.commands.answer(&request, body).await {
            Some(response) => response,
            None => HttpResponse::error_page(StatusCode::NOT_FOUND, &request.path),
        }
    }
}
