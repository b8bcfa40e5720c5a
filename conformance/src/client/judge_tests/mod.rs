//! Each rule with a conversation that obeys it and one that does not.

mod frames;
mod life;

use bytes::BytesMut;
use zoolet_proto::records::{
    AuthPacket, Exists, GetChildren, GetData, SaslToken, SetData, SetWatches, SetWatches2, WatchedEvent,
};
use zoolet_proto::{ErrorCode, EventType, KeeperState, Reply};

use super::*;

const TIMEOUT: i32 = 6_000;
const PASSWORD: Bytes = Bytes::from_static(&[7; 16]);
const SESSION: i64 = 5;

/// A client and its server, a message after the other. The time stands still unless it is moved.
struct Play {
    judge: Judge,
    at: Duration,
}

impl Play {
    fn new() -> Self {
        Self { judge: Judge::default(), at: Duration::from_secs(10) }
    }

    /// A client with a session on its first connection.
    fn connected() -> Self {
        let mut play = Self::new();
        play.open();
        play.connects(1, 0, 0);
        play.grants(1);
        play
    }

    /// A client that has read at a zxid, whose connection is then cut, and that opens another one.
    fn cut_after_reading(zxid: i64) -> Self {
        let mut play = Self::connected();
        play.asks(1, 1, get("/a"));
        play.replies(1, 1, zxid);
        play.ends(1, End::Peer);
        play.open();
        play
    }

    fn open(&mut self) -> usize {
        self.judge.open()
    }

    fn wait(&mut self, millis: u64) {
        self.at += Duration::from_millis(millis);
    }

    fn client(&mut self, number: usize, frame: BytesMut, message: FromClient) {
        let payload = frame.freeze().slice(4..);
        self.judge.client_sent(number, self.at, &payload, &Ok(message));
    }

    fn connects(&mut self, number: usize, session: i64, last_zxid: i64) {
        self.connects_with(number, session, last_zxid, PASSWORD);
    }

    fn connects_with(&mut self, number: usize, session: i64, last_zxid: i64, password: Bytes) {
        let connect = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(last_zxid),
            timeout: TIMEOUT,
            session: SessionId(session),
            password: Some(password),
            read_only: Some(false),
        };
        let mut frame = BytesMut::new();
        connect.encode_frame(&mut frame);
        self.client(number, frame, FromClient::Connect(connect));
    }

    fn grants(&mut self, number: usize) {
        self.answers(number, SESSION, TIMEOUT);
    }

    fn answers(&mut self, number: usize, session: i64, timeout: i32) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout,
            session: SessionId(session),
            password: PASSWORD,
            read_only: Some(false),
        };
        self.judge.server_sent(number, self.at, &FromServer::Connected(response));
    }

    fn asks(&mut self, number: usize, xid: i32, request: Request) {
        let mut frame = BytesMut::new();
        request.encode_frame(Xid(xid), &mut frame);
        let incoming = Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request) };
        self.client(number, frame, FromClient::Request(incoming));
    }

    fn replies(&mut self, number: usize, xid: i32, zxid: i64) {
        self.replies_with(number, xid, zxid, 0);
    }

    fn replies_with(&mut self, number: usize, xid: i32, zxid: i64, err: i32) {
        let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err };
        let message = FromServer::Reply { header, number: None, op: None, reply: Ok(Reply::Empty) };
        self.judge.server_sent(number, self.at, &message);
    }

    fn notifies(&mut self, number: usize, zxid: i64, kind: EventType, path: &str) {
        let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path: path.to_owned() };
        self.judge.server_sent(number, self.at, &FromServer::Event(Zxid(zxid), event));
    }

    fn ends(&mut self, number: usize, end: End) {
        self.judge.ended(number, self.at, end);
    }

    /// Comes back for the session on a second connection.
    fn resumes(&mut self, last_zxid: i64) {
        self.open();
        self.connects(2, SESSION, last_zxid);
        self.grants(2);
    }

    #[track_caller]
    fn shows(self, expected: &[ClientRule]) -> Vec<Mistake> {
        let mistakes = self.judge.finish(self.at + Duration::from_secs(60));
        let rules: Vec<_> = mistakes.iter().map(|mistake| mistake.rule).collect();
        assert_eq!(rules, expected, "{mistakes:?}");
        mistakes
    }
}

fn get(path: &str) -> Request {
    Request::GetData(GetData { path: path.to_owned(), watch: false })
}

fn watch(path: &str) -> Request {
    Request::GetData(GetData { path: path.to_owned(), watch: true })
}

fn set(path: &str) -> Request {
    Request::SetData(SetData { path: path.to_owned(), data: None, version: -1 })
}

fn auth(credentials: &'static str) -> Request {
    let auth = Some(Bytes::from_static(credentials.as_bytes()));
    Request::Auth(AuthPacket { kind: 0, scheme: Some("digest".to_owned()), auth })
}

fn sasl(token: &'static str) -> Request {
    Request::Sasl(SaslToken(Some(Bytes::from_static(token.as_bytes()))))
}

fn set_watches(relative: i64, data: &[&str], child: &[&str]) -> Request {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Request::SetWatches(SetWatches {
        relative_zxid: Zxid(relative),
        data: owned(data),
        exist: Vec::new(),
        child: owned(child),
    })
}

/// A session with a data watch on `/a` and a child watch on `/B`, resumed on connection 2.
fn resumed_with_watches() -> Play {
    let mut play = Play::connected();
    play.asks(1, 1, watch("/a"));
    play.replies(1, 1, 3);
    play.asks(1, 2, Request::GetChildren(GetChildren { path: "/B".to_owned(), watch: true }));
    play.replies(1, 2, 3);
    play.ends(1, End::Peer);
    play.resumes(3);
    play
}
