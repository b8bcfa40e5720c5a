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
fn of_several_pings_under_way_each_reply_proves_its_own() {
    let mut desk = Desk::up();
    let start = desk.now;
    desk.pass(THIRD);
    desk.event(2, EventType::NodeDataChanged, "/not/mine");
    desk.pass(THIRD);
    assert_eq!(desk.sent(), [Request::Ping, Request::Ping]);
    desk.pass(THIRD / 2);
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(desk.shared.last_contact(), start + THIRD);
    desk.pass(THIRD / 2);
    assert_eq!(desk.sent(), [Request::Ping]);
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(desk.shared.last_contact(), start + 2 * THIRD, "what was answered is the second ping");
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(desk.shared.last_contact(), start + 3 * THIRD);
}

#[test]
fn pings_of_a_lost_connection_are_not_what_the_next_one_answers() {
    let mut desk = Desk::up();
    desk.pass(THIRD);
    desk.pass(MS);
    desk.cut();
    desk.connect();
    let contact = desk.now;
    desk.sent();
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(desk.shared.last_contact(), contact);
}

#[test]
fn however_many_pings_stay_unanswered_a_reply_never_proves_too_much() {
    let mut desk = Desk::up();
    let start = desk.now;
    for _ in 0..100 {
        desk.pass(THIRD);
        desk.event(2, EventType::NodeDataChanged, "/not/mine");
    }
    assert_eq!(desk.sent().len(), 100);
    for answered in 1..100 {
        desk.reply(Xid::PING.0, 2, Reply::Empty);
        assert!(desk.shared.last_contact() <= start + THIRD * answered, "{answered} answered");
    }
    desk.pass(THIRD);
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert!(desk.shared.last_contact() <= start + THIRD * 100, "the last one of those before");
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    desk.pass(THIRD);
    desk.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(desk.shared.last_contact(), start + THIRD * 102, "all is as it was once all are answered");
}

#[test]
fn a_server_that_has_lost_the_session_gives_no_sign_of_life_for_it() {
    for code in [ErrorCode::SessionExpired, ErrorCode::SessionMoved] {
        let mut desk = Desk::up();
        let start = desk.now;
        desk.pass(MS);
        let mut write = desk.call(set("/a"));
        desk.refuse(1, code);
        assert_eq!(write.error().code(), Some(code));
        assert_eq!(desk.shared.last_contact(), start);
        assert_eq!(desk.state(), SessionState::Disconnected);
    }
}

#[test]
fn a_ping_that_is_answered_with_the_loss_of_the_session_costs_the_connection() {
    for code in [ErrorCode::SessionExpired, ErrorCode::SessionMoved] {
        let mut desk = Desk::up();
        let start = desk.now;
        desk.pass(THIRD);
        desk.refuse(Xid::PING.0, code);
        assert_eq!(desk.shared.last_contact(), start);
        assert_eq!(desk.state(), SessionState::Disconnected);
    }
}

#[test]
fn a_ping_that_is_answered_with_another_error_is_answered() {
    let mut desk = Desk::up();
    let start = desk.now;
    desk.pass(THIRD);
    desk.refuse(Xid::PING.0, ErrorCode::ThrottledOp);
    assert_eq!(desk.shared.last_contact(), start + THIRD);
    assert_eq!(desk.state(), SessionState::Connected);
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

#[test]
fn a_server_that_goes_once_it_has_answered_what_a_connection_begins_with_is_not_dialed_without_pause() {
    for watches in [false, true] {
        let mut desk = Desk::up();
        let _identity = desk.call(auth("u:p"));
        desk.reply(Xid::AUTH.0, 0, Reply::Empty);
        let mut read = desk.call(if watches { get_watched("/w") } else { get("/w") });
        desk.reply(1, 1, data());
        let _watch = watches.then(|| read.watch());
        let start = desk.now;
        for _ in 0..20 {
            desk.cut();
            desk.connect();
            desk.reply(Xid::AUTH.0, 0, Reply::Empty);
            if watches {
                desk.reply(Xid::SET_WATCHES.0, 1, Reply::Empty);
            }
        }
        assert!(desk.now - start > TIMEOUT, "20 connections in {:?}", desk.now - start);
        let _read = desk.call(get("/a"));
        desk.reply(2, 1, data());
        desk.cut();
        assert_eq!(
            desk.session.next_timeout(),
            Some(desk.now),
            "behind one that was of use there is no pause"
        );
    }
}

#[test]
fn a_session_timeout_of_next_to_nothing_is_no_reason_to_hurry() {
    let mut desk = Desk::new(Settings { session_timeout: MS, ..settings() });
    let mut pauses = Duration::ZERO;
    for _ in 0..30 {
        while desk.session.link() != Link::Dialing {
            desk.now = desk.session.next_timeout().expect("a time for the next attempt");
            desk.session.handle_timeout(desk.now);
        }
        assert!(
            desk.session.next_timeout() >= Some(desk.now + 100 * MS),
            "a server needs some time to answer"
        );
        desk.cut();
        pauses += desk.session.next_timeout().expect("a time") - desk.now;
    }
    assert!(pauses > 30 * 25 * MS, "30 pauses that take {pauses:?}");
}
