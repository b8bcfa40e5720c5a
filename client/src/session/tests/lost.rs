//! What happens to the calls of a lost connection, on the next one and for their callers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Wake, Waker};

use super::*;

#[test]
fn connections_after_a_lost_write_begin_with_a_sync_until_a_server_has_answered_one() {
    let mut harness = Harness::up();
    let _write = harness.call(set("/a"));
    for _ in 0..2 {
        harness.cut();
        harness.connect();
        assert_eq!(harness.sent(), [sync("/")]);
    }
    harness.refuse(harness.last_xid(), ErrorCode::ThrottledOp);
    harness.cut();
    harness.connect_to(true);
    assert_eq!(harness.sent(), [], "a server that is cut off would refuse it");
    harness.cut();
    harness.connect();
    assert_eq!(harness.sent(), [sync("/")]);
    harness.reply(harness.last_xid(), 5, Reply::Synced(Some("/".into())));
    harness.cut();
    harness.connect();
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_lost_sync_is_replaced_if_not_awaited_and_sent_again_otherwise() {
    let mut harness = Harness::up();
    drop(harness.call(sync("/a")));
    let _read = harness.call(get("/a"));
    harness.cut();
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [sync("/"), get("/a")]);

    let mut harness = Harness::up();
    let (_sync, _read) = (harness.call(sync("/a")), harness.call(get("/a")));
    harness.cut();
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [sync("/a"), get("/a")]);
}

#[test]
fn remove_watches_survives_its_caller_and_a_lost_connection() {
    let mut harness = Harness::up();
    let mut call = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let mut watch = call.watch();
    drop(harness.call(remove("/a", 2)));
    harness.cut();
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [set_watches(1, &["/a"]), remove("/a", 2)]);
    harness.reply(Xid::SET_WATCHES.0, 1, Reply::Empty);
    harness.reply(harness.last_xid(), 1, Reply::Empty);
    assert!(matches!(event_of(&mut watch), Some(Err(Error::WatchRemoved(_)))));
}

#[test]
fn a_removal_of_watches_that_timed_out_may_have_applied() {
    let mut harness = Harness::up();
    let mut removal = harness.call_within(remove("/a", 2), Some(MS));
    harness.pass(MS);
    assert!(removal.error().may_have_applied());
}

#[test]
fn a_close_is_not_confirmed_if_the_session_continues() {
    let mut harness = Harness::up();
    let _identity = harness.call(auth("u:p"));
    let mut close = harness.close();
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert!(matches!(close.error(), Error::AuthFailed(_)));

    let mut harness = Harness::up();
    let mut close = harness.close();
    harness.refuse(1, ErrorCode::NotReadOnly);
    assert_eq!(close.error().code(), Some(ErrorCode::NotReadOnly));
    assert_eq!(harness.state(), SessionState::Closed);

    let mut harness = Harness::up();
    let mut close = harness.close();
    harness.refuse(1, ErrorCode::SessionExpired);
    assert!(close.outcome().expect("an outcome").is_ok(), "an expired session is closed");
}

#[test]
fn a_session_that_has_moved_is_closed_where_it_is() {
    let mut harness = Harness::up();
    let mut close = harness.close();
    harness.refuse(1, ErrorCode::SessionMoved);
    assert!(close.is_open());
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [Request::CloseSession]);
    harness.reply(harness.last_xid(), 2, Reply::Empty);
    assert!(close.outcome().expect("an outcome").is_ok());
}

/// Records the state of a session at the moment when a caller is woken.
struct Spy(Arc<SharedState>, Mutex<Option<SessionState>>);

impl Wake for Spy {
    fn wake(self: Arc<Self>) {
        *self.1.lock().expect("no panic") = Some(self.0.state());
    }
}

impl Spy {
    fn on(harness: &Harness, pending: &mut Pending) -> Arc<Self> {
        let spy = Arc::new(Self(Arc::clone(&harness.shared), Mutex::default()));
        let waker = Waker::from(Arc::clone(&spy));
        let PendingReply::Sent { outcome, .. } = &mut pending.0 else { panic!("it was sent") };
        assert!(Pin::new(outcome).poll(&mut Context::from_waker(&waker)).is_pending());
        spy
    }

    fn saw(&self) -> Option<SessionState> {
        *self.1.lock().expect("no panic")
    }
}

#[test]
fn a_session_is_visibly_over_before_any_call_fails_with_it() {
    let mut harness = Harness::up();
    let mut identity = harness.call(auth("u:p"));
    let spy = Spy::on(&harness, &mut identity);
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(spy.saw(), Some(SessionState::AuthFailed));

    let mut harness = Harness::up();
    let mut close = harness.close();
    let spy = Spy::on(&harness, &mut close);
    harness.pass(TIMEOUT);
    assert_eq!(spy.saw(), Some(SessionState::Closed));
}

#[test]
fn a_silent_host_leaves_time_for_the_others_however_long_the_session_timeout() {
    let minutes = |n: u32| n * Duration::from_secs(60);
    let mut settings = settings();
    (settings.session_timeout, settings.connect_timeout) = (minutes(10), minutes(1));
    let mut harness = Harness::with_two_hosts(settings);
    harness.session.handle_timeout(harness.now);
    assert_eq!(harness.session.next_timeout(), Some(harness.now + minutes(1) / 3));
}

#[test]
fn a_multi_is_no_success_unless_each_of_its_parts_is_answered() {
    use records::{Op, OpResult};
    let delete = Op::Delete(records::Delete { path: "/a".into(), version: -1 });
    let get = Op::GetData(records::GetData { path: "/a".into(), watch: false });
    let read = |op| Request::MultiRead(vec![op]);
    for (request, results) in [
        (Request::Multi(vec![delete.clone()]), vec![OpResult::Error(None)]),
        (Request::Multi(vec![delete.clone()]), vec![OpResult::Check]),
        (Request::Multi(vec![delete.clone(), delete]), vec![OpResult::Delete]),
        (read(get.clone()), vec![]),
        (read(get), vec![OpResult::Delete]),
    ] {
        let mut harness = Harness::up();
        let write = matches!(request, Request::Multi(_));
        let mut call = harness.call(request);
        harness.reply(1, 1, Reply::Multi(results));
        let error = call.error();
        assert!(matches!(error, Error::Protocol(_)), "{error}");
        assert_eq!(error.may_have_applied(), write);
    }
}

#[test]
fn a_server_that_is_left_answers_what_is_in_flight_and_gets_no_more_requests() {
    let mut harness = Harness::up();
    let (mut read, mut write) = (harness.call(get("/a")), harness.call(set("/a")));
    harness.sent();
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    let mut later = harness.call(set("/b"));
    assert_eq!(harness.sent(), []);
    harness.reply(1, 4, data());
    assert_eq!(harness.session.wanted_link(), WantedLink::Up);
    harness.reply(2, 5, Reply::Stat(Stat::default()));
    assert_eq!(harness.state(), SessionState::Disconnected);
    assert!(read.outcome().expect("an outcome").is_ok() && write.outcome().expect("an outcome").is_ok());
    let request = harness.connect();
    assert_eq!((request.session, request.last_zxid_seen), (SessionId(5), Zxid(5)));
    assert_eq!(harness.sent(), [set("/b")]);
    harness.reply(3, 6, Reply::Stat(Stat::default()));
    assert!(later.outcome().expect("an outcome").is_ok());
    assert_eq!(harness.state(), SessionState::Connected, "it stays there");
}

#[test]
fn an_idle_server_is_left_at_once_and_one_that_is_closing_the_session_is_not() {
    let mut harness = Harness::up();
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    assert_eq!(harness.state(), SessionState::Disconnected);
    harness.connect();
    let mut close = harness.close();
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    harness.reply(harness.last_xid(), 7, Reply::Empty);
    assert!(close.outcome().expect("an outcome").is_ok());
    assert_eq!(harness.state(), SessionState::Closed);
}

#[test]
fn a_server_that_is_left_and_does_not_answer_is_given_up_as_any_other() {
    let mut harness = Harness::up();
    let mut write = harness.call(set("/a"));
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    harness.pass(TIMEOUT);
    assert!(matches!(write.error(), Error::ConnectionLoss(_)));
}

#[test]
fn a_close_follows_what_waits_for_the_next_server_while_one_is_left() {
    for is_dropped in [false, true] {
        let mut harness = Harness::up();
        let _read = harness.call(get("/a"));
        harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
        let mut write = harness.call(set("/b"));
        harness.sent();
        if is_dropped {
            harness.session.encode_last_close(harness.now);
            assert_eq!(harness.sent(), [set("/b"), Request::CloseSession]);
            continue;
        }
        let mut close = harness.close();
        assert_eq!(harness.sent(), [set("/b"), Request::CloseSession]);
        harness.reply(1, 4, data());
        harness.reply(2, 5, Reply::Stat(Stat::default()));
        assert!(write.outcome().expect("an outcome").is_ok());
        harness.reply(3, 6, Reply::Empty);
        assert!(close.outcome().expect("an outcome").is_ok());
    }
}

#[test]
fn a_session_may_end_while_its_server_is_left() {
    let mut harness = Harness::up();
    let _read = harness.call(get("/a"));
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    let mut close = harness.close();
    harness.reply(1, 4, data());
    harness.reply(2, 5, Reply::Empty);
    assert!(close.outcome().expect("an outcome").is_ok());

    let mut harness = Harness::up();
    let _identity = harness.call(auth("u:p"));
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(harness.state(), SessionState::AuthFailed);
}

#[test]
fn a_server_that_is_left_is_so_after_a_reply_that_is_too_large_and_shows_its_zxid() {
    let mut harness = Harness::up();
    let mut read = harness.call(get("/a"));
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    let mut later = harness.call(get("/b"));
    harness.sent();
    harness.oversize(1, 7);
    assert!(matches!(read.error(), Error::ReplyTooLarge { .. }));
    assert_eq!(harness.state(), SessionState::Disconnected);
    assert_eq!(harness.connect().last_zxid_seen, Zxid(7));
    assert_eq!(harness.sent(), [get("/b")]);
    harness.reply(2, 8, data());
    assert!(later.outcome().expect("an outcome").is_ok());
}

#[test]
fn calls_that_wait_while_a_server_is_left_stay_behind_those_that_it_does_not_answer() {
    let mut harness = Harness::up();
    let _sync = harness.call(sync("/a"));
    harness.session.handle_command(harness.now, DriverCommand::LeaveServer);
    let _read = harness.call(get("/a"));
    harness.cut();
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [sync("/a"), get("/a")]);
}

#[test]
fn a_sync_that_nobody_awaits_is_replaced_if_it_waits_too_long_for_a_connection() {
    let mut harness = Harness::up();
    harness.cut();
    drop(harness.call(sync("/a")));
    harness.pass(TIMEOUT - MS);
    let _read = harness.call(get("/a"));
    harness.pass(MS);
    harness.connect();
    assert_eq!(harness.sent(), [sync("/"), get("/a")]);
}

#[test]
fn a_removal_of_watches_that_was_sent_before_its_connection_was_lost_may_have_applied() {
    for is_closed in [false, true] {
        let mut harness = Harness::up();
        let mut removal = harness.call_within(remove("/a", 2), Some(THIRD));
        harness.cut();
        match is_closed {
            true => harness.session.give_up(None),
            false => harness.pass(THIRD),
        }
        assert!(removal.error().may_have_applied());
    }
}
