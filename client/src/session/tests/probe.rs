//! The probe for a server that takes writes.

use super::*;

/// A session at a read-only server.
fn read_only() -> Harness {
    let mut harness = Harness::new(SessionSettings { read_only: true, ..settings() });
    harness.connect_to(true);
    harness
}

/// A connect response as bytes, without its length.
fn framed(answer: &ConnectResponse) -> BytesMut {
    let mut out = BytesMut::new();
    answer.encode_frame(&mut out);
    out.split_off(frame::PREFIX)
}

/// Lets time pass until the session probes another server. Returns how long that took. Pings are answered.
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
fn a_read_only_session_probes_after_pauses_that_double_up_to_a_minute() {
    let mut harness = read_only();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        pauses.push(until_it_probes(&mut harness).as_millis());
        harness.session.handle_probe_failed(harness.now);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000]);
    assert_eq!(harness.state(), SessionState::ConnectedReadOnly);
    // The next connection starts with the first pause.
    harness.cut();
    harness.connect_to(true);
    assert_eq!(until_it_probes(&mut harness), 100 * MS);
}

#[test]
fn nothing_else_starts_a_probe() {
    let mut harness = Harness::new(SessionSettings { read_only: true, ..settings() });
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
    assert!(!harness.session.is_probing(), "the session is closing");
}

#[test]
fn the_probe_asks_for_the_session_without_read_only() {
    let mut harness = read_only();
    until_it_probes(&mut harness);
    let asked: ConnectRequest =
        jute::parse(&harness.session.handle_probe_connected(harness.now)[frame::PREFIX..])
            .expect("a request");
    assert_eq!(
        (asked.session, asked.read_only),
        (SessionId(0), Some(false)),
        "no other server knows the session it has"
    );

    let mut harness = Harness::new(SessionSettings { read_only: true, ..settings() });
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
fn a_probe_that_times_out_is_given_up_and_the_next_starts_later() {
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
fn a_granting_answer_replaces_the_connection_and_completes_the_next_handshake() {
    let mut harness = read_only();
    let mut read = harness.call(get("/a"));
    until_it_probes(&mut harness);
    let asked = harness.now;
    harness.session.handle_probe_connected(asked);
    harness.pass(MS);
    let generation = harness.session.generation();
    assert!(harness.session.handle_probe_answered(harness.now, &framed(&connect_response(6, false))));
    assert_ne!(harness.session.generation(), generation);
    assert_eq!(
        (harness.session.wanted_link(), harness.state()),
        (WantedLink::Up, SessionState::Disconnected)
    );
    let reason = harness.shared.last_failure().map(|failure| failure.to_string());
    assert_eq!(reason.as_deref(), Some("left for a server that takes writes"));
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
fn any_other_answer_changes_nothing_except_the_expiry_of_an_established_session() {
    let refusal = framed(&ConnectResponse::refusal(Some(false)));
    for answer in [&framed(&connect_response(6, true))[..], &refusal, b"no answer"] {
        let mut harness = read_only();
        until_it_probes(&mut harness);
        harness.session.handle_probe_connected(harness.now);
        assert!(!harness.session.handle_probe_answered(harness.now, answer));
        assert!(!harness.session.is_probing() && harness.state() == SessionState::ConnectedReadOnly);
        assert_eq!(until_it_probes(&mut harness), 200 * MS);
    }

    let mut harness = Harness::new(SessionSettings { read_only: true, ..settings() });
    harness.connect();
    harness.cut();
    harness.connect_to(true);
    until_it_probes(&mut harness);
    harness.session.handle_probe_connected(harness.now);
    assert!(harness.session.handle_probe_answered(harness.now, &refusal));
    harness.session.handle_frame(harness.now, &refusal).expect("an answer");
    assert_eq!(harness.state(), SessionState::Expired);
}

#[test]
fn a_switch_before_an_identity_is_accepted_does_not_make_the_session_count_as_connected() {
    let Request::Auth(identity) = auth("u:p") else { unreachable!() };
    let auths = vec![identity];
    let mut harness = Harness::new(SessionSettings { read_only: true, auths, ..settings() });
    harness.connect_to(true);
    until_it_probes(&mut harness);
    harness.session.handle_probe_connected(harness.now);
    let granted = framed(&connect_response(6, false));
    assert!(harness.session.handle_probe_answered(harness.now, &granted));
    assert_eq!(harness.state(), SessionState::Connecting);
    harness.session.handle_frame(harness.now, &granted).expect("a session");
    assert_eq!(harness.state(), SessionState::Connecting);
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(harness.state(), SessionState::AuthFailed);
}
