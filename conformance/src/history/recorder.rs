//! Records the messages of both directions of a connection in a history.

use zoolet_proto::records::ConnectRequest;

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
    ended: bool,
}

impl Recorder {
    pub(super) fn new(history: History) -> Self {
        let (conn, conversation) = (history.open(), Conversation::default());
        let (sent, received) = (Some(Frames::default()), Some(Frames::default()));
        Self { history, conn, conversation, sent, received, ended: false }
    }

    pub(super) fn now(&self) -> u64 {
        self.history.now()
    }

    /// Records the bytes that a write, begun at `began`, has handed over.
    pub(super) fn sent(&mut self, began: u64, bytes: &[u8]) {
        let Some(frames) = &mut self.sent else { return };
        frames.add(bytes);
        if !self.conversation.has_asked && frames.word().is_some() {
            (self.sent, self.received) = (None, None);
        }
        while let Some(event) = self.next(Side::Client) {
            self.history.record(began, self.conn, event);
        }
    }

    /// Records bytes that were read.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        let Some(frames) = &mut self.received else { return };
        frames.add(bytes);
        let mut at = None;
        while let Some(event) = self.next(Side::Server) {
            let at = *at.get_or_insert_with(|| self.history.now());
            self.history.record(at, self.conn, event);
        }
    }

    /// The next whole frame of an end. After one that does not decode, nothing more of that end can be read.
    fn next(&mut self, from: Side) -> Option<HistoryEvent> {
        let frames = match from {
            Side::Client => &mut self.sent,
            Side::Server => &mut self.received,
        };
        let event = match frames.as_mut()?.next().transpose()? {
            Ok(payload) => decode(&mut self.conversation, from, &payload),
            Err(why) => Err(why),
        };
        Some(event.unwrap_or_else(|why| {
            *frames = None;
            HistoryEvent::Unreadable { from, why }
        }))
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

fn decode(conversation: &mut Conversation, from: Side, payload: &[u8]) -> Result<HistoryEvent, String> {
    if from == Side::Client {
        return Ok(match conversation.from_client(payload)? {
            FromClient::Connect(ConnectRequest { session, last_zxid_seen, .. }) => {
                HistoryEvent::ConnectRequest { session, last_zxid_seen }
            }
            FromClient::Request(incoming) => HistoryEvent::Request(incoming),
        });
    }
    Ok(match conversation.from_server(payload)? {
        FromServer::Connected(response) => {
            let session = if response.is_refusal() { Default::default() } else { response.session };
            HistoryEvent::ConnectResponse { session }
        }
        FromServer::Reply { header, reply, .. } => HistoryEvent::Reply(header, reply),
        FromServer::Event(zxid, event) => HistoryEvent::Event(zxid, event),
    })
}
