//! One order: replies in the order of the requests, one total order of all writes, all or nothing, dense zxids.

use std::collections::BTreeSet;
use std::sync::Arc;
use zoolet::testing::FixtureExt as _;

use zoolet_proto::records::OpResult;
use zoolet_test_support::*;

#[tokio::test(start_paused = true)]
async fn five_thousand_pipelined_requests_are_answered_in_order() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    // The wire itself checks the order of the numbers; the names show the order of execution.
    let frames = wire.pipeline((0..5_000).map(|_| create("/n-").sequential())).await;
    let paths: Vec<_> = frames.into_iter().map(|frame| frame.answer().path().to_owned()).collect();
    let expected: Vec<_> = (0..5_000).map(|n| format!("/n-{n:010}")).collect();
    assert_eq!(paths, expected);
}

#[tokio::test(start_paused = true)]
async fn a_read_shows_every_write_sent_before_it_and_none_sent_after() {
    let zk = Zk::start().await;
    zk.create("/a", "").await;
    let mut wire = zk.wire().await;
    let script = (0..2_000).flat_map(|n| [set_data("/a", n.to_string()), get_data("/a"), ping()]);
    let frames = wire.pipeline(script.collect::<Vec<_>>()).await;
    for (n, answers) in frames.chunks(3).enumerate() {
        let read = answers[1].clone().answer();
        assert_eq!(read.text(), n.to_string());
        assert_eq!(read.stat().mzxid.0, answers[0].clone().answer().zxid);
        assert_eq!(answers[2].clone().answer().xid, Xid::PING);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_many_connections_form_one_order_without_gaps() {
    const CONNECTIONS: usize = 8;
    const EACH: usize = 500;
    let zk = Zk::start_tcp().await;
    let mut wires = Vec::new();
    for _ in 0..CONNECTIONS {
        wires.push(zk.tcp_wire().await);
    }
    let write = |mut wire: Wire| async move {
        let frames = wire.pipeline((0..EACH).map(|_| create("/n-").sequential())).await;
        let answers = frames.into_iter().map(Frame::answer);
        answers.map(|answer| (answer.zxid, answer.path().to_owned())).collect::<Vec<_>>()
    };
    let writers: Vec<_> = wires.into_iter().map(|wire| tokio::spawn(write(wire))).collect();
    let mut all = Vec::new();
    for writer in writers {
        let own = writer.await.expect("a client that gets its answers");
        assert!(own.is_sorted(), "each connection sees its own writes in order");
        all.extend(own);
    }
    all.sort();
    let first = CONNECTIONS as i64 + 1;
    for (n, write) in all.iter().enumerate() {
        assert_eq!(*write, (first + n as i64, format!("/n-{n:010}")), "zxid and counter rise together");
    }
    assert_eq!(all.len(), CONNECTIONS * EACH);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_ever_sees_half_of_a_multi() {
    let zk = Zk::start_tcp().await;
    zk.create("/x", "0").await;
    zk.create("/y", "0").await;
    let (mut writer, mut reader) = (zk.tcp_wire().await, zk.tcp_wire().await);
    let writing = tokio::spawn(async move {
        let pairs =
            (1..=1_000).map(|n| multi([set_data("/x", n.to_string()), set_data("/y", n.to_string())]));
        writer.pipeline(pairs.collect::<Vec<_>>()).await
    });
    let mut seen = BTreeSet::new();
    while !writing.is_finished() {
        let texts = reader.ask(multi_read([get_data("/x"), get_data("/y")])).await.texts();
        assert_eq!(texts[0], texts[1]);
        seen.insert(texts[0].clone());
    }
    assert_eq!(writing.await.expect("a writer").len(), 1_000);
    assert!(!seen.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_multi_is_one_zxid_and_a_failed_one_leaves_nothing_else() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let done = wire.ask(multi([create("/a"), create("/a/b"), set_data("/a", "x")])).await;
    assert_eq!((done.error, done.zxid), (None, 2));
    let a = wire.ask(get_data("/a")).await.stat();
    assert_eq!((a.czxid.0, a.mzxid.0, a.pzxid.0), (2, 2, 2));

    let failed = wire.ask(multi([create("/c"), set_data("/a", "y"), delete("/none"), create("/d")])).await;
    assert_eq!((failed.error, failed.zxid), (None, 3), "the header of a failed multi has no error");
    let codes = [None, None, Some(ErrorCode::NoNode), Some(ErrorCode::RuntimeInconsistency)];
    assert_eq!(failed.results(), codes.map(OpResult::Error));
    assert_eq!(wire.ask(exists("/c")).await.error, Some(ErrorCode::NoNode));
    let after = wire.ask(get_data("/a")).await;
    assert_eq!((after.text().as_str(), after.stat(), after.zxid), ("x", a, 3));
}

#[tokio::test(start_paused = true)]
async fn a_failed_multi_does_not_move_the_counter_of_sequential_names() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(multi([create("/n-").sequential(), delete("/none")])).await;
    assert_eq!(wire.ask(create("/n-").sequential()).await.path(), "/n-0000000000");
}

#[tokio::test(start_paused = true)]
async fn writes_take_one_zxid_each_and_refused_ones_too_and_reads_take_none() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let mut zxid = wire.ask(ping()).await.zxid;
    assert_eq!(zxid, 1, "the session is the first transaction");
    let writes = [
        create("/a"),
        create("/a"),
        set_data("/none", ""),
        delete("/a").version(5),
        multi([]),
        multi([delete("/none")]),
        set_acl("/a", vec![]),
        create("bad path"),
    ];
    for write in writes {
        zxid += 1;
        assert_eq!(wire.ask(write.clone()).await.zxid, zxid, "{write:?}");
    }
    let reads = [
        get_data("/a"),
        get_data("/none"),
        exists("/none").watch(),
        get_children("/"),
        get_acl("/a"),
        sync("/"),
        multi_read([get_data("/none")]),
        add_watch("/a", PERSISTENT),
        remove_watches("/none", 2),
        who_am_i(),
        ping(),
    ];
    for read in reads {
        assert_eq!(wire.ask(read.clone()).await.zxid, zxid, "{read:?}");
    }
    wire.send(delete("/a").xid(99)).await;
    wire.expect(event(EventType::NodeDeleted, "/a").zxid(zxid + 1)).await;
    wire.expect(reply(99).zxid(zxid + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn sessions_take_a_zxid_to_open_to_close_and_to_expire_but_none_to_move() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let other = zk.wire().await;
    assert_eq!(wire.ask(ping()).await.zxid, 2, "two sessions opened");
    let welcome = other.welcome.clone();
    drop(other);
    let other = zk.connect(Hello::again(&welcome)).await;
    assert_eq!(wire.ask(ping()).await.zxid, 2, "moved");
    assert!(zk.raw().hello(Hello::again(&welcome).password(b"wrong")).await.is_refusal());
    assert_eq!(wire.ask(ping()).await.zxid, 2, "refused");
    drop(other);
    let other = zk.connect(Hello::again(&welcome)).await;
    assert_eq!(other.close_session().await.zxid, 3);
    let short = zk.connect(Hello::new().timeout(secs(4))).await;
    assert_eq!(wire.ask(ping()).await.zxid, 4, "another one opened");
    tokio::time::sleep(secs(7)).await;
    assert_eq!(wire.ask(ping()).await.zxid, 5, "and expired");
    drop(short);
}

#[tokio::test]
async fn a_client_that_has_sent_much_does_not_keep_others_waiting() {
    let zk = Zk::start_tcp().await;
    let mut wire = zk.tcp_wire().await;
    // Its session is open: to open one waits for the disk of a durable server.
    let mut other = zk.tcp_wire().await;
    // The server reads more at once from a client that sends much.
    wire.pipeline((0..600).map(|n| create(&format!("/a{n}")))).await;
    let mut bytes = bytes::BytesMut::new();
    for n in 0..300 {
        wire.encode(create(&format!("/b{n}")), &mut bytes);
    }
    wire.send_bytes(&bytes).await;
    let seen = other.ask(get_children("/")).await.names().len() - 601;
    assert!(seen <= 32, "answered after {seen} that were sent before: more than a batch");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_executed_even_if_the_sender_is_gone() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let mut bytes = bytes::BytesMut::new();
    for n in 0..300 {
        wire.encode(create(&format!("/n{n}")), &mut bytes);
    }
    wire.send_bytes(&bytes).await;
    drop(wire);
    // A paused clock moves when nothing is left to run.
    tokio::time::sleep(secs(1)).await;
    assert_eq!(zk.children("/").await.len(), 301);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_by_tcp_is_executed_even_if_the_answer_is_not_awaited() {
    let zk = Zk::start_tcp().await;
    let mut watcher = zk.wire().await;
    watcher.ask(exists("/n2999").watch()).await;
    let mut wire = zk.tcp_wire().await;
    let mut bytes = bytes::BytesMut::new();
    for n in 0..3_000 {
        wire.encode(create(&format!("/n{n}")), &mut bytes);
    }
    wire.send_bytes(&bytes).await;
    wire.finish().await;
    watcher.expect(event(EventType::NodeCreated, "/n2999")).await;
}

#[tokio::test]
async fn what_was_asked_before_the_asker_ended_its_side_is_answered() {
    let zk = Zk::start_tcp().await;
    for mut wire in [zk.wire().await, zk.tcp_wire().await] {
        let (first, last) = (wire.send(get_data("/")).await, wire.send(ping()).await);
        wire.finish().await;
        assert_eq!(wire.next().await.answer().xid, first);
        assert_eq!(wire.next().await.answer().xid, last);
        wire.expect_closed().await;
    }
    for mut wire in [zk.raw(), zk.raw_tcp().await] {
        wire.send_bytes(&Hello::new().bytes()).await;
        wire.send(ping()).await;
        wire.finish().await;
        assert!(!wire.expect_welcome().await.is_refusal());
        assert_eq!(wire.next().await.answer().xid, Xid::PING);
        wire.expect_closed().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_shuts_down_its_writes_is_answered_while_others_send_requests() {
    let zk = Arc::new(Zk::with(|settings| settings.bind("127.0.0.1:0").max_connections_per_ip(0)).await);
    let clients = (0..24).map(|client| {
        let zk = Arc::clone(&zk);
        tokio::spawn(async move {
            for round in 1..40 {
                let mut wire = if client % 2 == 0 { zk.wire().await } else { zk.tcp_wire().await };
                wire.pipeline((0..2 * round).map(|_| get_data("/"))).await;
                let asked = [wire.send(get_data("/")).await, wire.send(get_data("/")).await];
                wire.finish().await;
                for xid in asked {
                    assert_eq!(wire.next().await.answer().xid, xid, "client {client}, round {round}");
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client with all its answers");
    }
}

#[tokio::test]
async fn what_waits_for_the_driver_is_answered_before_the_end_is_read() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.send(get_data("/")).await;
    wire.finish().await;
    // A control action of the test is queued first, and all else after it.
    let fixture = zk.fixture();
    let (set, answer) = tokio::join!(fixture.set("/x", "1"), wire.next());
    set.expect("a control action");
    assert_eq!(answer.answer().error, None);
}

#[tokio::test]
async fn what_is_sent_to_a_server_that_is_stopped_is_not_executed() {
    let zk = Zk::start().await;
    let fixture = zk.fixture();
    let mut wire = zk.wire().await;
    wire.send(create("/late")).await;
    zk.shutdown().await;
    assert!(fixture.get("/late").is_none());
}
