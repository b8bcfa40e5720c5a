//! How a session is taken up again, and how it ends.

use super::*;

#[test]
fn a_new_connection_takes_the_session_up_with_the_last_zxid_that_a_reply_has_shown() {
    let mut desk = Desk::new(settings());
    let first = desk.connect();
    assert_eq!((first.session, first.last_zxid_seen), (SessionId(0), Zxid(0)));
    let _call = desk.call(get("/a"));
    desk.reply(1, 40, data());
    desk.event(41, EventType::NodeDataChanged, "/a");
    assert_eq!(desk.shared.last_zxid(), Zxid(40), "another event of the same transaction may follow");
    desk.cut();
    let second = desk.connect();
    assert_eq!((second.session, second.last_zxid_seen), (SessionId(5), Zxid(40)));
    assert_eq!(second.password.as_deref(), Some(&[9; 16][..]));
}

#[test]
fn identities_then_watches_then_lost_reads_then_what_has_waited() {
    let mut desk = Desk::up();
    let _identity = desk.call(auth("u:p"));
    desk.reply(Xid::AUTH.0, 0, Reply::Empty);
    let mut watched = desk.call(get_watched("/w"));
    desk.reply(1, 40, data());
    let _watch = watched.watch();
    let _lost = desk.call(get("/lost"));
    desk.sent();
    desk.cut();
    let _waiting = desk.call(set("/new"));
    desk.connect();
    let incoming = desk.incoming();
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
    let mut desk = Desk::up();
    let mut watched = desk.call(get_watched("/w"));
    desk.reply(1, 1, data());
    let mut watch = watched.watch();
    let mut streamed = desk.call(add_watch("/p", 0));
    desk.reply(2, 1, Reply::WatchAdded);
    let stream = streamed.stream();
    let mut read = desk.call(get("/a"));
    desk.cut();
    let mut write = desk.call(set("/a"));
    while desk.session.link() != Link::Dialing {
        desk.now = desk.session.next_timeout().expect("a time");
        desk.session.handle_timeout(desk.now);
    }
    desk.session.handle_connected(desk.now);
    desk.frame(|out| ConnectResponse::refusal(Some(false)).encode_frame(out));

    assert_eq!((desk.state(), desk.session.link()), (SessionState::Expired, Link::Over));
    assert_eq!(read.error().to_string(), "getData /a: session expired");
    let error = write.error();
    assert!(error.is_session_over() && !error.may_have_applied(), "{error:?}");
    assert!(matches!(told(&mut watch), Some(Err(Error::SessionExpired(_)))));
    assert!(matches!(next(&stream), Some(WatchUpdate::Ended(Error::SessionExpired(_)))));
    let mut late = desk.call(get("/a"));
    assert!(matches!(late.error(), Error::SessionExpired(_)));
    assert_eq!(desk.session.next_timeout(), None);
}

#[test]
fn no_server_to_be_found_is_no_expiry() {
    let mut desk = Desk::up();
    desk.cut();
    desk.pass(100 * TIMEOUT);
    assert_eq!(desk.state(), SessionState::Disconnected);
    desk.connect();
    assert_eq!(desk.state(), SessionState::Connected);
}

#[test]
fn refused_credentials_end_the_session() {
    let mut desk = Desk::up();
    let mut write = desk.call(set("/a"));
    let mut identity = desk.call(auth("u:p"));
    desk.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(desk.state(), SessionState::AuthFailed);
    assert!(matches!(identity.error(), Error::AuthFailed(_)));
    let error = write.error();
    assert!(matches!(error, Error::AuthFailed(_)) && error.may_have_applied(), "{error:?}");
}

#[test]
fn an_identity_outlives_the_connection_that_did_not_answer_it() {
    let mut desk = Desk::up();
    drop(desk.call(auth("u:p")));
    desk.cut();
    desk.sent();
    desk.connect();
    assert_eq!(desk.sent(), [auth("u:p")]);
}

#[test]
fn a_close_leaves_behind_everything_before_it() {
    let mut desk = Desk::up();
    let mut write = desk.call(set("/a"));
    let mut close = desk.close();
    let mut late = desk.call(get("/a"));
    assert!(matches!(late.error(), Error::Closed(_)));
    assert_eq!(desk.sent(), [set("/a"), Request::CloseSession]);
    desk.reply(1, 1, Reply::Stat(Stat::default()));
    assert!(write.outcome().expect("an outcome").is_ok());
    assert!(close.is_open());
    desk.reply(2, 2, Reply::Empty);
    assert!(close.outcome().expect("an outcome").is_ok());
    assert_eq!((desk.state(), desk.session.link()), (SessionState::Closed, Link::Over));
    assert!(desk.close().outcome().expect("an outcome").is_ok(), "closed is closed");
}

#[test]
fn every_close_waits_for_the_same_outcome() {
    let mut desk = Desk::up();
    drop(desk.close());
    let (mut second, mut third) = (desk.close(), desk.close());
    assert_eq!(desk.sent(), [Request::CloseSession]);
    assert!(second.is_open() && third.is_open());
    desk.reply(1, 1, Reply::Empty);
    assert!(second.outcome().expect("an outcome").is_ok());
    assert!(third.outcome().expect("an outcome").is_ok());

    let mut desk = Desk::up();
    let (mut first, mut second) = (desk.close(), desk.close());
    desk.pass(TIMEOUT);
    assert!(matches!(first.error(), Error::ConnectionLoss(_)));
    assert!(matches!(second.error(), Error::ConnectionLoss(_)));
}

#[test]
fn a_watch_that_is_given_up_behind_a_close_is_no_request_behind_it() {
    let mut desk = Desk::up();
    let mut watched = desk.call(get_watched("/w"));
    desk.reply(1, 1, data());
    let watch = watched.watch();
    desk.sent();
    let _close = desk.close();
    drop(watch);
    desk.settle();
    assert_eq!(desk.sent(), [Request::CloseSession]);
}

#[test]
fn a_close_without_a_connection_takes_the_session_up_to_close_it() {
    let mut desk = Desk::up();
    desk.cut();
    let mut close = desk.close();
    desk.connect();
    assert_eq!(desk.sent(), [Request::CloseSession]);
    desk.cut();
    assert!(close.is_open());
    desk.pass(TIMEOUT);
    assert!(matches!(close.error(), Error::ConnectionLoss(_)));
    assert_eq!(desk.state(), SessionState::Closed);
}

#[test]
fn a_close_before_there_is_a_session_needs_no_server() {
    let mut desk = Desk::new(settings());
    let mut close = desk.close();
    assert!(close.outcome().expect("an outcome").is_ok());
    assert_eq!(desk.session.link(), Link::Over);
}

#[test]
fn a_close_during_the_handshake_closes_the_session_that_comes_of_it() {
    let mut desk = Desk::new(settings());
    desk.session.handle_timeout(desk.now);
    desk.session.handle_connected(desk.now);
    desk.session.handle_close(desk.now, ReplyTo::nobody());
    assert_eq!(desk.session.link(), Link::Up);
    desk.frames();
    desk.frame(|out| {
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
    assert_eq!(desk.sent(), [Request::CloseSession]);
}
