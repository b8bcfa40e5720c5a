//! [`Observer`]: a session of the capture itself, which watches what is deleted.
//!
//! Containers and znodes with a TTL are deleted by timers of the server, which a replay cannot repeat. It can delete the same znodes
//! at the same points, if it knows them. No client needs to have watched them, so the capture does.

use std::time::Duration;

use tokio::time::{interval, timeout};
use zoolet_proto::records::AddWatch;
use zoolet_proto::{AddWatchMode, EventType, Reply, Request};

use super::proxy::Recorder;
use super::writer::CaptureEvent;
use crate::error::CaptureError;
use crate::wire::connection::{ANSWER_LIMIT, Connection, ReceiveError};
use crate::wire::encoding::payload;

/// How often the session is kept alive: less than the time that a [`Connection`] waits.
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
    /// If there is not a ZooKeeper that opens a session.
    pub(super) async fn start(address: &str) -> Result<Option<Self>, CaptureError> {
        let mut connection = Connection::with_session(address, ANSWER_LIMIT).await?;
        let mode = AddWatchMode::PersistentRecursive.code();
        let watch = Request::AddWatch(AddWatch { path: Some("/".to_owned()), mode });
        if let Ok((None, ..)) = connection.ask(&watch).await {
            return Ok(Some(Self { connection }));
        }
        let _ = connection.ask(&Request::CloseSession).await;
        Ok(None)
    }

    /// Records deletions until `stop` is ready, and ends the session then.
    ///
    /// # Errors
    /// If the session is lost before.
    pub(super) async fn run(
        mut self,
        recorder: Recorder,
        mut stop: impl Future + Unpin,
    ) -> Result<(), ReceiveError> {
        let mut pings = interval(PING);
        loop {
            tokio::select! {
                _ = &mut stop => break,
                event = self.connection.event() => match event {
                    Ok((zxid, event)) if event.kind == EventType::NodeDeleted => {
                        let payload = payload(|out| Reply::encode_event(zxid, event.kind, &event.path, out));
                        if recorder.record(CaptureEvent::Observed(payload)).await.is_err() {
                            break;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => return Err(error),
                },
                // Whatever else comes: events do not keep a session alive.
                _ = pings.tick() => drop(self.connection.ping().await),
            }
        }
        // Whoever has stopped the capture does not wait for a server that does not answer.
        match timeout(PING, self.connection.ask(&Request::CloseSession)).await {
            // It was lost before, and nobody had noticed.
            Ok(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }
}
