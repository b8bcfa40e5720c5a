//! The rules of requests: the handshake, xids, watches and credentials.

use super::*;

#[test]
fn a_request_must_wait_for_the_answer_to_the_handshake() {
    let mut play = Play::new();
    play.open();
    play.connects(1, 0, 0);
    play.asks(1, 1, get("/a"));
    let mistakes = play.shows(&[ClientRule::HandshakeFirst]);
    assert_eq!(mistakes[0].frame.line, "xid=1 getData /a");
    assert_eq!(mistakes[0].frame.hex, "0000000f0000000100000004000000022f6100");

    let mut play = Play::connected();
    play.asks(1, 1, get("/a"));
    play.shows(&[]);
}

#[test]
fn what_is_sent_too_early_restores_watches_and_credentials_nevertheless() {
    let mut play = Play::connected();
    play.asks(1, -4, auth("u:p"));
    play.replies(1, -4, 0);
    play.asks(1, 1, watch("/a"));
    play.replies(1, 1, 3);
    play.ends(1, End::Peer);
    play.open();
    play.connects(2, SESSION, 3);
    play.asks(2, -4, auth("u:p"));
    play.asks(2, -8, set_watches(3, &["/a"], &[]));
    play.grants(2);
    play.wait(1_500);
    play.asks(2, 2, get("/a"));
    play.shows(&[ClientRule::HandshakeFirst]);
}

#[test]
fn an_xid_is_used_once_on_a_connection() {
    let mut play = Play::connected();
    play.asks(1, 1, get("/a"));
    play.replies(1, 1, 1);
    play.asks(1, 1, get("/b"));
    let mistakes = play.shows(&[ClientRule::XidReused]);
    assert_eq!(mistakes[0].frame.line, "xid=1 getData /b");

    // Another connection has numbers of its own.
    let mut play = Play::cut_after_reading(1);
    play.connects(2, SESSION, 1);
    play.grants(2);
    play.asks(2, 1, get("/a"));
    play.shows(&[]);
}

#[test]
fn xids_rise_and_start_again_after_the_largest_number() {
    let mut play = Play::connected();
    for xid in [5, 9, 7] {
        play.asks(1, xid, get("/a"));
    }
    play.shows(&[ClientRule::XidBackwards]);

    let mut play = Play::connected();
    for xid in [i32::MAX - 1, i32::MAX, 1, 2] {
        play.asks(1, xid, get("/a"));
    }
    play.shows(&[]);
}

#[test]
fn a_negative_xid_is_one_that_is_reserved_for_the_request() {
    let mut play = Play::connected();
    play.asks(1, -2, Request::Ping);
    play.asks(1, -4, auth("u:p"));
    play.asks(1, -8, set_watches(0, &[], &[]));
    play.asks(1, -2, Request::Ping);
    play.shows(&[]);
    for (xid, request) in [(-1, get("/a")), (-2, get("/a")), (-4, Request::Ping), (-8, auth("u:p"))] {
        let mut play = Play::connected();
        play.asks(1, xid, request);
        play.shows(&[ClientRule::XidReserved]);
    }
}

#[test]
fn auth_and_set_watches_may_have_ordinary_xids() {
    let mut play = Play::connected();
    play.asks(1, 1, auth("u:p"));
    play.asks(1, 2, set_watches(0, &[], &[]));
    play.shows(&[]);
}

#[test]
fn watches_are_set_again_within_a_second() {
    let mut play = resumed_with_watches();
    play.asks(2, -8, set_watches(3, &["/a"], &["/B"]));
    play.wait(1_500);
    play.asks(2, 3, get("/c"));
    play.shows(&[]);

    let mut play = resumed_with_watches();
    play.asks(2, -8, set_watches(3, &["/a"], &[]));
    play.wait(900);
    play.asks(2, 3, get("/c"));
    play.wait(600);
    play.asks(2, 4, get("/c"));
    let mistakes = play.shows(&[ClientRule::WatchesNotRestored]);
    assert!(mistakes[0].reason.ends_with("not set again: child /B"), "{}", mistakes[0].reason);
    assert_eq!(mistakes[0].frame.line, "xid=4 getData /c");
}

#[test]
fn a_watch_may_be_set_again_by_a_read() {
    let mut play = resumed_with_watches();
    play.asks(2, 3, watch("/a"));
    play.replies(2, 3, 3);
    play.asks(2, 4, Request::GetChildren2(GetChildren { path: "/B".to_owned(), watch: true }));
    play.replies(2, 4, 3);
    play.wait(1_500);
    play.asks(2, 5, get("/c"));
    play.shows(&[]);
}

#[test]
fn a_watch_that_has_fired_is_not_set_again() {
    let mut play = Play::connected();
    play.asks(1, 1, watch("/a"));
    play.replies(1, 1, 3);
    play.notifies(1, 4, EventType::NodeDataChanged, "/a");
    play.ends(1, End::Peer);
    play.resumes(4);
    play.wait(1_500);
    play.asks(2, 2, get("/c"));
    play.shows(&[]);
}

#[test]
fn an_exists_watch_on_an_absent_znode_is_one_and_a_failed_read_sets_none() {
    for (request, error, owes) in [
        (Request::Exists(Exists { path: "/a".to_owned(), watch: true }), ErrorCode::NoNode, true),
        (Request::Exists(Exists { path: "/a".to_owned(), watch: true }), ErrorCode::NoAuth, false),
        (watch("/a"), ErrorCode::NoNode, false),
    ] {
        let mut play = Play::connected();
        play.asks(1, 1, request);
        play.replies_with(1, 1, 3, error.code());
        play.ends(1, End::Peer);
        play.resumes(3);
        play.wait(1_500);
        play.asks(2, 2, get("/c"));
        play.shows(if owes { &[ClientRule::WatchesNotRestored] } else { &[] });
    }
}

#[test]
fn a_persistent_watch_stays_when_it_fires_and_is_in_a_list_of_its_own() {
    for (set_again, expected) in [(true, &[][..]), (false, &[ClientRule::WatchesNotRestored])] {
        let mut play = Play::connected();
        let add = zoolet_proto::records::AddWatch { path: Some("/a".to_owned()), mode: 1 };
        play.asks(1, 1, Request::AddWatch(add));
        play.replies(1, 1, 3);
        play.notifies(1, 4, EventType::NodeDataChanged, "/a");
        play.ends(1, End::Peer);
        play.resumes(3);
        let paths = vec!["/a".to_owned()];
        let (persistent, recursive) = if set_again { (Vec::new(), paths) } else { (paths, Vec::new()) };
        let (data, exist, child) = Default::default();
        let set = SetWatches2 { relative_zxid: Zxid(3), data, exist, child, persistent, recursive };
        play.asks(2, -8, Request::SetWatches2(Box::new(set)));
        play.wait(1_500);
        play.asks(2, 2, get("/c"));
        play.shows(expected);
    }
}

#[test]
fn a_watch_whose_reply_the_client_may_not_have_read_is_not_asked_for() {
    let mut play = Play::connected();
    play.asks(1, 1, watch("/a"));
    play.replies(1, 1, 3);
    play.ends(1, End::Client);
    play.resumes(0);
    play.wait(1_500);
    play.asks(2, 2, get("/c"));
    play.shows(&[]);
}

#[test]
fn credentials_are_sent_again_before_other_requests() {
    let reconnected = || {
        let mut play = Play::connected();
        play.asks(1, -4, auth("u:p"));
        play.replies(1, -4, 0);
        play.ends(1, End::Peer);
        play.resumes(0);
        play
    };
    let mut play = reconnected();
    play.asks(2, -8, set_watches(0, &[], &[]));
    play.asks(2, -4, auth("u:p"));
    play.asks(2, 1, get("/a"));
    play.shows(&[]);

    let mut play = reconnected();
    play.asks(2, -4, auth("other:p"));
    play.asks(2, 1, get("/a"));
    let mistakes = play.shows(&[ClientRule::AuthNotRestored]);
    assert_eq!(mistakes[0].frame.line, "xid=1 getData /a");
}

#[test]
fn sasl_is_done_again_before_other_requests() {
    let reconnected = |token| {
        let mut play = Play::connected();
        play.asks(1, 1, sasl(""));
        play.replies(1, 1, 0);
        play.asks(1, 2, sasl(token));
        play.replies(1, 2, 0);
        // As kazoo, which begins to count after the exchange.
        play.asks(1, 1, get("/a"));
        play.ends(1, End::Peer);
        play.resumes(0);
        play
    };
    let mut play = reconnected("response");
    play.asks(2, 3, sasl(""));
    play.replies(2, 3, 0);
    play.asks(2, 4, sasl("another"));
    play.replies(2, 4, 0);
    play.asks(2, 5, get("/a"));
    play.shows(&[]);

    let mut play = reconnected("response");
    play.asks(2, 3, sasl(""));
    play.asks(2, 4, get("/a"));
    let mistakes = play.shows(&[ClientRule::AuthNotRestored]);
    assert_eq!(
        mistakes[0].reason,
        "the sasl credentials of an earlier connection have not been sent on this one"
    );

    // A server without users answers the first token, and nothing follows.
    let mut play = reconnected("");
    play.asks(2, 1, get("/a"));
    play.shows(&[]);
}

#[test]
fn the_bytes_that_are_shown_have_no_credentials() {
    let mut play = Play::connected();
    play.asks(1, -1, auth("u:secret"));
    let mistakes = play.shows(&[ClientRule::XidReserved]);
    assert_eq!(mistakes[0].frame.line, "xid=-1 auth digest");
    assert_eq!(mistakes[0].frame.hex, "00000022ffffffff00000064..");
}

#[test]
fn bytes_that_begin_no_frame_are_a_mistake() {
    let mut play = Play::connected();
    let bytes = Bytes::from_static(b"\xff\xff\xff\xffxyz");
    play.judge.no_frame(1, play.at, &bytes, "a length of -1".to_owned());
    let mistakes = play.shows(&[ClientRule::Undecodable]);
    assert_eq!((mistakes[0].reason.as_str(), mistakes[0].frame.connection), ("a length of -1", 1));
    assert!(mistakes[0].frame.hex.ends_with("ffffffff78797a"), "{}", mistakes[0].frame.hex);
}
