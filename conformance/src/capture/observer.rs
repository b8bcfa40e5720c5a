//! [`Observer`]: a session of the capture itself, which watches what is deleted.
//!
//! Containers and znodes with a TTL are deleted by timers of the server, which a replay cannot repeat. It can delete the same znodes
//! at the same points, if it knows them. No client needs to have watched them, so the capture does.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;
use zoolet_proto::records::AddWatch;
use zoolet_proto::{AddWatchMode, EventType, OpCode, Reply, Request, Xid, frame};

use super::CaptureError;
use crate::connection::Connection;

/// How often the session is kept alive. It has to be less than the time that a [`Connection`] waits.
const PING: Duration = Duration::from_secs(3);

/// A session that watches the whole tree.
#[derive(Debug)]
pub(super) struct Observer {
    connection: Connection,
}

impl Observer {
    /// Opens a session, and watches. None if the server has no such watches, as one before ZooKeeper 3.6.
    ///
    /// # Errors
    /// If there is no ZooKeeper that opens a session.
    pub(super) async fn start(address: &str) -> Result<Option<Self>, CaptureError> {
        let connecting = Connection::with_session(address).await;
        let connection = connecting.map_err(|reason| CaptureError::server(address, reason))?;
        let mode = AddWatchMode::PersistentRecursive.code();
        let watch = Request::AddWatch(AddWatch { path: Some("/".to_owned()), mode });
        let mut observer = Self { connection };
        if let Ok((None, ..)) = observer.connection.ask(&watch).await {
            return Ok(Some(observer));
        }
        observer.stop().await;
        Ok(None)
    }

    /// The payload of the next event of a deletion; none once the connection has ended. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match timeout(PING, self.connection.event()).await {
                Ok(Ok((zxid, event))) if event.kind == EventType::NodeDeleted => {
                    let mut bytes = BytesMut::new();
                    Reply::encode_event(zxid, event.kind, &event.path, &mut bytes);
                    return Some(bytes.freeze().slice(frame::PREFIX..));
                }
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return None,
                Err(_) => {
                    self.connection.send(OpCode::Ping.code(), Some(Xid::PING.0), &[]).await.ok()?;
                }
            }
        }
    }

    /// Ends the session.
    pub(super) async fn stop(mut self) {
        let _ = self.connection.ask(&Request::CloseSession).await;
    }
}
