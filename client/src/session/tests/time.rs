//! Pings, silence, pauses, leases.

use super::*;

#[test]
fn an_idle_session_pings_every_third_of_its_timeout() {
    let mut desk = Desk::up();
    for _ in 0..5 {
        desk.pass(THIRD - MS);
        assert_eq!(desk.sent(), []);
        desk.pass(MS);
        assert_eq!(desk.sent(), [Request::Ping]);
        desk.reply(Xid::PING.0, 1, Reply::Empty);
    }
}

#[test]
fn other_requests_take_the_place_of_pings_but_auth_packets_do_not() {
    let mut desk = Desk::up();
    desk.pass(THIRD / 2);
    let _get = desk.call(get("/a"));
    desk.pass(THIRD / 2);
    let _auth = desk.call(auth("u:p"));
    desk.pass(THIRD / 2 - MS);
    assert_eq!(desk.sent(), [get("/a"), auth("u:p")]);
    desk.pass(MS);
    assert_eq!(desk.sent(), [Request::Ping]);
}

#[test]
fn a_server_that_is_silent_for_two_thirds_of_the_timeout_is_given_up() {
    let mut desk = Desk::up();
    desk.pass(2 * THIRD - MS);
    assert_eq!(desk.state(), SessionState::Connected);
    desk.pass(MS);
    assert_eq!(desk.state(), SessionState::Disconnected);
    assert_eq!(desk.session.link(), Link::Dialing, "another one is sought at once");
}

#[test]
fn anything_heard_counts_against_silence() {
    let mut desk = Desk::up();
    for _ in 0..10 {
        desk.pass(THIRD);
        desk.event(2, EventType::NodeDataChanged, "/not/mine");
    }
    assert_eq!(desk.state(), SessionState::Connected);
}

#[test]
fn the_last_contact_is_when_the_answered_request_was_sent() {
    let mut desk = Desk::up();
    let start = desk.now;
    desk.pass(MS);
    let _first = desk.call(get("/a"));
    desk.pass(MS);
    let _second = desk.call(get("/b"));
    desk.pass(MS);
    assert_eq!(desk.shared.last_contact(), start, "the handshake");
    desk.reply(1, 1, data());
    assert_eq!(desk.shared.last_contact(), start + MS);
    desk.reply(2, 1, data());
    assert_eq!(desk.shared.last_contact(), start + 2 * MS);
}

#[test]
fn what_a_server_that_is_cut_off_answers_is_no_contact() {
    let mut desk = Desk::new(Settings { read_only: true, ..settings() });
    desk.connect();
    let contact = desk.now;
    desk.pass(MS);
    desk.cut();
    desk.connect_to(true);
    let _read = desk.call(get("/a"));
    desk.reply(1, 1, data());
    desk.pass(THIRD);
    desk.reply(Xid::PING.0, 1, Reply::Empty);
    assert_eq!(desk.state(), SessionState::ConnectedReadOnly);
    assert_eq!(desk.shared.last_contact(), contact);
    desk.cut();
    desk.connect();
    assert_eq!(desk.shared.last_contact(), desk.now);
}

#[test]
fn pauses_between_attempts_grow_up_to_a_sixth_of_the_timeout_and_repeat_with_the_seed() {
    let pauses = |seed| {
        let mut desk = Desk::new(Settings { seed, hosts: 2, ..settings() });
        let mut pauses = Vec::new();
        for _ in 0..30 {
            while desk.session.link() != Link::Dialing {
                desk.now = desk.session.next_timeout().expect("a time for the next attempt");
                desk.session.handle_timeout(desk.now);
            }
            desk.cut();
            pauses.push(desk.session.next_timeout().expect("a time") - desk.now);
        }
        pauses
    };
    let some = pauses(1);
    assert!(some.iter().step_by(2).all(Duration::is_zero), "the second host gets its turn at once");
    assert!(some[1] <= 50 * MS, "{:?}", some[1]);
    assert!(some[3] >= 50 * MS && some[3] <= 100 * MS, "{:?}", some[3]);
    assert!(some[29] >= TIMEOUT / 12 && some[29] <= TIMEOUT / 6, "{:?}", some[29]);
    assert_eq!(some, pauses(1));
    assert_ne!(some, pauses(2));
}

#[test]
fn an_attempt_without_a_session_in_time_is_given_up() {
    let mut desk = Desk::new(settings());
    desk.session.handle_timeout(desk.now);
    desk.session.handle_connected(desk.now);
    desk.pass(TIMEOUT / 2 - MS);
    assert_eq!(desk.session.link(), Link::Up);
    desk.pass(MS);
    assert_eq!(desk.session.link(), Link::Down);
    assert!(desk.session.out().is_empty(), "the next connection begins with its own handshake");
}
