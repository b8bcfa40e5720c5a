//! The settings of the admin server and of the metrics, each on a port of its own.

use std::time::Duration;

use zoolet_admin::{AdminServer, AdminServerBuilder, MetricsServer, MetricsServerBuilder};
use zoolet_server::Server;

#[cfg(feature = "tls")]
use super::https::HttpsParts;
use super::{SettingMistake, joined};

/// As the ports of Apache ZooKeeper.
const ADMIN_PORT: u16 = 8080;
const METRICS_PORT: u16 = 7000;

/// Where the admin server listens if only its port is given: it shows the tree, and can replace it.
const ADMIN_ADDRESS: &str = "127.0.0.1";

/// What was set of both.
#[derive(Debug, Default)]
pub(crate) struct HttpParts {
    /// By flags, which take precedence.
    pub(crate) admin_bind: Option<String>,
    pub(crate) metrics_bind: Option<String>,
    pub(crate) admin: Option<bool>,
    pub(crate) admin_address: Option<String>,
    pub(crate) admin_port: Option<u16>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) command_url: Option<String>,
    pub(crate) snapshots: Option<bool>,
    pub(crate) restores: Option<bool>,
    pub(crate) rate_limit: Option<Duration>,
    /// Whether the page may change znodes, and the names by which admin server and metrics may be asked.
    pub(crate) writable: bool,
    pub(crate) hosts: Vec<String>,
    #[cfg(feature = "tls")]
    pub(crate) https: HttpsParts,
    pub(crate) metrics: bool,
    pub(crate) metrics_host: Option<String>,
    pub(crate) metrics_port: Option<u16>,
    pub(crate) without_process: bool,
    /// The keys and values of the file, without secrets, for those who ask the admin server for it.
    pub(crate) configuration: Vec<(String, String)>,
}

impl HttpParts {
    /// The address of the admin server, if there is one.
    pub(crate) fn admin_addr(&self) -> Option<String> {
        let asked = self.admin.unwrap_or(self.admin_port.is_some());
        let by_file = || {
            let address = self.admin_address.as_deref().unwrap_or(ADMIN_ADDRESS);
            asked.then(|| joined(address, self.admin_port.unwrap_or(ADMIN_PORT)))
        };
        self.admin_bind.clone().or_else(by_file)
    }

    /// Whether the file has an admin server that only this machine reaches, where that of Apache is open to all.
    pub(super) fn is_only_local(&self) -> bool {
        self.admin_bind.is_none() && self.admin_address.is_none() && self.admin_addr().is_some()
    }

    /// What does not fit together.
    pub(super) fn check(&self) -> Option<SettingMistake> {
        #[cfg(feature = "tls")]
        if self.has_https() {
            return self.https.check();
        }
        let unused = match (self.admin_addr(), self.writable) {
            (None, true) => "--admin-writable is used by no admin server; set --admin (admin.serverPort)",
            (None, false) if !self.hosts.is_empty() && self.metrics_addr().is_none() => {
                "--admin-host is used by no admin server and no metrics; set --admin (admin.serverPort) or --metrics"
            }
            _ => return None,
        };
        Some(SettingMistake::Together(unused))
    }

    /// Whether there is an admin server that speaks HTTPS.
    #[cfg(feature = "tls")]
    pub(super) fn has_https(&self) -> bool {
        self.https.is_on() && self.admin_addr().is_some()
    }

    /// The address of the metrics, if there is one. Apache's, as a scraper is on another machine.
    pub(crate) fn metrics_addr(&self) -> Option<String> {
        let by_file = || {
            let host = self.metrics_host.as_deref().unwrap_or(super::ANY_ADDRESS);
            self.metrics.then(|| joined(host, self.metrics_port.unwrap_or(METRICS_PORT)))
        };
        self.metrics_bind.clone().or_else(by_file)
    }

    /// The admin server beside this server, if there is one.
    pub(crate) fn admin(&self, server: &Server) -> Option<AdminServerBuilder> {
        let admin = AdminServer::builder(server).bind(self.admin_addr()?);
        let admin = self.idle_timeout.into_iter().fold(admin, AdminServerBuilder::idle_timeout);
        let admin = self.command_url.iter().fold(admin, AdminServerBuilder::command_url);
        let admin = self.snapshots.into_iter().fold(admin, AdminServerBuilder::snapshots);
        let admin = self.restores.into_iter().fold(admin, AdminServerBuilder::restores);
        let admin = self.rate_limit.into_iter().fold(admin, AdminServerBuilder::rate_limit_interval);
        let admin = if self.writable { admin.writable_page() } else { admin };
        let admin = self.hosts.iter().fold(admin, AdminServerBuilder::page_host);
        #[cfg(feature = "tls")]
        let admin = self.https.apply(admin);
        Some(admin.initial_configuration(self.configuration.iter().map(|(key, value)| (key, value))))
    }

    /// The metrics of this server, if they are served.
    pub(crate) fn metrics(&self, server: &Server) -> Option<MetricsServerBuilder> {
        let metrics = MetricsServer::builder(server).bind(self.metrics_addr()?);
        let metrics = self.hosts.iter().fold(metrics, MetricsServerBuilder::host);
        Some(metrics.process_families(!self.without_process))
    }
}
