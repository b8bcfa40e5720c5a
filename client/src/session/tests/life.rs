//! How a session is resumed, and how it ends.

use super::*;

#[test]
fn a_new_connection_resumes_the_session_with_the_last_zxid_of_a_reply() {
    let mut harness = Harness::new(settings());
    let first = harness.connect();
    assert_eq!((first.session, first.last_zxid_seen), (SessionId(0), Zxid(0)));
    let _call = harness.call(get("/a"));
    harness.reply(1, 40, data());
    harness.event(41, EventType::NodeDataChanged, "/a");
    assert_eq!(harness.shared.last_zxid(), Zxid(40), "another event of the same transaction may follow");
    harness.cut();
    let second = harness.connect();
    assert_eq!((second.session, second.last_zxid_seen), (SessionId(5), Zxid(40)));
    assert_eq!(second.password.as_deref(), Some(&[9; 16][..]));
}

#[test]
fn a_new_session_can_begin_with_what_an_earlier_one_has_seen() {
    let mut harness = Harness::new(SessionSettings { last_zxid: Zxid(40), ..settings() });
    let request = harness.connect();
    assert_eq!((request.session, request.last_zxid_seen), (SessionId(0), Zxid(40)));
    harness.call(get("/a"));
    harness.reply(1, 39, data());
    harness.cut();
    assert_eq!(harness.connect().last_zxid_seen, Zxid(40), "it never goes back");
}

#[test]
fn a_connection_begins_with_identities_then_watches_then_lost_reads_then_queued_calls() {
    let mut harness = Harness::up();
    let _identity = harness.call(auth("u:p"));
    harness.reply(Xid::AUTH.0, 0, Reply::Empty);
    let mut watched = harness.call(get_watched("/w"));
    harness.reply(1, 40, data());
    let _watch = watched.watch();
    let _lost = harness.call(get("/lost"));
    harness.sent();
    harness.cut();
    let _waiting = harness.call(set("/new"));
    harness.connect();
    let incoming = harness.incoming();
    let xids: Vec<_> = incoming.iter().map(|incoming| incoming.xid.0).collect();
    let sent: Vec<_> = incoming.into_iter().map(|incoming| incoming.body.expect("a request")).collect();
    let watches = records::SetWatches {
        relative_zxid: Zxid(40),
        data: vec!["/w".into()],
        exist: vec![],
        child: vec![],
    };
    assert_eq!(sent, [auth("u:p"), Request::SetWatches(watches), get("/lost"), set("/new")]);
    assert_eq!(xids, [-4, -8, 3, 4]);
}

#[test]
fn an_expired_session_ends_everything_that_belongs_to_it() {
    let mut harness = Harness::up();
    let mut watched = harness.call(get_watched("/w"));
    harness.reply(1, 1, data());
    let mut watch = watched.watch();
    let mut streamed = harness.call(add_watch("/p", 0));
    harness.reply(2, 1, Reply::WatchAdded);
    let stream = streamed.stream();
    let mut read = harness.call(get("/a"));
    harness.cut();
    let mut write = harness.call(set("/a"));
    while harness.session.wanted_link() != WantedLink::Dialing {
        harness.now = harness.session.next_timeout().expect("a time");
        harness.session.handle_timeout(harness.now);
    }
    harness.session.handle_connected(harness.now);
    harness.frame(|out| ConnectResponse::refusal(Some(false)).encode_frame(out));

    assert_eq!((harness.state(), harness.session.wanted_link()), (SessionState::Expired, WantedLink::Over));
    assert_eq!(read.error().to_string(), "getData /a: session expired");
    let error = write.error();
    assert!(error.is_session_over() && !error.may_have_applied(), "{error:?}");
    assert!(matches!(event_of(&mut watch), Some(Err(Error::SessionExpired(_)))));
    assert!(matches!(next(&stream), Some(WatchUpdate::Ended(Error::SessionExpired(_)))));
    let mut late = harness.call(get("/a"));
    assert!(matches!(late.error(), Error::SessionExpired(_)));
    assert_eq!(harness.session.next_timeout(), None);
}

#[test]
fn unreachable_servers_are_no_expiry() {
    let mut harness = Harness::up();
    harness.cut();
    harness.pass(100 * TIMEOUT);
    assert_eq!(harness.state(), SessionState::Disconnected);
    harness.connect();
    assert_eq!(harness.state(), SessionState::Connected);
}

#[test]
fn refused_credentials_end_the_session() {
    let mut harness = Harness::up();
    let mut write = harness.call(set("/a"));
    let mut identity = harness.call(auth("u:p"));
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(harness.state(), SessionState::AuthFailed);
    assert!(matches!(identity.error(), Error::AuthFailed(_)));
    let error = write.error();
    assert!(matches!(error, Error::AuthFailed(_)) && error.may_have_applied(), "{error:?}");
}

#[test]
fn an_identity_survives_a_connection_that_did_not_answer_it() {
    let mut harness = Harness::up();
    drop(harness.call(auth("u:p")));
    harness.cut();
    harness.sent();
    harness.connect();
    assert_eq!(harness.sent(), [auth("u:p")]);
}

#[test]
fn a_close_is_sent_after_everything_before_it() {
    let mut harness = Harness::up();
    let mut write = harness.call(set("/a"));
    let mut close = harness.close();
    let mut late = harness.call(get("/a"));
    assert!(matches!(late.error(), Error::Closed(_)));
    assert_eq!(harness.sent(), [set("/a"), Request::CloseSession]);
    harness.reply(1, 1, Reply::Stat(Stat::default()));
    assert!(write.outcome().expect("an outcome").is_ok());
    assert!(close.is_open());
    harness.reply(2, 2, Reply::Empty);
    assert!(close.outcome().expect("an outcome").is_ok());
    assert_eq!((harness.state(), harness.session.wanted_link()), (SessionState::Closed, WantedLink::Over));
    assert!(harness.close().outcome().expect("an outcome").is_ok(), "closed is closed");
}

#[test]
fn every_close_waits_for_the_same_outcome() {
    let mut harness = Harness::up();
    drop(harness.close());
    let (mut second, mut third) = (harness.close(), harness.close());
    assert_eq!(harness.sent(), [Request::CloseSession]);
    assert!(second.is_open() && third.is_open());
    harness.reply(1, 1, Reply::Empty);
    assert!(second.outcome().expect("an outcome").is_ok());
    assert!(third.outcome().expect("an outcome").is_ok());

    let mut harness = Harness::up();
    let (mut first, mut second) = (harness.close(), harness.close());
    harness.pass(TIMEOUT);
    assert!(matches!(first.error(), Error::ConnectionLoss(_)));
    assert!(matches!(second.error(), Error::ConnectionLoss(_)));
}

#[test]
fn a_watch_that_is_dropped_after_a_close_sends_nothing() {
    let mut harness = Harness::up();
    let mut watched = harness.call(get_watched("/w"));
    harness.reply(1, 1, data());
    let watch = watched.watch();
    harness.sent();
    let _close = harness.close();
    drop(watch);
    harness.settle();
    assert_eq!(harness.sent(), [Request::CloseSession]);
}

#[test]
fn a_close_without_a_connection_resumes_the_session_to_close_it() {
    let mut harness = Harness::up();
    harness.cut();
    let mut close = harness.close();
    harness.connect();
    assert_eq!(harness.sent(), [Request::CloseSession]);
    harness.cut();
    assert!(close.is_open());
    harness.pass(TIMEOUT);
    assert!(matches!(close.error(), Error::ConnectionLoss(_)));
    assert_eq!(harness.state(), SessionState::Closed);
}

#[test]
fn a_close_before_there_is_a_session_needs_no_server() {
    let mut harness = Harness::new(settings());
    let mut close = harness.close();
    assert!(close.outcome().expect("an outcome").is_ok());
    assert_eq!(harness.session.wanted_link(), WantedLink::Over);
}

#[test]
fn a_close_during_the_handshake_closes_the_new_session() {
    let mut harness = Harness::new(settings());
    harness.session.handle_timeout(harness.now);
    harness.session.handle_connected(harness.now);
    harness.session.handle_close(harness.now, ReplyTo::nobody());
    assert_eq!(harness.session.wanted_link(), WantedLink::Up);
    harness.frames();
    harness.frame(|out| {
        let password = Bytes::from_static(&[9; 16]);
        ConnectResponse {
            protocol_version: 0,
            timeout: 9000,
            session: SessionId(5),
            password,
            read_only: None,
        }
        .encode_frame(out);
    });
    assert_eq!(harness.sent(), [Request::CloseSession]);
}

#[test]
fn a_session_without_a_server_is_given_up_locally_only_if_it_is_asked_for() {
    for expire_locally in [false, true] {
        let mut harness = Harness::new(SessionSettings { expire_locally, ..settings() });
        harness.connect();
        harness.pass(THIRD);
        let mut read = harness.call(get("/a"));
        harness.reply(1, 1, data());
        assert!(read.outcome().expect("an outcome").is_ok());
        let contact = harness.now;
        harness.pass(THIRD);
        harness.cut();
        let mut waiting = harness.call(get("/b"));
        harness.pass(contact + TIMEOUT - MS - harness.now);
        assert_eq!(harness.state(), SessionState::Disconnected);
        assert!(waiting.is_open());
        harness.pass(MS);
        if !expire_locally {
            assert_eq!(harness.state(), SessionState::Disconnected);
            assert!(waiting.is_open());
            harness.connect();
            assert_eq!(harness.state(), SessionState::Connected);
            continue;
        }
        assert_eq!(harness.state(), SessionState::Expired);
        let error = waiting.error();
        assert!(matches!(error, Error::SessionExpired(_)), "{error:?}");
        assert!(
            error.to_string().starts_with("getData /b: session expired; last connection error: "),
            "{error}"
        );
        assert_eq!(harness.session.wanted_link(), WantedLink::Over);
    }
}

#[test]
fn a_session_that_a_server_serves_or_has_never_granted_is_not_given_up_locally() {
    let mut harness = Harness::new(SessionSettings { expire_locally: true, ..settings() });
    harness.pass(3 * TIMEOUT);
    assert_eq!(harness.state(), SessionState::Connecting);
    harness.connect();
    for n in 0..6 {
        harness.pass(THIRD);
        harness.reply(-2, n, Reply::Empty);
    }
    assert_eq!(harness.state(), SessionState::Connected);
}

#[test]
fn watches_do_not_keep_the_session_open() {
    let mut harness = Harness::up();
    let mut call = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let watch = call.watch();
    drop(std::mem::replace(&mut harness.handles, mpsc::unbounded_channel().0));
    assert!(matches!(harness.commands.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)));
    drop(watch);
}
