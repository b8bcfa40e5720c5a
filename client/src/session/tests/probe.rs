//! The look for a server that takes writes.

use super::*;

/// A session at a server that is cut off.
fn read_only() -> Harness {
    let mut harness = Harness::new(Settings { read_only: true, ..settings() });
    harness.connect_to(true);
    harness
}

/// An answer to a connect request as it comes, without its length.
fn framed(answer: &ConnectResponse) -> BytesMut {
    let mut out = BytesMut::new();
    answer.encode_frame(&mut out);
    out.split_off(frame::PREFIX)
}

/// Lets time pass until the session looks for another server; how long that took. Pings are answered.
fn until_it_probes(harness: &mut Harness) -> Duration {
    let start = harness.now;
    while !harness.session.is_probing() {
        harness.now = harness.session.next_timeout().expect("a time");
        harness.session.handle_timeout(harness.now);
        harness.session.handle_heard(harness.now);
    }
    harness.now - start
}

#[test]
fn who_can_only_read_looks_for_another_server_after_pauses_that_double_up_to_a_minute() {
    let mut harness = read_only();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        pauses.push(until_it_probes(&mut harness).as_millis());
        harness.session.handle_probe_failed(harness.now);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000]);
    assert_eq!(harness.state(), SessionState::ConnectedReadOnly);
    // On the next connection it begins anew.
    harness.cut();
    harness.connect_to(true);
    assert_eq!(until_it_probes(&mut harness), 100 * MS);
}

#[test]
fn nobody_else_looks() {
    let mut harness = Harness::new(Settings { read_only: true, ..settings() });
    harness.connect();
    harness.pass(THIRD - MS);
    assert!(!harness.session.is_probing(), "this server takes writes");

    let mut harness = read_only();
    until_it_probes(&mut harness);
    harness.cut();
    assert!(!harness.session.is_probing(), "any server will do now");

    let mut harness = read_only();
    until_it_probes(&mut harness);
    harness.close();
    assert!(!harness.session.is_probing(), "what for");
}

#[test]
fn the_other_server_is_asked_for_the_session_and_not_for_reading() {
    let mut harness = read_only();
    until_it_probes(&mut harness);
    let asked: ConnectRequest =
        jute::parse(&harness.session.handle_probe_connected(harness.now)[frame::PREFIX..])
            .expect("a request");
    assert_eq!(
        (asked.session, asked.read_only),
        (SessionId(0), Some(false)),
        "the one it has nobody else knows"
    );

    let mut harness = Harness::new(Settings { read_only: true, ..settings() });
    harness.connect();
    harness.cut();
    harness.connect_to(true);
    until_it_probes(&mut harness);
    let asked: ConnectRequest =
        jute::parse(&harness.session.handle_probe_connected(harness.now)[frame::PREFIX..])
            .expect("a request");
    assert_eq!((asked.session, asked.read_only), (SessionId(5), Some(false)));
}

#[test]
fn a_server_that_does_not_answer_in_time_is_given_up_and_the_next_asked_later() {
    let mut harness = read_only();
    until_it_probes(&mut harness);
    harness.session.handle_probe_connected(harness.now);
    let start = harness.now;
    while harness.session.is_probing() {
        harness.now = harness.session.next_timeout().expect("a time");
        harness.session.handle_timeout(harness.now);
        harness.session.handle_heard(harness.now);
    }
    assert!(harness.now - start <= TIMEOUT / 2, "{:?}", harness.now - start);
    assert_eq!(until_it_probes(&mut harness), 200 * MS);
}

#[test]
fn an_answer_ends_the_connection_before_and_is_that_to_the_handshake_of_the_next() {
    let mut harness = read_only();
    let mut read = harness.call(get("/a"));
    until_it_probes(&mut harness);
    let asked = harness.now;
    harness.session.handle_probe_connected(asked);
    harness.pass(MS);
    let epoch = harness.session.epoch();
    assert!(harness.session.handle_probe_answered(harness.now, &framed(&connect_response(6, false))));
    assert_ne!(harness.session.epoch(), epoch);
    assert_eq!(
        (harness.session.wanted_link(), harness.state()),
        (WantedLink::Up, SessionState::Disconnected)
    );
    let mut write = harness.call(set("/a"));
    harness.sent();
    harness.session.handle_frame(harness.now, &framed(&connect_response(6, false))).expect("a session");
    assert_eq!(harness.shared.last_contact(), asked, "a lease counts from when the session was asked for");
    assert_eq!(harness.state(), SessionState::Connected);
    assert_eq!(harness.sent(), [get("/a"), set("/a")], "a read that was under way is asked again");
    harness.reply(harness.last_xid() - 1, 1, data());
    harness.reply(harness.last_xid(), 1, Reply::Stat(Stat::default()));
    assert!(read.outcome().expect("an outcome").is_ok() && write.outcome().expect("an outcome").is_ok());
}

#[test]
fn what_is_no_grant_leaves_everything_as_it_was_but_for_the_end_of_a_known_session() {
    let refusal = framed(&ConnectResponse::refusal(Some(false)));
    for answer in [&framed(&connect_response(6, true))[..], &refusal, b"no answer"] {
        let mut harness = read_only();
        until_it_probes(&mut harness);
        harness.session.handle_probe_connected(harness.now);
        assert!(!harness.session.handle_probe_answered(harness.now, answer));
        assert!(!harness.session.is_probing() && harness.state() == SessionState::ConnectedReadOnly);
        assert_eq!(until_it_probes(&mut harness), 200 * MS);
    }

    let mut harness = Harness::new(Settings { read_only: true, ..settings() });
    harness.connect();
    harness.cut();
    harness.connect_to(true);
    until_it_probes(&mut harness);
    harness.session.handle_probe_connected(harness.now);
    assert!(harness.session.handle_probe_answered(harness.now, &refusal));
    harness.session.handle_frame(harness.now, &refusal).expect("an answer");
    assert_eq!(harness.state(), SessionState::Expired);
}
