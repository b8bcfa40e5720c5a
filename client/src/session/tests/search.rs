//! The look for a server that takes writes.

use super::*;

/// A session at a server that is cut off.
fn read_only() -> Desk {
    let mut desk = Desk::new(Settings { read_only: true, ..settings() });
    desk.connect_to(true);
    desk
}

/// An answer to a connect request as it comes, without its length.
fn framed(answer: &ConnectResponse) -> BytesMut {
    let mut out = BytesMut::new();
    answer.encode_frame(&mut out);
    out.split_off(frame::PREFIX)
}

/// Lets time pass until the session looks for another server; how long that took. Pings are answered.
fn until_it_searches(desk: &mut Desk) -> Duration {
    let start = desk.now;
    while !desk.session.searches() {
        desk.now = desk.session.next_timeout().expect("a time");
        desk.session.handle_timeout(desk.now);
        desk.session.handle_heard(desk.now);
    }
    desk.now - start
}

#[test]
fn who_can_only_read_looks_for_another_server_after_pauses_that_double_up_to_a_minute() {
    let mut desk = read_only();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        pauses.push(until_it_searches(&mut desk).as_millis());
        desk.session.handle_search_failed(desk.now);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000]);
    assert_eq!(desk.state(), SessionState::ConnectedReadOnly);
    // On the next connection it begins anew.
    desk.cut();
    desk.connect_to(true);
    assert_eq!(until_it_searches(&mut desk), 100 * MS);
}

#[test]
fn nobody_else_looks() {
    let mut desk = Desk::new(Settings { read_only: true, ..settings() });
    desk.connect();
    desk.pass(THIRD - MS);
    assert!(!desk.session.searches(), "this server takes writes");

    let mut desk = read_only();
    until_it_searches(&mut desk);
    desk.cut();
    assert!(!desk.session.searches(), "any server will do now");

    let mut desk = read_only();
    until_it_searches(&mut desk);
    desk.close();
    assert!(!desk.session.searches(), "what for");
}

#[test]
fn the_other_server_is_asked_for_the_session_and_not_for_reading() {
    let mut desk = read_only();
    until_it_searches(&mut desk);
    let asked: ConnectRequest =
        jute::parse(&desk.session.handle_search_connected(desk.now)[frame::PREFIX..]).expect("a request");
    assert_eq!(
        (asked.session, asked.read_only),
        (SessionId(0), Some(false)),
        "the one it has nobody else knows"
    );

    let mut desk = Desk::new(Settings { read_only: true, ..settings() });
    desk.connect();
    desk.cut();
    desk.connect_to(true);
    until_it_searches(&mut desk);
    let asked: ConnectRequest =
        jute::parse(&desk.session.handle_search_connected(desk.now)[frame::PREFIX..]).expect("a request");
    assert_eq!((asked.session, asked.read_only), (SessionId(5), Some(false)));
}

#[test]
fn a_server_that_does_not_answer_in_time_is_given_up_and_the_next_asked_later() {
    let mut desk = read_only();
    until_it_searches(&mut desk);
    desk.session.handle_search_connected(desk.now);
    let start = desk.now;
    while desk.session.searches() {
        desk.now = desk.session.next_timeout().expect("a time");
        desk.session.handle_timeout(desk.now);
        desk.session.handle_heard(desk.now);
    }
    assert!(desk.now - start <= TIMEOUT / 2, "{:?}", desk.now - start);
    assert_eq!(until_it_searches(&mut desk), 200 * MS);
}

#[test]
fn an_answer_ends_the_connection_before_and_is_that_to_the_handshake_of_the_next() {
    let mut desk = read_only();
    let mut read = desk.call(get("/a"));
    until_it_searches(&mut desk);
    let asked = desk.now;
    desk.session.handle_search_connected(asked);
    desk.pass(MS);
    let epoch = desk.session.epoch();
    assert!(desk.session.handle_search_answered(desk.now, &framed(&welcome(6, false))));
    assert_ne!(desk.session.epoch(), epoch);
    assert_eq!((desk.session.link(), desk.state()), (Link::Up, SessionState::Disconnected));
    let mut write = desk.call(set("/a"));
    desk.sent();
    desk.session.handle_frame(desk.now, &framed(&welcome(6, false))).expect("a session");
    assert_eq!(desk.shared.last_contact(), asked, "a lease counts from when the session was asked for");
    assert_eq!(desk.state(), SessionState::Connected);
    assert_eq!(desk.sent(), [get("/a"), set("/a")], "a read that was under way is asked again");
    desk.reply(desk.last_xid() - 1, 1, data());
    desk.reply(desk.last_xid(), 1, Reply::Stat(Stat::default()));
    assert!(read.outcome().expect("an outcome").is_ok() && write.outcome().expect("an outcome").is_ok());
}

#[test]
fn what_is_no_grant_leaves_everything_as_it_was_but_for_the_end_of_a_known_session() {
    let refusal = framed(&ConnectResponse::refusal(Some(false)));
    for answer in [&framed(&welcome(6, true))[..], &refusal, b"no answer"] {
        let mut desk = read_only();
        until_it_searches(&mut desk);
        desk.session.handle_search_connected(desk.now);
        assert!(!desk.session.handle_search_answered(desk.now, answer));
        assert!(!desk.session.searches() && desk.state() == SessionState::ConnectedReadOnly);
        assert_eq!(until_it_searches(&mut desk), 200 * MS);
    }

    let mut desk = Desk::new(Settings { read_only: true, ..settings() });
    desk.connect();
    desk.cut();
    desk.connect_to(true);
    until_it_searches(&mut desk);
    desk.session.handle_search_connected(desk.now);
    assert!(desk.session.handle_search_answered(desk.now, &refusal));
    desk.session.handle_frame(desk.now, &refusal).expect("an answer");
    assert_eq!(desk.state(), SessionState::Expired);
}
