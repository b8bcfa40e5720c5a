//! A server of 3.4: what it does not know is sent at most once.

use zoolet_proto::CreateMode;
use zoolet_proto::records::{Create, Op, OpResult};

use super::*;
use crate::features::ServerFeature;

fn record(path: &str, mode: CreateMode) -> Create {
    Create { path: path.into(), data: Some(Bytes::from_static(b"three")), acl: None, flags: mode.code() }
}

fn create2(path: &str) -> Request {
    Request::Create2(record(path, CreateMode::EphemeralSequential))
}

/// Connects to a host of this name.
fn connect(harness: &mut Harness, host: &str) {
    while harness.session.wanted_link() != WantedLink::Dialing {
        harness.now = harness.session.next_timeout().expect("a time for the next attempt");
        harness.session.handle_timeout(harness.now);
    }
    harness.session.handle_dialing(Some(host.into()));
    harness.connect();
    harness.frames();
}

/// A harness whose server has shown that it does not know create2.
fn at_3_4() -> Harness {
    let mut harness = Harness::with_two_hosts(settings());
    connect(&mut harness, "old");
    harness.call(create2("/a"));
    harness.refuse_at(1, -1, ErrorCode::Unimplemented);
    connect(&mut harness, "old");
    harness.reply(harness.last_xid(), 1, Reply::Created("/a0000000000".into()));
    harness.frames();
    harness
}

#[test]
fn a_create_that_3_4_does_not_know_is_executed_as_the_one_it_knows() {
    let mut harness = Harness::up();
    let mut created = harness.call(create2("/a"));
    let (mut write, mut read) = (harness.call(set("/b")), harness.call(get("/b")));
    harness.frames();
    harness.refuse_at(1, -1, ErrorCode::Unimplemented);
    assert!(created.is_open());
    assert!(write.error().may_have_applied(), "its reply is lost with the connection");
    assert_eq!(harness.state(), SessionState::Disconnected);

    let before = harness.now;
    harness.connect();
    assert_eq!(harness.now, before, "at once");
    let plain = Request::Create(record("/a", CreateMode::EphemeralSequential));
    assert_eq!(harness.sent(), [sync("/"), plain, get("/b")]);
    let last = harness.last_xid();
    harness.reply(last - 2, 6, Reply::Synced(Some("/".into())));
    harness.reply(last - 1, 7, Reply::Created("/a0000000003".into()));
    harness.reply(last, 8, data());
    assert!(read.outcome().expect("an outcome").is_ok());
    let created = created.outcome().expect("an outcome").expect("success");
    let stat = Stat {
        czxid: Zxid(7),
        mzxid: Zxid(7),
        pzxid: Zxid(7),
        data_length: 5,
        ephemeral_owner: SessionId(5),
        ..Stat::default()
    };
    assert_eq!(created.reply, Reply::Created2("/a0000000003".into(), stat));
    assert!(matches!(created.extra.as_deref(), Some(ReplyExtra::Sequence(3))));

    harness.call(Request::Create2(record("/p", CreateMode::Persistent)));
    assert_eq!(harness.sent(), [Request::Create(record("/p", CreateMode::Persistent))]);
}

#[test]
fn such_a_create_is_executed_in_its_place() {
    for leave in [false, true] {
        let mut harness = Harness::up();
        let (_before, _create) = (harness.call(get("/a")), harness.call(create2("/a")));
        let _after = harness.call(get("/b"));
        if leave {
            harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
        }
        let _last = harness.call(get("/c"));
        harness.frames();
        harness.refuse_at(2, -1, ErrorCode::Unimplemented);
        harness.connect();
        let plain = Request::Create(record("/a", CreateMode::EphemeralSequential));
        assert_eq!(harness.sent(), [get("/a"), plain, get("/b"), get("/c")]);
    }
}

#[test]
fn a_multi_with_such_a_create_is_executed_as_one_without() {
    let mut harness = Harness::up();
    let ops = |op: fn(Create) -> Op| Request::Multi(vec![op(record("/a", CreateMode::Persistent))]);
    let mut multi = harness.call(ops(Op::Create2));
    harness.frames();
    harness.refuse(1, ErrorCode::MarshallingError);
    assert!(multi.is_open());
    harness.connect();
    assert_eq!(harness.sent(), [ops(Op::Create)]);
    harness.reply(harness.last_xid(), 7, Reply::Multi(vec![OpResult::Create("/a".into())]));
    let reply = multi.outcome().expect("an outcome").expect("success").reply;
    assert_eq!(reply, Reply::Multi(vec![OpResult::Create("/a".into())]));

    let mut malformed = harness.call(ops(Op::Create2));
    harness.refuse(harness.last_xid(), ErrorCode::MarshallingError);
    assert_eq!(malformed.error().code(), Some(ErrorCode::MarshallingError), "not twice");
}

#[test]
fn a_failed_multi_at_a_server_that_knows_create2_is_no_sign_of_an_old_one() {
    let mut harness = Harness::up();
    harness.call(create2("/a"));
    harness.reply(1, 1, Reply::Created2("/a0000000000".into(), Stat::default()));
    let mut multi = harness.call(Request::Multi(vec![Op::Create2(record("/a", CreateMode::Persistent))]));
    harness.refuse(2, ErrorCode::MarshallingError);
    assert_eq!(multi.error().code(), Some(ErrorCode::MarshallingError));
    assert_eq!(harness.shared.supports(ServerFeature::Create2), Some(true));
}

#[test]
fn an_answer_to_something_newer_shows_that_a_server_knows_create2_after_all() {
    let mut harness = at_3_4();
    harness.call(add_watch("/p", 0));
    harness.reply(harness.last_xid(), 1, Reply::WatchAdded);
    assert_eq!(harness.shared.supports(ServerFeature::Create2), Some(true));
    harness.frames();
    harness.call(create2("/b"));
    assert_eq!(harness.sent(), [create2("/b")]);
}

#[test]
fn what_else_3_4_does_not_know_is_refused_without_its_word() {
    let mut harness = at_3_4();
    let container = Request::CreateContainer(record("/c", CreateMode::Container));
    let error = harness.call(container).error();
    assert_eq!(error.code(), Some(ErrorCode::Unimplemented));
    assert!(!error.may_have_applied());
    let mut watched = harness.call(get_watched("/a"));
    harness.reply(harness.last_xid(), 8, data());
    drop(watched.watch());
    harness.settle();
    assert_eq!(harness.sent(), [get_watched("/a")], "the watch that nobody uses is not removed");
    harness.event(9, EventType::NodeDataChanged, "/a");
    assert_eq!(harness.state(), SessionState::Connected);
}

#[test]
fn one_shot_watches_survive_a_server_that_has_no_persistent_ones() {
    let mut harness = Harness::with_two_hosts(settings());
    connect(&mut harness, "new");
    let mut calls = [harness.call(get_watched("/w")), harness.call(add_watch("/p", 0))];
    harness.reply(1, 1, data());
    harness.reply(2, 1, Reply::WatchAdded);
    let (mut watch, stream) = (calls[0].watch(), calls[1].stream());
    harness.cut();
    harness.frames();
    harness.connect();
    let sent = harness.sent();
    assert!(matches!(&sent[..], [Request::SetWatches(_), Request::SetWatches2(_)]), "{sent:?}");
    // Ahead of the answer to the other, before it closes the connection.
    harness.refuse_at(Xid::SET_WATCHES.0, -1, ErrorCode::Unimplemented);
    assert!(matches!(next(&stream), Some(WatchUpdate::Missed)));
    assert!(matches!(next(&stream), Some(WatchUpdate::Ended(Error::WatchRemoved(_)))));
    harness.cut();
    harness.connect();
    assert_eq!(harness.sent(), [set_watches(1, &["/w"])]);
    harness.event(2, EventType::NodeDataChanged, "/w");
    assert!(matches!(event_of(&mut watch), Some(Ok(EventType::NodeDataChanged))));
}

#[test]
fn a_server_that_is_known_to_have_no_persistent_watches_is_not_asked_for_them_again() {
    let mut harness = Harness::with_two_hosts(settings());
    connect(&mut harness, "old");
    harness.call(add_watch("/p", 0));
    harness.refuse_at(1, -1, ErrorCode::Unimplemented);
    harness.cut();
    connect(&mut harness, "new");
    let mut call = harness.call(add_watch("/p", 0));
    harness.reply(harness.last_xid(), 1, Reply::WatchAdded);
    let stream = call.stream();
    harness.cut();
    while harness.session.wanted_link() != WantedLink::Dialing {
        harness.pass(MS);
    }
    harness.session.handle_dialing(Some("old".into()));
    harness.frames();
    harness.connect();
    assert_eq!(harness.sent(), []);
    assert!(matches!(next(&stream), Some(WatchUpdate::Missed)));
    assert!(matches!(next(&stream), Some(WatchUpdate::Ended(Error::WatchRemoved(_)))));
}

#[test]
fn another_server_is_asked_for_itself_and_a_known_one_not_again() {
    let mut harness = at_3_4();
    let supports = |harness: &Harness| harness.shared.supports(ServerFeature::Create2);
    assert_eq!(supports(&harness), Some(false));
    harness.cut();
    connect(&mut harness, "new");
    assert_eq!(supports(&harness), None);
    harness.call(create2("/a"));
    assert_eq!(harness.sent(), [create2("/a")]);
    harness.reply(harness.last_xid(), 9, Reply::Created2("/a0000000004".into(), Stat::default()));
    assert_eq!(supports(&harness), Some(true));
    harness.cut();
    connect(&mut harness, "old");
    harness.call(create2("/a"));
    assert_eq!(harness.sent(), [Request::Create(record("/a", CreateMode::EphemeralSequential))]);
}
