//! Pings, silence, back-off, leases.

use super::*;

#[test]
fn an_idle_session_pings_every_third_of_its_timeout() {
    let mut harness = Harness::up();
    for _ in 0..5 {
        harness.pass(THIRD - MS);
        assert_eq!(harness.sent(), []);
        harness.pass(MS);
        assert_eq!(harness.sent(), [Request::Ping]);
        harness.reply(Xid::PING.0, 1, Reply::Empty);
    }
}

#[test]
fn other_requests_replace_pings_but_auth_packets_do_not() {
    let mut harness = Harness::up();
    harness.pass(THIRD / 2);
    let _get = harness.call(get("/a"));
    harness.pass(THIRD / 2);
    let _auth = harness.call(auth("u:p"));
    harness.pass(THIRD / 2 - MS);
    assert_eq!(harness.sent(), [get("/a"), auth("u:p")]);
    harness.pass(MS);
    assert_eq!(harness.sent(), [Request::Ping]);
}

#[test]
fn a_server_that_is_silent_for_two_thirds_of_the_timeout_is_given_up() {
    let mut harness = Harness::up();
    harness.pass(2 * THIRD - MS);
    assert_eq!(harness.state(), SessionState::Connected);
    harness.pass(MS);
    assert_eq!(harness.state(), SessionState::Disconnected);
    assert_eq!(harness.session.wanted_link(), WantedLink::Dialing, "another one is sought at once");
}

#[test]
fn any_received_bytes_postpone_the_silence_timeout() {
    let mut harness = Harness::up();
    for _ in 0..10 {
        harness.pass(THIRD);
        harness.event(2, EventType::NodeDataChanged, "/not/mine");
    }
    assert_eq!(harness.state(), SessionState::Connected);
}

#[test]
fn the_last_contact_is_when_the_answered_request_was_sent() {
    let mut harness = Harness::up();
    let start = harness.now;
    harness.pass(MS);
    let _first = harness.call(get("/a"));
    harness.pass(MS);
    let _second = harness.call(get("/b"));
    harness.pass(MS);
    assert_eq!(harness.shared.last_contact(), start, "the handshake");
    harness.reply(1, 1, data());
    assert_eq!(harness.shared.last_contact(), start + MS);
    harness.reply(2, 1, data());
    assert_eq!(harness.shared.last_contact(), start + 2 * MS);
}

#[test]
fn each_of_several_ping_replies_proves_its_own_ping() {
    let mut harness = Harness::up();
    let start = harness.now;
    harness.pass(THIRD);
    harness.event(2, EventType::NodeDataChanged, "/not/mine");
    harness.pass(THIRD);
    assert_eq!(harness.sent(), [Request::Ping, Request::Ping]);
    harness.pass(THIRD / 2);
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(harness.shared.last_contact(), start + THIRD);
    harness.pass(THIRD / 2);
    assert_eq!(harness.sent(), [Request::Ping]);
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(harness.shared.last_contact(), start + 2 * THIRD, "what was answered is the second ping");
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(harness.shared.last_contact(), start + 3 * THIRD);
}

#[test]
fn pings_of_a_lost_connection_are_not_answered_by_the_next_one() {
    let mut harness = Harness::up();
    harness.pass(THIRD);
    harness.pass(MS);
    harness.cut();
    harness.connect();
    let contact = harness.now;
    harness.sent();
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(harness.shared.last_contact(), contact);
}

#[test]
fn with_many_unanswered_pings_a_reply_never_proves_too_much() {
    let mut harness = Harness::up();
    let start = harness.now;
    for _ in 0..100 {
        harness.pass(THIRD);
        harness.event(2, EventType::NodeDataChanged, "/not/mine");
    }
    assert_eq!(harness.sent().len(), 100);
    for answered in 1..100 {
        harness.reply(Xid::PING.0, 2, Reply::Empty);
        assert!(harness.shared.last_contact() <= start + THIRD * answered, "{answered} answered");
    }
    harness.pass(THIRD);
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert!(harness.shared.last_contact() <= start + THIRD * 100, "the last one of those before");
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    harness.pass(THIRD);
    harness.reply(Xid::PING.0, 2, Reply::Empty);
    assert_eq!(harness.shared.last_contact(), start + THIRD * 102, "all is as it was once all are answered");
}

#[test]
fn a_server_that_has_lost_the_session_gives_no_sign_of_life_for_it() {
    for code in [ErrorCode::SessionExpired, ErrorCode::SessionMoved] {
        let mut harness = Harness::up();
        let start = harness.now;
        harness.pass(MS);
        let mut write = harness.call(set("/a"));
        harness.refuse(1, code);
        assert_eq!(write.error().code(), Some(code));
        assert_eq!(harness.shared.last_contact(), start);
        assert_eq!(harness.state(), SessionState::Disconnected);
    }
}

#[test]
fn a_ping_that_is_answered_with_the_loss_of_the_session_closes_the_connection() {
    for code in [ErrorCode::SessionExpired, ErrorCode::SessionMoved] {
        let mut harness = Harness::up();
        let start = harness.now;
        harness.pass(THIRD);
        harness.refuse(Xid::PING.0, code);
        assert_eq!(harness.shared.last_contact(), start);
        assert_eq!(harness.state(), SessionState::Disconnected);
    }
}

#[test]
fn a_ping_that_is_answered_with_another_error_is_answered() {
    let mut harness = Harness::up();
    let start = harness.now;
    harness.pass(THIRD);
    harness.refuse(Xid::PING.0, ErrorCode::ThrottledOp);
    assert_eq!(harness.shared.last_contact(), start + THIRD);
    assert_eq!(harness.state(), SessionState::Connected);
}

#[test]
fn replies_of_a_read_only_server_are_no_contact() {
    let mut harness = Harness::new(SessionSettings { read_only: true, ..settings() });
    harness.connect();
    let contact = harness.now;
    harness.pass(MS);
    harness.cut();
    harness.connect_to(true);
    let _read = harness.call(get("/a"));
    harness.reply(1, 1, data());
    harness.pass(THIRD);
    harness.reply(Xid::PING.0, 1, Reply::Empty);
    assert_eq!(harness.state(), SessionState::ConnectedReadOnly);
    assert_eq!(harness.shared.last_contact(), contact);
    harness.cut();
    harness.connect();
    assert_eq!(harness.shared.last_contact(), harness.now);
}

#[test]
fn back_off_grows_to_a_sixth_of_the_timeout_and_repeats_with_the_seed() {
    let pauses = |seed| {
        let mut harness = Harness::with_two_hosts(SessionSettings { seed, ..settings() });
        let mut pauses = Vec::new();
        for _ in 0..30 {
            while harness.session.wanted_link() != WantedLink::Dialing {
                harness.now = harness.session.next_timeout().expect("a time for the next attempt");
                harness.session.handle_timeout(harness.now);
            }
            harness.cut();
            pauses.push(harness.session.next_timeout().expect("a time") - harness.now);
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
    let mut harness = Harness::new(settings());
    harness.session.handle_timeout(harness.now);
    harness.session.handle_connected(harness.now);
    harness.pass(TIMEOUT / 2 - MS);
    assert_eq!(harness.session.wanted_link(), WantedLink::Up);
    harness.pass(MS);
    assert_eq!(harness.session.wanted_link(), WantedLink::Down);
    assert!(harness.session.out().is_empty(), "the next connection begins with its own handshake");
}

#[test]
fn a_server_that_closes_after_the_first_replies_of_a_connection_is_dialed_with_back_off() {
    for watches in [false, true] {
        let mut harness = Harness::up();
        let _identity = harness.call(auth("u:p"));
        harness.reply(Xid::AUTH.0, 0, Reply::Empty);
        let mut read = harness.call(if watches { get_watched("/w") } else { get("/w") });
        harness.reply(1, 1, data());
        let _watch = watches.then(|| read.watch());
        let start = harness.now;
        for _ in 0..20 {
            harness.cut();
            harness.connect();
            harness.reply(Xid::AUTH.0, 0, Reply::Empty);
            if watches {
                harness.reply(Xid::SET_WATCHES.0, 1, Reply::Empty);
            }
        }
        assert!(harness.now - start > TIMEOUT, "20 connections in {:?}", harness.now - start);
        let _read = harness.call(get("/a"));
        harness.reply(2, 1, data());
        harness.cut();
        assert_eq!(harness.session.next_timeout(), Some(harness.now), "no pause after a useful connection");
    }
}

#[test]
fn a_tiny_session_timeout_does_not_shorten_attempts() {
    let mut harness = Harness::new(SessionSettings { session_timeout: MS, ..settings() });
    let mut pauses = Duration::ZERO;
    for _ in 0..30 {
        while harness.session.wanted_link() != WantedLink::Dialing {
            harness.now = harness.session.next_timeout().expect("a time for the next attempt");
            harness.session.handle_timeout(harness.now);
        }
        assert!(
            harness.session.next_timeout() >= Some(harness.now + 100 * MS),
            "a server needs some time to answer"
        );
        harness.cut();
        pauses += harness.session.next_timeout().expect("a time") - harness.now;
    }
    assert!(pauses > 30 * 25 * MS, "30 pauses that take {pauses:?}");
}

#[test]
fn an_identity_that_a_server_accepts_is_no_sign_of_life() {
    let mut harness = Harness::up();
    let contact = harness.shared.last_contact();
    for n in 1..4 {
        harness.pass(MS);
        let mut added = harness.call(auth("u:p"));
        harness.reply(Xid::AUTH.0, n, Reply::Empty);
        assert!(added.outcome().expect("an outcome").is_ok());
        assert_eq!(harness.shared.last_contact(), contact, "servers do not renew the session for it");
    }
    let _read = harness.call(get("/a"));
    harness.reply(harness.last_xid(), 5, data());
    assert_eq!(harness.shared.last_contact(), contact + 3 * MS);
}

#[test]
fn every_host_of_a_list_that_another_session_has_replaced_is_tried_without_a_pause() {
    let servers = "a,b".into_transport().expect("a list").servers().expect("hosts");
    let mut harness = Harness::with_servers(settings(), Some(servers.clone()));
    servers.update("a,b,c,d", None, &mut StdRng::seed_from_u64(7)).expect("a list");
    for _ in 0..4 {
        harness.session.handle_timeout(harness.now);
        assert_eq!(harness.session.wanted_link(), WantedLink::Dialing);
        harness.session.handle_dialing(Some(servers.next().0.label));
        harness.cut();
    }
}
