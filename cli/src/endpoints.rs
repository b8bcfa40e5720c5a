//! What listens beside the server for operators and monitoring: the admin server and the metrics, if they are asked for.

use zoolet_server::Server;

use crate::failure::Failure;
use crate::settings::Settings;

/// The endpoints, until they are stopped or dropped.
#[derive(Default)]
pub(crate) struct Endpoints {
    /// Where they are, for the line that announces the server.
    pub(crate) shown: String,
    #[cfg(feature = "admin")]
    admin: Option<zoolet_admin::AdminServer>,
    #[cfg(feature = "admin")]
    metrics: Option<zoolet_admin::MetricsServer>,
}

#[cfg(feature = "admin")]
impl Endpoints {
    /// # Errors
    /// If one cannot listen on its address.
    pub(crate) async fn start(settings: &Settings, server: &Server) -> Result<Self, Failure> {
        let mut endpoints = Self::default();
        if let Some(admin) = settings.http.admin(server) {
            let admin = admin.start().await?;
            endpoints.shown.push_str(&format!(", admin server at {}", admin.url()));
            endpoints.admin = Some(admin);
        }
        if let Some(metrics) = settings.http.metrics(server) {
            let metrics = metrics.start().await?;
            endpoints.shown.push_str(&format!(", metrics at http://{}/metrics", metrics.addr()));
            endpoints.metrics = Some(metrics);
        }
        Ok(endpoints)
    }

    /// Reads the files of HTTPS again.
    #[cfg(feature = "tls")]
    pub(crate) async fn reload_tls(&self) -> Result<(), zoolet_tls::TlsError> {
        match &self.admin {
            Some(admin) => admin.reload_tls().await,
            None => Ok(()),
        }
    }

    /// Closes their ports.
    pub(crate) async fn stop(self) {
        if let Some(admin) = self.admin {
            admin.shutdown().await;
        }
        if let Some(metrics) = self.metrics {
            metrics.shutdown().await;
        }
    }
}

#[cfg(not(feature = "admin"))]
#[allow(clippy::unused_async, reason = "as with the feature")]
impl Endpoints {
    pub(crate) async fn start(_settings: &Settings, _server: &Server) -> Result<Self, Failure> {
        Ok(Self::default())
    }

    #[cfg(feature = "tls")]
    pub(crate) async fn reload_tls(&self) -> Result<(), zoolet_tls::TlsError> {
        Ok(())
    }

    pub(crate) async fn stop(self) {}
}
