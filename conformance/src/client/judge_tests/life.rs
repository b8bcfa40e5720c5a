//! The rules of sessions: pings, zxids, and how they are resumed and end.

use super::*;

#[test]
fn a_client_is_never_silent_for_more_than_two_thirds_of_the_timeout() {
    for (millis, expected) in [(3_900, &[][..]), (4_200, &[ClientRule::PingTooLate])] {
        let mut play = Play::connected();
        play.wait(1_000);
        play.asks(1, -2, Request::Ping);
        play.wait(millis);
        play.asks(1, -2, Request::Ping);
        play.shows(expected);
    }
}

#[test]
fn auth_packets_are_no_sign_of_life() {
    let mut play = Play::connected();
    for _ in 0..3 {
        play.wait(2_000);
        play.asks(1, -4, auth("u:p"));
    }
    play.shows(&[ClientRule::PingTooLate]);
}

#[test]
fn silence_until_the_server_ends_the_connection_counts_and_that_before_the_client_does_not() {
    for (end, expected) in [(End::Peer, &[ClientRule::PingTooLate][..]), (End::Client, &[])] {
        let mut play = Play::connected();
        play.asks(1, 1, get("/a"));
        play.wait(6_500);
        play.ends(1, end);
        play.shows(expected);
    }
}

#[test]
fn a_client_that_gives_up_a_connection_for_want_of_its_own_pings_pings_too_late() {
    for (is_answered, expected) in [(true, &[ClientRule::PingTooLate][..]), (false, &[])] {
        let mut play = Play::connected();
        play.asks(1, -2, Request::Ping);
        if is_answered {
            play.replies(1, -2, 0);
        }
        play.wait(4_000);
        play.ends(1, End::Client);
        play.resumes(0);
        play.shows(expected);
    }
}

#[test]
fn a_session_is_resumed_with_the_largest_zxid_of_the_replies() {
    for (zxid, expected) in [
        (9, &[][..]),
        (0, &[ClientRule::WrongLastZxid]),
        (8, &[ClientRule::WrongLastZxid]),
        (10, &[ClientRule::WrongLastZxid]),
    ] {
        let mut play = Play::cut_after_reading(9);
        play.connects(2, SESSION, zxid);
        play.shows(expected);
    }
}

#[test]
fn the_zxids_of_pings_and_events_may_count() {
    for zxid in [9, 10, 11] {
        let mut play = Play::connected();
        play.asks(1, 1, get("/a"));
        play.replies(1, 1, 9);
        play.asks(1, -2, Request::Ping);
        play.replies(1, -2, 10);
        play.notifies(1, 11, EventType::NodeCreated, "/a");
        play.ends(1, End::Peer);
        play.resumes(zxid);
        play.shows(&[]);
    }
}

#[test]
fn the_zxid_of_a_refused_write_counts() {
    let mut play = Play::connected();
    play.asks(1, 1, set("/a"));
    play.replies_with(1, 1, 9, ErrorCode::NoNode.code());
    play.ends(1, End::Peer);
    play.resumes(8);
    play.shows(&[ClientRule::WrongLastZxid]);
}

#[test]
fn a_reply_that_comes_just_before_the_client_gives_up_may_count_or_not() {
    for zxid in [0, 9] {
        let mut play = Play::connected();
        play.asks(1, 1, get("/a"));
        play.replies(1, 1, 9);
        play.wait(500);
        play.ends(1, End::Client);
        play.resumes(zxid);
        play.shows(&[]);
    }
}

#[test]
fn set_watches_counts_from_what_was_seen_before_the_connection() {
    for (relative, expected) in
        [(9, &[][..]), (0, &[ClientRule::WrongLastZxid]), (12, &[ClientRule::WrongLastZxid])]
    {
        let mut play = Play::cut_after_reading(9);
        play.connects(2, SESSION, 9);
        play.grants(2);
        play.asks(2, 2, get("/a"));
        play.replies(2, 2, 12);
        play.asks(2, -8, set_watches(relative, &[], &[]));
        play.shows(expected);
    }
}

#[test]
fn a_session_is_resumed_with_its_own_id_and_password() {
    let mut play = Play::cut_after_reading(1);
    play.connects(2, SESSION + 1, 1);
    play.shows(&[ClientRule::WrongSession]);

    let mut play = Play::cut_after_reading(1);
    play.connects_with(2, SESSION, 1, Bytes::from_static(&[8; 16]));
    play.shows(&[ClientRule::WrongSession]);
}

#[test]
fn a_session_that_is_alive_is_not_left_for_a_new_one() {
    let mut play = Play::cut_after_reading(1);
    play.connects(2, 0, 0);
    play.answers(2, SESSION + 1, TIMEOUT);
    let mistakes = play.shows(&[ClientRule::SessionAbandoned]);
    assert_eq!(mistakes[0].frame.line, "connect session=0x0 lastZxidSeen=0x0 timeOut=6000");

    // It has had its time.
    let mut play = Play::cut_after_reading(1);
    play.wait(6_000);
    play.connects(2, 0, 0);
    play.shows(&[]);
}

#[test]
fn a_second_client_may_have_a_session_of_its_own() {
    let mut play = Play::cut_after_reading(1);
    play.connects(2, 0, 0);
    play.answers(2, SESSION + 1, TIMEOUT);
    play.open();
    play.connects(3, SESSION, 1);
    play.grants(3);
    play.shows(&[]);
}

#[test]
fn a_session_that_its_client_has_closed_is_over() {
    let mut play = Play::connected();
    play.asks(1, 1, Request::CloseSession);
    play.ends(1, End::Peer);
    play.open();
    play.connects(2, 0, 0);
    play.shows(&[]);
}

#[test]
fn a_frame_is_no_longer_than_servers_accept() {
    for (len, expected) in [(DEFAULT_MAX_FRAME, &[][..]), (DEFAULT_MAX_FRAME + 1, &[ClientRule::Oversized])] {
        let mut play = Play::connected();
        let incoming = Incoming { xid: Xid(1), op: OpCode::SetData.code(), body: Ok(set("/a")) };
        let payload = Bytes::from(vec![0; len]);
        play.judge.client_sent(1, play.at, &payload, &Ok(FromClient::Request(incoming)));
        play.shows(expected);
    }
}

#[test]
fn an_expired_session_is_never_asked_for_again() {
    let refused = || {
        let mut play = Play::cut_after_reading(1);
        play.connects(2, SESSION, 1);
        play.answers(2, 0, 0);
        play.ends(2, End::Peer);
        play.open();
        play
    };
    let mut play = refused();
    play.connects(3, SESSION, 1);
    play.shows(&[ClientRule::AfterExpiry]);

    let mut play = refused();
    play.connects(3, 0, 0);
    play.shows(&[]);
}

#[test]
fn a_closed_session_is_never_asked_for_again() {
    let mut play = Play::connected();
    play.asks(1, 1, Request::CloseSession);
    play.replies(1, 1, 2);
    play.ends(1, End::Peer);
    play.resumes(2);
    play.shows(&[ClientRule::AfterExpiry]);
}

#[test]
fn a_frame_is_a_request_that_zookeeper_knows() {
    for payload in [&b"\0\0\0\x01\0\0\0\x63"[..], b"\0\0\0\x01\0\0\0\x04\0\0\0\x09/a"] {
        let mut play = Play::connected();
        let incoming = Incoming::parse(payload).unwrap();
        let payload = Bytes::from_static(payload);
        play.judge.client_sent(1, play.at, &payload, &Ok(FromClient::Request(incoming)));
        play.shows(&[ClientRule::Undecodable]);
    }
    let mut play = Play::connected();
    play.judge.client_sent(
        1,
        play.at,
        &Bytes::from_static(b"xyz"),
        &Err("a request without a whole header".into()),
    );
    play.shows(&[ClientRule::Undecodable]);
}

#[test]
fn what_comes_on_a_connection_that_is_over_changes_nothing_of_the_session() {
    let mut play = resumed_with_watches();
    // The client has not noticed yet that the first connection is gone.
    play.asks(1, -8, set_watches(0, &["/a"], &["/b"]));
    play.wait(1_500);
    play.asks(2, 3, get("/c"));
    play.shows(&[ClientRule::WatchesNotRestored]);
}

#[test]
fn a_rule_that_is_broken_again_and_again_is_reported_once_and_counted() {
    let mut play = Play::connected();
    for _ in 0..5 {
        play.asks(1, 1, get("/a"));
    }
    let mistakes = play.shows(&[ClientRule::XidReused]);
    assert_eq!(mistakes[0].again, 3);
}
