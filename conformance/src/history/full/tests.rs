//! Histories that are written by hand.

use zoolet_proto::records::{
    AddWatch, AuthPacket, Create, GetData, RemoveWatches, SetData, SetWatches, WatchedEvent,
};
use zoolet_proto::{
    AclList, ErrorCode, EventType, Incoming, KeeperState, Reply, ReplyHeader, Request, SessionId, Stat, Xid,
    Zxid, jute,
};

use super::*;
use crate::history::entry::{Conn, HistoryEvent};
use crate::history::verdict::Rule;

#[derive(Default)]
struct Script(Vec<HistoryEntry>);

impl Script {
    fn event(&mut self, conn: usize, event: HistoryEvent) -> &mut Self {
        self.0.push(HistoryEntry { at: self.0.len() as u64, conn: Conn(conn), event });
        self
    }

    /// A new session, which takes a zxid.
    fn opens(&mut self, conn: usize) -> &mut Self {
        let session = SessionId(conn as i64 + 1);
        let request = HistoryEvent::ConnectRequest { session: SessionId(0), last_zxid_seen: Zxid(0) };
        self.event(conn, request).event(conn, HistoryEvent::ConnectResponse { session })
    }

    fn asks(&mut self, conn: usize, xid: i32, request: Request) -> &mut Self {
        let incoming = Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request) };
        self.event(conn, HistoryEvent::Request(incoming))
    }

    fn replies(&mut self, conn: usize, xid: i32, zxid: i64, reply: Reply) -> &mut Self {
        self.event(conn, HistoryEvent::Reply(ReplyHeader::ok(Xid(xid), Zxid(zxid)), Ok(reply)))
    }

    fn notifies(&mut self, conn: usize, zxid: i64, kind: EventType) -> &mut Self {
        let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path: "/a".to_owned() };
        self.event(conn, HistoryEvent::Event(Zxid(zxid), event))
    }

    /// Opens a session, and creates `/a` at zxid 2.
    fn creates(&mut self) -> &mut Self {
        let create = Create { path: "/a".to_owned(), data: None, acl: Some(AclList::OPEN), flags: 0 };
        self.opens(0).asks(0, 1, Request::Create(create)).replies(0, 1, 2, Reply::Created("/a".to_owned()))
    }

    fn rule(&self) -> Option<Rule> {
        Checker::new().check(&self.0).err().map(|error| error.rule().unwrap_or_else(|| panic!("{error}")))
    }
}

#[test]
fn the_reply_to_an_auth_may_come_between_missed_events_and_the_reply_of_their_set_watches() {
    let auth = AuthPacket { kind: 0, scheme: Some("digest".to_owned()), auth: None };
    let set = SetWatches {
        relative_zxid: Zxid(1),
        data: vec!["/a".to_owned()],
        exist: Vec::new(),
        child: Vec::new(),
    };
    let mut script = Script::default();
    script.creates().asks(0, -8, Request::SetWatches(set)).asks(0, -4, Request::Auth(auth));
    script.notifies(0, -1, EventType::NodeDataChanged).replies(0, -4, 0, Reply::Empty);
    assert_eq!(script.replies(0, -8, 2, Reply::Empty).rule(), None);
}

#[test]
fn no_event_comes_of_a_read_whose_reply_has_not_come() {
    let read = Request::GetData(GetData { path: "/a".to_owned(), watch: true });
    let set = Request::SetData(SetData { path: "/a".to_owned(), data: None, version: -1 });
    let mut script = Script::default();
    script.creates().opens(1).asks(0, 2, read).asks(1, 1, set);
    script.notifies(0, 4, EventType::NodeDataChanged).event(0, HistoryEvent::Ended);
    let stat = Stat { czxid: Zxid(2), mzxid: Zxid(4), pzxid: Zxid(2), version: 1, ..zero() };
    assert_eq!(script.replies(1, 1, 4, Reply::Stat(stat)).rule(), Some(Rule::EventExpected));
}

#[test]
fn a_watch_without_a_path_is_removed_as_any_other() {
    let mut script = Script::default();
    script.opens(0).asks(0, 1, Request::AddWatch(AddWatch { path: None, mode: 0 }));
    script.replies(0, 1, 1, Reply::WatchAdded);
    let any = RemoveWatches { path: None, kind: 3 };
    script.asks(0, 2, Request::RemoveWatches(any.clone())).replies(0, 2, 1, Reply::Empty);
    let none = ReplyHeader::error(Xid(3), Zxid(1), ErrorCode::NoWatcher);
    script.asks(0, 3, Request::CheckWatches(any)).event(0, HistoryEvent::Reply(none, Ok(Reply::Empty)));
    assert_eq!(script.rule(), None);
}

fn zero() -> Stat {
    jute::parse(&[0; 68]).expect("a Stat has 68 bytes")
}
