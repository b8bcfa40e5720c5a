//! Records the messages of both directions of a connection in a history.

use super::entry::{Conn, HistoryEvent, Side};
use super::recording::History;
use crate::wire::conversation::{Conversation, Frames, FromClient, FromServer};

/// Records one connection, from its first byte to its end.
pub(super) struct Recorder {
    history: History,
    conn: Conn,
    conversation: Conversation,
    /// The bytes of each direction; none once they are not frames, or if the client has sent a four-letter word.
    sent: Option<Frames>,
    received: Option<Frames>,
    has_begun: bool,
    ended: bool,
}

impl Recorder {
    pub(super) fn new(history: History) -> Self {
        let (conn, conversation) = (history.open(), Conversation::default());
        let (sent, received) = (Some(Frames::default()), Some(Frames::default()));
        Self { history, conn, conversation, sent, received, has_begun: false, ended: false }
    }

    pub(super) fn now(&self) -> u64 {
        self.history.now()
    }

    /// Records the bytes that a write, begun at `began`, has handed over.
    pub(super) fn sent(&mut self, began: u64, bytes: &[u8]) {
        let Some(frames) = &mut self.sent else { return };
        frames.add(bytes);
        if !self.has_begun && frames.word().is_some() {
            (self.sent, self.received) = (None, None);
        }
        let conversation = &mut self.conversation;
        let events = events(&mut self.sent, Side::Client, |payload| {
            self.has_begun = true;
            Ok(match conversation.from_client(payload)? {
                FromClient::Connect(connect) => HistoryEvent::ConnectRequest {
                    session: connect.session,
                    last_zxid_seen: connect.last_zxid_seen,
                },
                FromClient::Request(incoming) => HistoryEvent::Request(incoming),
            })
        });
        events.into_iter().for_each(|event| self.history.record(began, self.conn, event));
    }

    /// Records bytes that were read.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        let Some(frames) = &mut self.received else { return };
        frames.add(bytes);
        let conversation = &mut self.conversation;
        let events = events(&mut self.received, Side::Server, |payload| {
            Ok(match conversation.from_server(payload)? {
                FromServer::Connected(response) => {
                    let session = if response.is_refusal() { Default::default() } else { response.session };
                    HistoryEvent::ConnectResponse { session }
                }
                FromServer::Reply { header, reply, .. } => HistoryEvent::Reply(header, reply),
                FromServer::Event(zxid, event) => HistoryEvent::Event(zxid, event),
            })
        });
        if !events.is_empty() {
            let at = self.history.now();
            events.into_iter().for_each(|event| self.history.record(at, self.conn, event));
        }
    }

    /// Records the end of the connection.
    pub(super) fn ended(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.history.record(self.history.now(), self.conn, HistoryEvent::Ended);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.ended();
    }
}

/// The events of all frames that are whole. After one that does not decode, nothing in its direction can be read.
fn events(
    frames: &mut Option<Frames>,
    from: Side,
    mut decode: impl FnMut(&[u8]) -> Result<HistoryEvent, String>,
) -> Vec<HistoryEvent> {
    let mut events = Vec::new();
    while let Some(open) = frames {
        let event = match open.next() {
            Ok(None) => break,
            Ok(Some(payload)) => decode(&payload),
            Err(why) => Err(why),
        };
        events.push(event.unwrap_or_else(|why| {
            *frames = None;
            HistoryEvent::Unreadable { from, why }
        }));
    }
    events
}
