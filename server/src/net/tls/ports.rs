//! [`TlsPorts`]: what the handshakes on the ports of a server share.

use std::sync::Arc;

use zoolet_tls::{LiveTls, ServerTls};

use crate::config::TlsConfig;
use crate::error::StartError;
use crate::net::flow::limits::HANDSHAKES;
use crate::net::rate_limited_line::RateLimitedLine;
use crate::net::stepper::Stepper;
use crate::net::tls::slots::HandshakeSlots;

/// What the ports with TLS of a server share.
pub(crate) struct TlsPorts {
    pub(crate) live: Arc<LiveTls<ServerTls>>,
    pub(crate) slots: Arc<HandshakeSlots>,
    /// A thousand handshakes that are ready at once would keep every other task of the thread waiting for as
    /// many signatures.
    pub(crate) stepper: Stepper,
    /// Connections that had no slot or lost it, and handshakes that have failed.
    pub(crate) refused: RateLimitedLine,
    pub(crate) failed: RateLimitedLine,
}

impl TlsPorts {
    /// Reads the files of the settings, if there are any.
    pub(crate) async fn load(config: TlsConfig) -> Result<Option<Self>, StartError> {
        let Some(settings) = config.settings else { return Ok(None) };
        Ok(Some(Self {
            live: LiveTls::open(settings).await?,
            slots: Arc::new(HandshakeSlots::new(config.max_handshakes.unwrap_or(HANDSHAKES))),
            stepper: Stepper::default(),
            refused: RateLimitedLine::default(),
            failed: RateLimitedLine::default(),
        }))
    }
}
