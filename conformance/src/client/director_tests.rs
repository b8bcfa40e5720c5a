//! What is done to connections, and when a scenario counts as exercised.

use zoolet_proto::records::{AuthPacket, ConnectResponse, Exists, PASSWORD_LEN};
use zoolet_proto::{Incoming, ReplyHeader, Request, SessionId, Stat, Xid};

use super::*;
use crate::wire::conversation::FromClient;

const PORT: usize = 1;

/// A connection of a client, and what the director does to it.
struct Play {
    director: Director,
    judge: Judge,
    progress: Progress,
    connections: usize,
}

impl Play {
    fn new(disturbance: Disturbance) -> Self {
        let mut play = Self {
            director: Director::new(disturbance),
            judge: Judge::default(),
            progress: Progress::default(),
            connections: 0,
        };
        play.connects();
        play
    }

    fn connects(&mut self) {
        self.progress = Progress::default();
        self.connections = self.judge.open();
        let session = SessionId(7);
        let password = vec![0; PASSWORD_LEN].into();
        self.sees(FromServer::Connected(ConnectResponse {
            protocol_version: 0,
            timeout: 6_000,
            session,
            password,
            read_only: None,
        }));
    }

    fn sees(&mut self, message: FromServer) -> Disposition {
        let link = (self.connections, PORT);
        let disposition =
            self.director.disposition(&message, Duration::ZERO, &self.judge, link, &mut self.progress);
        if disposition != Disposition::DropThenCut {
            self.judge.server_sent(self.connections, Duration::ZERO, &message);
        }
        disposition
    }

    fn replies(&mut self, op: OpCode, zxid: i64) -> Disposition {
        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(zxid), err: 0 };
        let reply = match op {
            OpCode::GetData => Reply::Data(None, Stat::default()),
            OpCode::Exists => Reply::Stat(Stat::default()),
            _ => Reply::Empty,
        };
        self.sees(FromServer::Reply { header, number: None, op: Some(op.code()), reply: Ok(reply) })
    }

    /// The client asks for something, and gets the reply.
    fn asks(&mut self, request: Request) -> Disposition {
        let op = request.op();
        let incoming = Incoming { xid: Xid(1), op: op.code(), body: Ok(request) };
        let message = Ok(FromClient::Request(incoming));
        self.judge.client_sent(self.connections, Duration::ZERO, &Bytes::new(), &message);
        self.replies(op, 1)
    }

    /// Watches for the creation of a znode whose path has `length` bytes.
    fn watches(&mut self, length: usize) -> Disposition {
        self.asks(Request::Exists(Exists { path: format!("/{}", "x".repeat(length - 1)), watch: true }))
    }

    #[track_caller]
    fn is_not_exercised(&self, expected: &str) {
        let reason = self.director.exercised(&self.judge, self.connections).expect_err(expected);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn the_tenth_reply_is_the_last_of_the_first_connection_only() {
    let mut play = Play::new(Disturbance::Reconnect);
    play.is_not_exercised("asked for nothing");
    for _ in 0..9 {
        assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
    }
    assert_eq!(play.replies(OpCode::Ping, 1), Disposition::Deliver);
    play.is_not_exercised("too few requests");
    assert_eq!(play.replies(OpCode::GetData, 1), Disposition::DeliverThenCut);
    play.is_not_exercised("before it was connected again");
    play.connects();
    for _ in 0..20 {
        assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
    }
    assert_eq!(play.director.exercised(&play.judge, 2), Ok(()));
}

#[test]
fn the_reply_that_is_lost_is_that_of_a_write() {
    let mut play = Play::new(Disturbance::LostReply);
    for _ in 0..12 {
        assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
    }
    play.is_not_exercised("no write");
    assert_eq!(play.replies(OpCode::SetData, 2), Disposition::DropThenCut);
    assert_eq!(play.judge.seen, Zxid(1));
}

#[test]
fn a_port_from_which_the_session_has_moved_refuses() {
    let mut play = Play::new(Disturbance::Moved);
    assert!(play.director.admits(PORT));
    for _ in 0..10 {
        play.replies(OpCode::GetData, 1);
    }
    assert!(!play.director.admits(PORT));
    assert!(play.director.admits(PORT + 1));
}

#[test]
fn the_next_server_after_a_cut_is_behind_and_answers_only_who_has_seen_less() {
    let mut play = Play::new(Disturbance::Lagging);
    for _ in 0..10 {
        play.replies(OpCode::GetData, 9);
    }
    let connect = |zxid| ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(zxid),
        timeout: 6_000,
        session: SessionId(7),
        password: None,
        read_only: None,
    };
    play.is_not_exercised("before it tried another server");
    assert!(!play.director.answers(2, &connect(9), &play.judge));
    assert!(play.director.answers(2, &connect(8), &play.judge));
    assert!(play.director.answers(0, &connect(9), &play.judge));
}

#[test]
fn the_first_two_connections_are_refused() {
    let mut director = Director::new(Disturbance::RefusedConnects);
    assert_eq!([0, 1, 2].map(|port| director.admits(port)), [false, false, true]);
}

#[test]
fn a_scenario_about_watches_needs_one() {
    for disturbance in [Disturbance::Watches, Disturbance::ManyWatches] {
        let mut play = Play::new(disturbance);
        for _ in 0..20 {
            assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
        }
        play.is_not_exercised("the program set no watch");
    }
}

#[test]
fn watches_that_fit_a_frame_are_not_many() {
    let mut play = Play::new(Disturbance::ManyWatches);
    for _ in 0..20 {
        assert_eq!(play.watches(1_000), Disposition::Deliver);
    }
    // One path can be watched once.
    play.is_not_exercised("the program watched at once have 1000 bytes, and fit a frame of 1048575");
}

#[test]
fn watches_of_a_connection_that_is_never_cut_are_named_as_such() {
    // What is too long for a frame, by the last reply.
    let mut play = Play::new(Disturbance::ManyWatches);
    assert_eq!(play.watches(DEFAULT_MAX_FRAME + 1), Disposition::Deliver);
    play.is_not_exercised("too few requests while its watches were set");
    for _ in 0..8 {
        assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
    }
    assert_eq!(play.replies(OpCode::GetData, 1), Disposition::DeliverThenCut);

    let mut play = Play::new(Disturbance::Watches);
    for _ in 0..9 {
        assert_eq!(play.watches(10), Disposition::Deliver);
    }
    play.is_not_exercised("too few requests while its watches were set");
}

#[test]
fn a_scenario_about_credentials_needs_some() {
    let mut play = Play::new(Disturbance::Auth);
    for _ in 0..20 {
        assert_eq!(play.replies(OpCode::GetData, 1), Disposition::Deliver);
    }
    play.is_not_exercised("gave no credentials that were accepted");
    let (scheme, auth) = (Some("digest".to_owned()), Some(Bytes::from_static(b"u:p")));
    play.asks(Request::Auth(AuthPacket { kind: 0, scheme, auth }));
    play.is_not_exercised("too few requests after it gave credentials");
    assert_eq!(play.replies(OpCode::GetData, 1), Disposition::DeliverThenCut);
}
