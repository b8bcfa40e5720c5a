//! Whether the servers have gone back to an older state.
//!
//! A server that is behind closes the connection without an answer, and so does one that is about to start. A session
//! that claims to have seen nothing tells them apart: opening one is a write of the ensemble, so the server that grants it
//! has applied whatever was committed before. If what it shows is older than what was seen, the past has changed.

use std::io;

use zoolet_proto::Zxid;

use crate::client::Client;
use crate::connection_error::ConnectionError;
use crate::error::Error;
use crate::options::ConnectOptions;
use crate::state::SessionState;
use crate::transport::Transport;

/// Whether a connection failed as it does at a server that is behind.
pub(super) fn may_be_behind(failure: &ConnectionError) -> bool {
    use io::ErrorKind::*;
    matches!(failure.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// A session that was opened as if nothing had been seen, and the state of its server.
pub(super) struct FreshSession {
    pub(super) client: Client,
    pub(super) found: Zxid,
}

/// Opens such a session.
///
/// # Errors
/// Of the connection or the request; `Ok(None)` if the server is cut off, as it proves nothing.
pub(super) async fn fresh_session(
    mut options: ConnectOptions,
    transport: Transport,
) -> Result<Option<FreshSession>, Error> {
    options.session.resume = None;
    let client = options.last_zxid(Zxid(0)).connect(transport).await?;
    if client.state() == SessionState::ConnectedReadOnly {
        return Ok(None);
    }
    // With local sessions the grant is no write, so the server could lag.
    client.sync("/").await?;
    let (read, found) = client.exists("/").send().with_zxid().await;
    read?;
    Ok(found.map(|found| FreshSession { client, found }))
}
