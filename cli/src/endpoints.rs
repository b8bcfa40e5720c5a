//! What listens beside the server for operators and monitoring: the admin server and the metrics, if they are asked for.

use zoolet_server::Server;

use crate::failure::Failure;
use crate::settings::Settings;

/// What a server needs after it has started.
#[cfg(feature = "admin")]
pub(crate) type EndpointSettings = crate::settings::HttpParts;
#[cfg(not(feature = "admin"))]
pub(crate) type EndpointSettings = ();

/// The endpoints, until they are stopped or dropped.
#[derive(Default)]
pub(crate) struct Endpoints {
    #[cfg(feature = "admin")]
    admin: Option<zoolet_admin::AdminServer>,
    #[cfg(feature = "admin")]
    metrics: Option<zoolet_admin::MetricsServer>,
}

#[cfg(feature = "admin")]
impl Endpoints {
    /// Takes the settings of the endpoints from all settings.
    pub(crate) fn settings(settings: &mut Settings) -> EndpointSettings {
        std::mem::take(&mut settings.http)
    }

    /// # Errors
    /// If one cannot listen on its address.
    pub(crate) async fn start(settings: &EndpointSettings, server: &Server) -> Result<Self, Failure> {
        let mut endpoints = Self::default();
        if let Some(admin) = settings.admin(server) {
            endpoints.admin = Some(admin.start().await?);
        }
        if let Some(metrics) = settings.metrics(server) {
            endpoints.metrics = Some(metrics.start().await?);
        }
        Ok(endpoints)
    }

    /// Where they are, for the line that announces the server.
    pub(crate) fn shown(&self) -> String {
        let admin = self.admin.iter().map(|admin| format!(", admin server at {}", admin.url()));
        let metrics =
            self.metrics.iter().map(|metrics| format!(", metrics at http://{}/metrics", metrics.addr()));
        admin.chain(metrics).collect()
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
impl Endpoints {
    pub(crate) fn settings(_settings: &mut Settings) -> EndpointSettings {}

    #[allow(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn start(_settings: &EndpointSettings, _server: &Server) -> Result<Self, Failure> {
        Ok(Self::default())
    }

    pub(crate) fn shown(&self) -> String {
        String::new()
    }

    #[allow(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn stop(self) {}
}
