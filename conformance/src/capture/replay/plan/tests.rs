//! Captures as lists of records, and the order in which they are replayed.

use bytes::Bytes;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, Create, Delete, GetData, Op, OpResult};
use zoolet_proto::{AclList, EventType, Reply, ReplyHeader, Request, SessionId, Stat, Xid, Zxid};

use super::*;
use crate::capture::format::{Record, RecordKind};
use crate::wire::encoding::payload;
use crate::wire::fields::Fields;

/// A capture that is written by hand. Its records are a millisecond apart.
#[derive(Default)]
struct Script {
    reading: Reading,
    millis: u64,
}

impl Script {
    fn record(&mut self, connection: u32, kind: RecordKind, content: Bytes) -> &mut Self {
        self.millis += 1;
        let time = Duration::from_millis(self.millis);
        self.reading.add(Record { time, connection, kind, content });
        self
    }

    fn wait(&mut self, millis: u64) -> &mut Self {
        self.millis += millis;
        self
    }

    fn connect(&mut self, connection: u32) -> &mut Self {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: 1_000,
            session: SessionId(0),
            password: None,
            read_only: None,
        };
        self.record(connection, RecordKind::Frame(Side::Client), payload(|out| request.encode_frame(out)))
    }

    /// The session has the number of the connection.
    fn connected(&mut self, connection: u32) -> &mut Self {
        let session = SessionId(connection.into());
        let password = Bytes::from_static(&[0; 16]);
        let response =
            ConnectResponse { protocol_version: 0, timeout: 1_000, session, password, read_only: None };
        self.record(connection, RecordKind::Frame(Side::Server), payload(|out| response.encode_frame(out)))
    }

    fn ask(&mut self, connection: u32, xid: i32, request: &Request) -> &mut Self {
        let frame = payload(|out| request.encode_frame(Xid(xid), out));
        self.record(connection, RecordKind::Frame(Side::Client), frame)
    }

    fn reply(&mut self, connection: u32, xid: i32, zxid: i64, reply: &Reply) -> &mut Self {
        let header = ReplyHeader::ok(Xid(xid), Zxid(zxid));
        self.record(
            connection,
            RecordKind::Frame(Side::Server),
            payload(|out| reply.encode_frame(header, out)),
        )
    }

    fn created(&mut self, connection: u32, xid: i32, zxid: i64, path: &str) -> &mut Self {
        self.reply(connection, xid, zxid, &Reply::Created(path.to_owned()))
    }

    /// The steps in their order: connection, and the path or what else it is.
    fn order(&mut self) -> Vec<(u32, String)> {
        named(&Plan::of(std::mem::take(&mut self.reading)))
    }
}

fn named(plan: &Plan) -> Vec<(u32, String)> {
    let named = |step: &Step| match &step.action {
        Action::Connect { .. } => "connect".to_owned(),
        Action::Request { request, .. } => {
            request.body.as_ref().ok().and_then(|body| body.path()).unwrap_or("?").to_owned()
        }
        Action::Bytes { .. } => "bytes".to_owned(),
        Action::Cut => "cut".to_owned(),
        Action::Ended => "ended".to_owned(),
        Action::Expire { session } => format!("expire {session}"),
        Action::Delete { path } => format!("delete {path}"),
        Action::Refuse => "refuse".to_owned(),
    };
    plan.steps.iter().map(|step| (step.moment.connection, named(step))).collect()
}

fn create(path: &str, flags: i32) -> Request {
    Request::Create(Create { path: path.to_owned(), data: None, acl: Some(AclList::OPEN), flags })
}

fn get(path: &str) -> Request {
    Request::GetData(GetData { path: path.to_owned(), watch: true })
}

fn steps(steps: &[(u32, &str)]) -> Vec<(u32, String)> {
    steps.iter().map(|(connection, what)| (*connection, (*what).to_owned())).collect()
}

#[test]
fn two_clients_that_pipeline_are_replayed_in_the_order_of_zxids() {
    let data = Reply::Data(None, zero());
    let mut script = Script::default();
    // The sessions are 1 and 2, whichever is which, as 3 is a create.
    script.connect(1).connect(2).connected(2).connected(1);
    script.ask(1, 1, &create("/a", 0)).ask(1, 2, &get("/b")).ask(1, 3, &create("/c", 0));
    script.ask(2, 1, &get("/c")).ask(2, 2, &create("/b", 0)).ask(2, 3, &get("/a"));
    // The server has done: /a, /b, then both reads of connection 2 around it, and /c.
    script.created(1, 1, 3, "/a").reply(1, 2, 4, &data).created(1, 3, 5, "/c");
    script.reply(2, 1, 3, &data).created(2, 2, 4, "/b").reply(2, 3, 5, &data);
    let expected = steps(&[
        (1, "connect"),
        (2, "connect"),
        (1, "/a"),
        (2, "/c"),
        (2, "/b"),
        (1, "/b"),
        (1, "/c"),
        (2, "/a"),
    ]);
    assert_eq!(script.order(), expected);
}

/// The two directions of a connection are recorded by separate tasks.
#[test]
fn a_session_whose_response_is_recorded_late_was_opened_before_what_shows_it() {
    let mut create_of_other = Script::default();
    create_of_other.connect(1).connected(1).connect(2).ask(1, 1, &create("/a", 0)).created(1, 1, 13, "/a");
    create_of_other.connected(2).ask(1, 2, &create("/b", 0)).created(1, 2, 14, "/b");
    let mut own_read = Script::default();
    own_read.connect(1).connected(1).connect(2).ask(1, 1, &create("/a", 0)).created(1, 1, 13, "/a");
    own_read.connected(2).ask(2, 1, &get("/b")).reply(2, 1, 13, &Reply::Data(None, zero()));
    let mut later_reply = Script::default();
    later_reply.connect(1).connected(1).connect(2).connected(2);
    later_reply.ask(1, 1, &create("/a", 0)).ask(2, 1, &create("/b", 0));
    later_reply.created(2, 1, 14, "/b").created(1, 1, 13, "/a");
    for (connection, mut script) in [(1, create_of_other), (2, own_read), (2, later_reply)] {
        let plan = Plan::of(std::mem::take(&mut script.reading));
        let expected = steps(&[(1, "connect"), (2, "connect"), (1, "/a"), (connection, "/b")]);
        assert_eq!((plan.base, named(&plan)), (10, expected));
    }
}

#[test]
fn a_session_is_opened_where_no_other_transaction_is() {
    let mut script = Script::default();
    script.connect(1).connected(1).ask(1, 1, &create("/a", 0)).created(1, 1, 2, "/a");
    // The second session is 4, between two creates that are in flight at the same time.
    script.ask(1, 2, &create("/b", 0)).ask(1, 3, &create("/c", 0)).connect(2).connected(2);
    script.created(1, 2, 3, "/b").created(1, 3, 5, "/c");
    let expected = steps(&[(1, "connect"), (1, "/a"), (1, "/b"), (2, "connect"), (1, "/c")]);
    assert_eq!(script.order(), expected);
}

#[test]
fn a_transaction_whose_reply_was_lost_is_replayed_only_if_it_was_executed() {
    for (zxid, is_executed) in [(3, false), (4, true)] {
        let mut script = Script::default();
        script.connect(1).connected(1).ask(1, 1, &create("/a", 0)).created(1, 1, 2, "/a");
        script.connect(2).ask(1, 2, &get("/a")).ask(1, 3, &create("/lost", 0));
        script.record(1, RecordKind::Ended(Side::Client), Bytes::new());
        script.connected(2).ask(2, 1, &create("/b", 0)).created(2, 1, zxid + 1, "/b");
        let order = script.order();
        assert_eq!(order.contains(&(1, "/lost".to_owned())), is_executed, "{order:?}");
        // A read without a reply has no effect.
        assert_eq!(order.iter().filter(|(_, what)| what == "/a").count(), 1);
    }
}

#[test]
fn a_session_whose_ephemeral_vanishes_is_ended_there() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    script.ask(1, 1, &create("/e", 1)).created(1, 1, 3, "/e");
    script.record(1, RecordKind::Ended(Side::Client), Bytes::new());
    script.ask(2, 1, &get("/e")).reply(2, 1, 3, &Reply::Data(None, zero())).wait(1_200);
    let event = payload(|out| Reply::encode_event(Zxid(4), EventType::NodeDeleted, "/e", out));
    script.record(2, RecordKind::Frame(Side::Server), event);
    script.ask(2, 2, &create("/b", 0)).created(2, 2, 5, "/b");
    let expected = steps(&[
        (1, "connect"),
        (2, "connect"),
        (1, "/e"),
        (1, "cut"),
        (2, "/e"),
        (0, "expire 1"),
        (2, "/b"),
    ]);
    assert_eq!(script.order(), expected);
}

/// The events of such a server have the zxid -1.
#[test]
fn a_session_whose_ephemeral_vanishes_before_a_server_without_zxids_of_events_expires() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    script.ask(1, 1, &create("/e", 1)).created(1, 1, 3, "/e");
    script.record(1, RecordKind::Ended(Side::Client), Bytes::new()).wait(1_200);
    let event = payload(|out| Reply::encode_event(Zxid(-1), EventType::NodeDeleted, "/e", out));
    script.record(2, RecordKind::Frame(Side::Server), event);
    script.ask(2, 1, &create("/b", 0)).created(2, 1, 5, "/b");
    let order = script.order();
    assert!(order.contains(&(0, "expire 1".to_owned())), "{order:?}");
}

/// A client that set its watches again has got it first, without a zxid.
#[test]
fn an_ephemeral_that_vanishes_is_of_its_session_whoever_is_told_first() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    script.ask(1, 1, &create("/e", 1)).created(1, 1, 3, "/e");
    for (connection, zxid) in [(2, -1), (OBSERVER, 4)] {
        let event = payload(|out| Reply::encode_event(Zxid(zxid), EventType::NodeDeleted, "/e", out));
        script.record(connection, RecordKind::Frame(Side::Server), event);
    }
    script.ask(2, 1, &create("/b", 0)).created(2, 1, 5, "/b");
    let expected = steps(&[(1, "connect"), (2, "connect"), (1, "/e"), (0, "expire 1"), (2, "/b")]);
    assert_eq!(script.order(), expected);
}

#[test]
fn an_ensemble_that_begins_an_epoch_has_refused_nothing_between_the_two() {
    let mut script = Script::default();
    let epoch = 1 << 32;
    script.connect(1).connected(1).ask(1, 1, &create("/c", 4)).created(1, 1, 2, "/c");
    let event = payload(|out| Reply::encode_event(Zxid(3), EventType::NodeDeleted, "/c", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    script.ask(1, 2, &create("/a", 0)).created(1, 2, epoch + 1, "/a");
    script.ask(1, 3, &create("/b", 0)).created(1, 3, epoch + 3, "/b");
    let expected = [(1, "connect"), (1, "/c"), (0, "delete /c"), (1, "/a"), (0, "refuse"), (1, "/b")];
    let order = script.order();
    assert!(order == steps(&expected), "{} steps: {:?}", order.len(), &order[..order.len().min(9)]);
}

#[test]
fn the_end_of_a_connection_whose_first_frame_does_not_decode_is_replayed() {
    for (end, what) in [(RecordKind::Ended(Side::Server), "ended"), (RecordKind::Ended(Side::Client), "cut")]
    {
        let mut script = Script::default();
        script.record(1, RecordKind::Frame(Side::Client), Bytes::from_static(b"junk"));
        script.record(1, end, Bytes::new());
        assert_eq!(script.order(), steps(&[(1, "bytes"), (1, what)]));
    }
}

#[test]
fn an_ephemeral_of_a_multi_ends_with_its_session_as_well() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    let Request::Create(ephemeral) = create("/e", 1) else { unreachable!("a create") };
    script.ask(1, 1, &Request::Multi(vec![Op::Create(ephemeral)]));
    script.reply(1, 1, 3, &Reply::Multi(vec![OpResult::Create("/e".to_owned())]));
    script.record(1, RecordKind::Ended(Side::Client), Bytes::new()).wait(1_200);
    let event = payload(|out| Reply::encode_event(Zxid(4), EventType::NodeDeleted, "/e", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    script.ask(2, 1, &create("/b", 0)).created(2, 1, 5, "/b");
    let order = script.order();
    assert!(order.contains(&(0, "expire 1".to_owned())), "{order:?}");
}

#[test]
fn a_znode_with_the_name_of_a_former_ephemeral_is_deleted_as_what_it_is() {
    let mut script = Script::default();
    script.connect(1).connected(1);
    script.ask(1, 1, &create("/e", 1)).created(1, 1, 2, "/e");
    // Nobody sees that it is deleted.
    let delete = Request::Delete(Delete { path: "/e".to_owned(), version: -1 });
    script.ask(1, 2, &delete).reply(1, 2, 3, &Reply::Empty);
    script.ask(1, 3, &create("/e", 0)).created(1, 3, 4, "/e");
    let event = payload(|out| Reply::encode_event(Zxid(5), EventType::NodeDeleted, "/e", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    script.ask(1, 4, &create("/b", 0)).created(1, 4, 6, "/b");
    let order = script.order();
    assert!(order.contains(&(0, "delete /e".to_owned())), "{order:?}");
}

/// A lock that was released, for example: the event of that says nothing about the end of the session.
#[test]
fn a_session_that_has_deleted_its_ephemeral_itself_still_expires() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    script.ask(1, 1, &create("/e", 1)).created(1, 1, 3, "/e");
    let delete = Request::Delete(Delete { path: "/e".to_owned(), version: -1 });
    script.ask(1, 2, &delete).reply(1, 2, 4, &Reply::Empty);
    let event = payload(|out| Reply::encode_event(Zxid(4), EventType::NodeDeleted, "/e", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    script.record(1, RecordKind::Ended(Side::Client), Bytes::new()).wait(1_200);
    script.ask(2, 1, &create("/b", 0)).created(2, 1, 6, "/b");
    let expected = steps(&[
        (1, "connect"),
        (2, "connect"),
        (1, "/e"),
        (1, "/e"),
        (1, "cut"),
        (0, "expire 1"),
        (2, "/b"),
    ]);
    assert_eq!(script.order(), expected);
}

#[test]
fn what_the_server_deletes_by_itself_is_deleted_where_it_did() {
    let mut script = Script::default();
    let deleted = |script: &mut Script, zxid, path| {
        let event = payload(|out| Reply::encode_event(Zxid(zxid), EventType::NodeDeleted, path, out));
        script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    };
    script.connect(1).connected(1).ask(1, 1, &create("/c/a", 0)).created(1, 1, 2, "/c/a");
    // Long enough for the session to expire, if nothing else explained what happens.
    script.wait(1_200);
    deleted(&mut script, 4, "/c");
    deleted(&mut script, 3, "/c/a");
    script.ask(1, 3, &create("/b", 0)).created(1, 3, 5, "/b");
    // Deleted by a request.
    script.ask(1, 4, &get("/b")).reply(1, 4, 5, &Reply::Empty);
    deleted(&mut script, 5, "/b");
    let expected =
        steps(&[(1, "connect"), (1, "/c/a"), (0, "delete /c/a"), (0, "delete /c"), (1, "/b"), (1, "/b")]);
    assert_eq!(script.order(), expected);
}

#[test]
fn a_session_is_not_opened_where_the_server_deleted_something() {
    let mut script = Script::default();
    script.connect(1).connected(1).ask(1, 1, &create("/c", 4)).created(1, 1, 2, "/c").connect(2);
    let event = payload(|out| Reply::encode_event(Zxid(3), EventType::NodeDeleted, "/c", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event).connected(2);
    script.ask(2, 1, &create("/b", 0)).created(2, 1, 5, "/b");
    let expected = steps(&[(1, "connect"), (1, "/c"), (0, "delete /c"), (2, "connect"), (2, "/b")]);
    assert_eq!(script.order(), expected);
}

#[test]
fn a_transaction_of_the_server_that_deletes_nothing_is_refused_in_the_replay_as_well() {
    let mut script = Script::default();
    script.connect(1).connected(1).ask(1, 1, &create("/c", 4)).created(1, 1, 2, "/c");
    let event = payload(|out| Reply::encode_event(Zxid(3), EventType::NodeDeleted, "/c", out));
    script.record(OBSERVER, RecordKind::Frame(Side::Server), event);
    // Between them it was about to delete another one, which was no longer empty.
    script.ask(1, 2, &create("/a", 0)).created(1, 2, 4, "/a").ask(1, 3, &create("/b", 0));
    script.created(1, 3, 6, "/b");
    let expected = [(1, "connect"), (1, "/c"), (0, "delete /c"), (1, "/a"), (0, "refuse"), (1, "/b")];
    assert_eq!(script.order(), steps(&expected));
}

/// The write comes after the cut in the plan, so a replay would wait for its event in vain.
#[test]
fn an_event_that_comes_after_the_client_has_gone_is_not_waited_for() {
    let mut script = Script::default();
    script.connect(1).connected(1).ask(1, 1, &get("/a"));
    script.reply(1, 1, 1, &Reply::Data(None, zero())).record(
        1,
        RecordKind::Ended(Side::Client),
        Bytes::new(),
    );
    let event = payload(|out| Reply::encode_event(Zxid(2), EventType::NodeDataChanged, "/a", out));
    script.record(1, RecordKind::Frame(Side::Server), event);
    assert_eq!(Plan::of(script.reading).connections[&1].events, Vec::<Fields>::new());
}

#[test]
fn an_event_that_comes_late_does_not_hide_that_a_session_has_expired() {
    let mut script = Script::default();
    script.connect(1).connected(1).connect(2).connected(2);
    script.ask(2, 1, &create("/a", 0)).created(2, 1, 3, "/a").wait(1_200);
    script.ask(2, 2, &create("/b", 0)).created(2, 2, 5, "/b").wait(2_000);
    let event = payload(|out| Reply::encode_event(Zxid(3), EventType::NodeCreated, "/a", out));
    let order = script.record(2, RecordKind::Frame(Side::Server), event).order();
    assert!(order.contains(&(0, "expire 1".to_owned())), "{order:?}");
}

#[test]
fn a_transaction_before_any_session_could_expire_is_none_of_theirs() {
    let mut script = Script::default();
    script.connect(1).connected(1).ask(1, 1, &create("/a", 0)).created(1, 1, 2, "/a");
    script.ask(1, 2, &create("/b", 0)).created(1, 2, 4, "/b");
    assert_eq!(script.order(), steps(&[(1, "connect"), (1, "/a"), (1, "/b")]));
}

/// With a time that grows with the product of the two, this takes ten seconds and more.
#[test]
fn many_unexplained_transactions_in_a_long_capture_are_looked_at_in_one_pass() {
    let mut script = Script::default();
    script.connect(1).connected(1);
    for at in 1..30_000 {
        script.ask(1, at, &get("/a")).reply(1, at, 2 * i64::from(at), &Reply::Empty);
    }
    assert_eq!(script.order().len(), 30_000);
}

fn zero() -> Stat {
    zoolet_proto::jute::parse(&[0; 68]).expect("a Stat has 68 bytes")
}
