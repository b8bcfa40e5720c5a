//! Watches: who is notified, what is sent to the server, what survives a connection.

use super::*;

#[test]
fn a_watch_that_is_asked_for_while_the_connection_is_lost_and_given_up_leaves_nothing() {
    for given_up in [true, false] {
        let mut harness = Harness::up();
        let mut first = harness.call(get_watched("/a"));
        harness.reply(1, 1, data());
        let first = first.watch();
        let second = harness.call(get_watched("/a"));
        let second = (!given_up).then_some(second);
        harness.cut();
        harness.sent();
        harness.connect();
        match second {
            None => assert_eq!(harness.sent(), [set_watches(1, &["/a"])]),
            Some(mut second) => {
                assert_eq!(harness.sent(), [set_watches(1, &["/a"]), get_watched("/a")]);
                harness.reply(-8, 1, Reply::Empty);
                harness.reply(harness.last_xid(), 1, data());
                drop(second.watch());
                harness.settle();
            }
        }
        assert_eq!(harness.sent(), [], "the first handle uses it");
        drop(first);
        harness.settle();
        assert_eq!(harness.sent(), [remove("/a", 2)]);
    }
}

#[test]
fn two_users_of_one_watch_get_one_event_each() {
    let mut harness = Harness::up();
    let (mut one, mut other) = (harness.call(get_watched("/a")), harness.call(exists_watched("/a")));
    harness.reply(1, 1, data());
    harness.reply(2, 1, Reply::Stat(Stat::default()));
    let (mut one, mut other) = (one.watch(), other.watch());
    harness.event(2, EventType::NodeDataChanged, "/a");
    assert!(matches!(event_of(&mut one), Some(Ok(EventType::NodeDataChanged))));
    assert!(matches!(event_of(&mut other), Some(Ok(EventType::NodeDataChanged))));
}

#[test]
fn dropping_the_last_user_removes_the_watch() {
    let mut harness = Harness::up();
    for (request, reply, kind) in [
        (get_watched("/a"), data(), 2),
        (list_watched("/a"), Reply::Children2([].into_iter().collect(), Stat::default()), 1),
        (add_watch("/a", 0), Reply::WatchAdded, 4),
        (add_watch("/a", 1), Reply::WatchAdded, 5),
    ] {
        let (mut one, mut other) = (harness.call(request.clone()), harness.call(request));
        for incoming in harness.incoming() {
            harness.reply(incoming.xid.0, 1, reply.clone());
        }
        let (one, other) = (one.outcome().expect("an outcome"), other.outcome().expect("an outcome"));
        drop(one);
        harness.settle();
        assert_eq!(harness.sent(), []);
        drop(other);
        harness.settle();
        let incoming = harness.incoming();
        assert_eq!(incoming.len(), 1);
        assert_eq!(incoming[0].body, Ok(remove("/a", kind)));
        harness.refuse(incoming[0].xid.0, ErrorCode::NoWatcher);
    }
    assert_eq!(harness.state(), SessionState::Connected, "removing an absent watch is harmless");
}

#[test]
fn a_watch_that_has_fired_needs_no_removal() {
    let mut harness = Harness::up();
    let mut call = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let watch = call.watch();
    harness.event(2, EventType::NodeDeleted, "/a");
    harness.sent();
    drop(watch);
    harness.settle();
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_watch_in_flight_survives_the_removal_for_another_user() {
    let mut harness = Harness::up();
    let mut first = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let watch = first.watch();
    let mut second = harness.call(get_watched("/a"));
    harness.sent();
    drop(watch);
    harness.settle();
    assert_eq!(harness.sent(), [], "a removal now would reach the server after the second getData");
    harness.reply(2, 1, data());
    let mut watch = second.watch();
    harness.event(2, EventType::NodeDataChanged, "/a");
    assert!(matches!(event_of(&mut watch), Some(Ok(_))));
}

#[test]
fn a_removal_that_was_deferred_is_sent_when_the_other_call_fails() {
    let mut harness = Harness::up();
    let mut first = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let watch = first.watch();
    let _second = harness.call(get_watched("/a"));
    harness.sent();
    drop(watch);
    harness.settle();
    harness.refuse(2, ErrorCode::NoAuth);
    assert_eq!(harness.sent(), [remove("/a", 2)]);
}

#[test]
fn an_event_between_call_and_reply_belongs_to_the_earlier_watch() {
    let mut harness = Harness::up();
    let mut first = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let mut first = first.watch();
    let mut second = harness.call(get_watched("/a"));
    harness.event(2, EventType::NodeDataChanged, "/a");
    harness.reply(2, 2, data());
    let mut second = second.watch();
    assert!(matches!(event_of(&mut first), Some(Ok(_))));
    assert!(event_of(&mut second).is_none());
    harness.event(3, EventType::NodeDataChanged, "/a");
    assert!(matches!(event_of(&mut second), Some(Ok(_))));
}

#[test]
fn a_watch_whose_caller_is_gone_is_removed_when_its_reply_arrives() {
    let mut harness = Harness::up();
    drop(harness.call(get_watched("/a")));
    let mut late = harness.call_within(get_watched("/b"), Some(MS));
    harness.pass(MS);
    assert!(matches!(late.error(), Error::Timeout(_)));
    harness.sent();
    harness.reply(1, 1, data());
    harness.reply(2, 1, data());
    harness.settle();
    assert_eq!(harness.sent(), [remove("/a", 2), remove("/b", 2)]);
}

#[test]
fn a_deletion_ends_data_and_child_watches_with_one_event() {
    let mut harness = Harness::up();
    let (mut data_call, mut child_call) = (harness.call(get_watched("/a")), harness.call(list_watched("/a")));
    harness.reply(1, 1, data());
    harness.reply(2, 1, Reply::Children2([].into_iter().collect(), Stat::default()));
    let (mut data_watch, mut child_watch) = (data_call.watch(), child_call.watch());
    harness.event(2, EventType::NodeDeleted, "/a");
    assert!(matches!(event_of(&mut data_watch), Some(Ok(EventType::NodeDeleted))));
    assert!(matches!(event_of(&mut child_watch), Some(Ok(EventType::NodeDeleted))));
}

#[test]
fn a_recursive_watch_reports_all_descendants_but_no_child_lists() {
    let mut harness = Harness::up();
    let mut calls = [
        harness.call(add_watch("/", 1)),
        harness.call(add_watch("/a", 1)),
        harness.call(add_watch("/a/b", 0)),
    ];
    (1..=3).for_each(|xid| harness.reply(xid, 1, Reply::WatchAdded));
    let streams = calls.each_mut().map(Pending::stream);
    harness.event(2, EventType::NodeCreated, "/a/b");
    harness.event(3, EventType::NodeChildrenChanged, "/a/b");
    harness.event(4, EventType::NodeCreated, "/ab");
    let heard = |stream: &WatchStream| {
        let mut zxids = Vec::new();
        while let Some(WatchUpdate::Event(event)) = next(stream) {
            zxids.push(event.zxid.map_or(0, |zxid| zxid.0));
        }
        zxids
    };
    assert_eq!(streams.each_ref().map(heard), [vec![2, 4], vec![2], vec![2, 3]]);
}

#[test]
fn a_persistent_watch_reports_the_gap_of_a_lost_connection() {
    let mut harness = Harness::up();
    let mut call = harness.call(add_watch("/p", 0));
    harness.reply(1, 1, Reply::WatchAdded);
    let stream = call.stream();
    harness.event(2, EventType::NodeCreated, "/p");
    harness.cut();
    harness.sent();
    harness.connect();
    let sent = harness.sent();
    assert!(matches!(&sent[..], [Request::SetWatches2(all)] if all.persistent == ["/p"]), "{sent:?}");
    harness.cut();
    harness.connect();
    harness.event(9, EventType::NodeDeleted, "/p");
    assert!(matches!(next(&stream), Some(WatchUpdate::Event(_))));
    assert!(matches!(next(&stream), Some(WatchUpdate::Missed)), "one is enough for both gaps");
    assert!(matches!(next(&stream), Some(WatchUpdate::Event(_))));
    assert!(next(&stream).is_none());
}

#[test]
fn a_persistent_watch_that_is_not_read_stops_growing_and_reports_it() {
    let mut harness = Harness::up();
    let mut call = harness.call(add_watch("/p", 0));
    harness.reply(1, 1, Reply::WatchAdded);
    let stream = call.stream();
    for zxid in 0..crate::watch::STREAM_CAPACITY as i64 + 10 {
        harness.event(zxid + 2, EventType::NodeDataChanged, "/p");
    }
    for _ in 0..crate::watch::STREAM_CAPACITY {
        assert!(matches!(next(&stream), Some(WatchUpdate::Event(_))));
    }
    assert!(matches!(next(&stream), Some(WatchUpdate::Missed)));
    assert!(next(&stream).is_none());
    harness.event(99_999, EventType::NodeDataChanged, "/p");
    assert!(matches!(next(&stream), Some(WatchUpdate::Event(event)) if event.zxid == Some(Zxid(99_999))));
}

#[test]
fn watches_are_restored_by_kind() {
    let mut harness = Harness::up();
    let mut calls = [
        harness.call(get_watched("/data")),
        harness.call(exists_watched("/there")),
        harness.call(exists_watched("/missing")),
        harness.call(list_watched("/children")),
    ];
    harness.reply(1, 1, data());
    harness.reply(2, 1, Reply::Stat(Stat::default()));
    harness.refuse(3, ErrorCode::NoNode);
    harness.reply(4, 50, Reply::Children2([].into_iter().collect(), Stat::default()));
    let [_data, there, _missing, _children] = calls.each_mut().map(Pending::watch);
    harness.cut();
    drop(there);
    harness.settle();
    assert_eq!(harness.sent(), [], "the watch went with its connection");
    harness.connect();
    let watches = records::SetWatches {
        relative_zxid: Zxid(50),
        data: vec!["/data".into()],
        exist: vec!["/missing".into()],
        child: vec!["/children".into()],
    };
    assert_eq!(harness.sent(), [Request::SetWatches(watches)]);
}

#[test]
fn many_watches_are_restored_in_requests_that_a_server_accepts() {
    let mut harness = Harness::new(SessionSettings { max_request: frame::DEFAULT_MAX_FRAME, ..settings() });
    harness.connect();
    let mut watches = Vec::new();
    for number in 0..3000 {
        let mut call = harness.call(get_watched(&format!("/{number:0>100}")));
        harness.reply(number + 1, 1, data());
        watches.push(call.watch());
    }
    harness.cut();
    harness.connect();
    let frames = harness.frames();
    assert_eq!(frames.len(), 3, "3000 paths of 105 bytes");
    assert!(frames.iter().all(|frame| frame.len() <= 129 * 1024));
}

#[test]
fn the_last_zxid_stays_until_all_watches_are_restored() {
    let mut harness = Harness::new(SessionSettings { max_request: frame::DEFAULT_MAX_FRAME, ..settings() });
    harness.connect();
    let mut watches = Vec::new();
    for number in 0..2000 {
        let mut call = harness.call(get_watched(&format!("/{number:0>100}")));
        harness.reply(number + 1, 40, data());
        watches.push(call.watch());
    }
    harness.cut();
    harness.connect();
    assert_eq!(harness.sent().len(), 2);
    harness.reply(Xid::SET_WATCHES.0, 90, Reply::Empty);
    assert_eq!(harness.shared.last_zxid(), Zxid(40), "changes under the other half are not reported yet");
    harness.cut();
    harness.connect();
    let since = |request: &Request| match request {
        Request::SetWatches(watches) => watches.relative_zxid,
        other => panic!("{other:?}"),
    };
    assert_eq!(harness.sent().iter().map(since).collect::<Vec<_>>(), [Zxid(40); 2]);
    harness.reply(Xid::SET_WATCHES.0, 90, Reply::Empty);
    harness.reply(Xid::SET_WATCHES.0, 91, Reply::Empty);
    assert_eq!(harness.shared.last_zxid(), Zxid(91));
}

#[test]
fn a_server_that_has_lost_the_session_does_not_move_the_zxid_and_is_dialed_with_back_off() {
    let mut harness = Harness::up();
    let _identity = harness.call(auth("u:p"));
    harness.reply(Xid::AUTH.0, 0, Reply::Empty);
    let mut call = harness.call(get_watched("/w"));
    harness.reply(1, 40, data());
    let _watch = call.watch();
    harness.cut();
    let began = harness.now;
    for _ in 0..3 {
        harness.connect();
        harness.reply(Xid::AUTH.0, 0, Reply::Empty);
        harness.refuse_at(Xid::SET_WATCHES.0, 90, ErrorCode::SessionMoved);
        assert_eq!((harness.state(), harness.shared.last_zxid()), (SessionState::Disconnected, Zxid(40)));
    }
    assert!(harness.now > began, "it would be asked again and again without a pause");
    harness.connect();
    assert_eq!(harness.sent()[1..], [set_watches(40, &["/w"])]);
    for _ in 0..3 {
        let _call = harness.call(get("/a"));
        let xid = harness.incoming().last().expect("a request").xid.0;
        let before = harness.now;
        harness.refuse_at(xid, 95, ErrorCode::SessionMoved);
        harness.connect();
        assert!(harness.now > before, "nor is a refusal of anything else a sign of use");
    }
}

#[test]
fn watches_that_a_server_refuses_to_restore_end_and_the_session_continues() {
    for code in [ErrorCode::ThrottledOp, ErrorCode::Unimplemented] {
        let mut harness = Harness::up();
        let mut calls = [
            harness.call(get_watched("/w")),
            harness.call(list_watched("/w")),
            harness.call(add_watch("/w", 1)),
        ];
        harness.reply(1, 40, data());
        harness.reply(2, 40, Reply::Children2([].into_iter().collect(), Stat::default()));
        harness.reply(3, 40, Reply::WatchAdded);
        let [of_data, of_children, recursive] = &mut calls;
        let (mut of_data, mut of_children, stream) =
            (of_data.watch(), of_children.watch(), recursive.stream());
        harness.cut();
        harness.connect();
        assert_eq!(harness.sent().len(), 2);
        harness.refuse_at(Xid::SET_WATCHES.0, 90, code);
        harness.refuse_at(Xid::SET_WATCHES.0, 90, code);
        assert!(matches!(event_of(&mut of_data), Some(Err(Error::WatchRemoved(_)))), "{code}");
        assert!(matches!(event_of(&mut of_children), Some(Err(Error::WatchRemoved(_)))), "{code}");
        assert!(matches!(next(&stream), Some(WatchUpdate::Missed)), "{code}");
        assert!(matches!(next(&stream), Some(WatchUpdate::Ended(Error::WatchRemoved(_)))), "{code}");
        assert_eq!(
            (harness.state(), harness.shared.last_zxid()),
            (SessionState::Connected, Zxid(90)),
            "{code}"
        );
        harness.cut();
        harness.connect();
        assert_eq!(harness.sent(), [], "nothing is left to be set again");
    }
}

#[test]
fn requests_that_restore_watches_respect_the_request_limit() {
    let long = |number: usize| format!("/{number:0>299}");
    let mut harness = Harness::up();
    let mut watches = Vec::new();
    for number in 0..10 {
        let mut call = harness.call(get_watched(&long(number)));
        harness.reply(number as i32 + 1, 40, data());
        watches.push(call.watch());
    }
    // It can be watched, but a request to restore the watch is longer.
    let mut call = harness.call(get_watched(&format!("/{}", "x".repeat(970))));
    harness.reply(11, 40, data());
    let mut longest = call.watch();
    harness.cut();
    harness.connect();
    let frames = harness.frames();
    assert_eq!(frames.len(), 4, "10 paths of 300 bytes, three in 1,000");
    assert!(frames.iter().all(|frame| frame.len() <= 1000));
    assert!(matches!(event_of(&mut longest), Some(Err(Error::WatchRemoved(_)))));
    for _ in 0..4 {
        assert_eq!(harness.shared.last_zxid(), Zxid(40));
        harness.reply(Xid::SET_WATCHES.0, 90, Reply::Empty);
    }
    assert_eq!(harness.shared.last_zxid(), Zxid(90));
}

#[test]
fn removed_watches_notify_their_users() {
    let mut harness = Harness::up();
    let mut call = harness.call(get_watched("/a"));
    harness.reply(1, 1, data());
    let mut watch = call.watch();
    let _remove = harness.call(remove("/a", 3));
    harness.reply(2, 1, Reply::Empty);
    assert!(matches!(event_of(&mut watch), Some(Err(Error::WatchRemoved(_)))));
}
