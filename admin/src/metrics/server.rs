//! [`MetricsServer`]: the endpoint that Prometheus scrapes.

use std::net::SocketAddr;

use hyper::StatusCode;
use zoolet_server::Observer;

use super::PrometheusText;
use crate::error::AdminError;
use crate::http::limits::IDLE_TIMEOUT;
use crate::http::{Answering, HttpBody, HttpHandler, HttpRequest, HttpResponse, HttpServer};

/// Where it listens unless told otherwise: nobody else than this machine gets there.
const DEFAULT_ADDRESS: &str = "127.0.0.1:7000";

/// Serves `/metrics` of a server on a port of its own, as Apache ZooKeeper's Prometheus provider does. Dropping it stops it without
/// waiting; [`MetricsServer::shutdown`] waits. It does not keep its ZooKeeper server running, and answers 503 once that has stopped.
///
/// ```
/// use zoolet_admin::MetricsServer;
/// use zoolet_server::Server;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder().bind("127.0.0.1:0").start().await?;
/// let metrics = MetricsServer::builder(&server).bind("127.0.0.1:0").start().await?;
/// println!("scrape http://{}/metrics", metrics.addr());
/// metrics.shutdown().await;
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a metrics server stops when its handle is dropped"]
#[derive(Debug)]
pub struct MetricsServer {
    http: HttpServer,
}

impl MetricsServer {
    /// Settings for the metrics server of a server.
    pub fn builder(server: impl Into<Observer>) -> MetricsServerBuilder {
        MetricsServerBuilder {
            observer: server.into(),
            addr: DEFAULT_ADDRESS.to_owned(),
            hosts: Vec::new(),
            text: PrometheusText::new(),
        }
    }

    /// The address that it listens on, with the actual port.
    pub fn addr(&self) -> SocketAddr {
        self.http.addr()
    }

    /// Stops it: closes the port, and waits until its last task has ended. Scrapes under way are finished, if that takes no longer
    /// than half a second.
    ///
    /// # Cancel safety
    /// It stops even if the future is dropped.
    pub async fn shutdown(self) {
        self.http.shutdown().await;
    }
}

/// Settings of a [`MetricsServer`].
#[derive(Debug, Clone)]
#[must_use]
pub struct MetricsServerBuilder {
    observer: Observer,
    addr: String,
    hosts: Vec<String>,
    text: PrometheusText,
}

impl MetricsServerBuilder {
    /// The address and the port that it listens on; port 0 takes a free one. Default: `127.0.0.1:7000`, while Apache's is all
    /// addresses of the machine (`metricsProvider.httpHost`, `metricsProvider.httpPort`).
    pub fn bind(mut self, addr: impl Into<String>) -> Self {
        self.addr = addr.into();
        self
    }

    /// A name by which it may be asked, such as that of a proxy in front of it. On the loopback it otherwise answers to addresses and to
    /// `localhost` only, so that no site reads it through a browser (DNS rebinding); elsewhere to every name.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Whether the families of the process are among those that are served. Default: they are
    /// (`metricsProvider.exportJvmInfo`).
    pub fn process_families(mut self, served: bool) -> Self {
        self.text = if served { PrometheusText::new() } else { PrometheusText::new().without_process() };
        self
    }

    /// Starts it in the current tokio runtime. The server records distributions from now on.
    ///
    /// # Errors
    /// [`AdminError::Listen`] for an address on which it cannot listen.
    pub async fn start(self) -> Result<MetricsServer, AdminError> {
        let Self { observer, addr, hosts, text } = self;
        let endpoint = MetricsEndpoint { observer: observer.clone(), text };
        let http = HttpServer::start(&addr, &hosts, IDLE_TIMEOUT, endpoint, None).await;
        let http = http.map_err(|source| AdminError::Listen { addr, source })?;
        observer.measure();
        Ok(MetricsServer { http })
    }
}

/// Answers `/metrics`.
struct MetricsEndpoint {
    observer: Observer,
    text: PrometheusText,
}

impl HttpHandler for MetricsEndpoint {
    fn handle<'r>(&'r self, request: HttpRequest, _: &'r mut HttpBody) -> Answering<'r> {
        Box::pin(async move {
            if request.path != "/metrics" {
                return HttpResponse::error_page(StatusCode::NOT_FOUND, &request.path);
            }
            let Some(metrics) = self.observer.metrics() else {
                return HttpResponse::text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "text/plain",
                    "The server has stopped.\n",
                );
            };
            // The arguments have the names of samples, as simpleclient has it.
            let names = request.query.into_iter().filter(|(name, _)| name == "name[]");
            let names: Vec<_> = names.map(|(_, name)| name).collect();
            let text = if names.is_empty() { self.text.clone() } else { self.text.clone().only(names) };
            let text = text.write(&metrics);
            HttpResponse::text(StatusCode::OK, PrometheusText::CONTENT_TYPE, text)
        })
    }
}
