//! Everything is bounded: past a bound the peer gets the protocol's answer or is closed, and other clients are not affected.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use zoolet_proto::records::OpResult;
use zoolet_proto::{Acl, Perms};
use zoolet_test_support::*;

/// Opens connections until one of them is closed instead of answered, and gives back those that were served.
async fn admitted(zk: &Zk, attempts: usize) -> Vec<Wire> {
    let mut admitted = Vec::new();
    for _ in 0..attempts {
        let mut wire = zk.raw_tcp().await;
        let _ = wire.try_send_bytes(&Hello::new().bytes()).await;
        if wire.payload_or_end().await.is_some() {
            admitted.push(wire);
        }
    }
    admitted
}

#[tokio::test]
async fn connections_of_one_address_past_the_limit_are_closed_and_the_others_served() {
    let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").max_connections_per_ip(3)).await;
    let mut served = admitted(&zk, 6).await;
    assert_eq!(served.len(), 3);
    for wire in &mut served {
        assert!(wire.is_alive().await);
    }
    // The limit is on sockets: connections in this process have none.
    zk.serves_others().await;
    for wire in served {
        wire.close_session().await;
    }
    assert_eq!(admitted(&zk, 4).await.len(), 3, "places are given back");
}

#[tokio::test]
async fn connections_past_the_limit_in_all_are_closed_over_all_listeners() {
    let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").bind("127.0.0.1:0").max_connections(4)).await;
    let mut served = admitted(&zk, 3).await;
    for addr in [zk.addrs()[1], zk.addrs()[1], zk.addrs()[0]] {
        let stream = tokio::net::TcpStream::connect(addr).await.expect("a listener");
        let mut wire = Wire::over(stream);
        let _ = wire.try_send_bytes(&Hello::new().bytes()).await;
        if wire.payload_or_end().await.is_some() {
            served.push(wire);
        }
    }
    assert_eq!(served.len(), 4);
    for wire in &mut served {
        assert!(wire.is_alive().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_past_the_limit_is_closed_without_an_answer_and_one_can_still_move() {
    let zk = Zk::with(|settings| settings.max_sessions(2)).await;
    let one = zk.wire().await;
    let two = zk.wire().await;
    let mut three = zk.raw();
    three.send_bytes(&Hello::new().bytes()).await;
    three.expect_closed().await;
    let mut two = zk.connect(Hello::again(&two.welcome)).await;
    assert!(two.is_alive().await);
    one.close_session().await;
    assert!(zk.wire().await.is_alive().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_past_the_limit_is_refused_and_takes_nothing_with_it() {
    let zk = Zk::with(|settings| settings.max_watches_per_connection(2)).await;
    let mut wire = zk.wire().await;
    assert_eq!(wire.ask(get_data("/").watch()).await.error, None);
    assert_eq!(wire.ask(add_watch("/a", RECURSIVE)).await.error, None);
    for past in [exists("/b").watch(), get_data("/zookeeper").watch(), add_watch("/b", PERSISTENT)] {
        assert_eq!(wire.ask(past).await.error, Some(ErrorCode::ThrottledOp));
    }
    let again = set_watches(0, &["/x", "/y", "/z"], &[], &[]);
    assert_eq!(wire.ask(again).await.error, Some(ErrorCode::ThrottledOp));
    assert_eq!(zk.wire().await.ask(exists("/b").watch()).await.error, Some(ErrorCode::NoNode));
    assert_eq!(wire.ask(remove_watches("/a", 3)).await.error, None);
    assert_eq!(
        wire.ask(exists("/b").watch()).await.error,
        Some(ErrorCode::NoNode),
        "there is capacity again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_identity_past_32_is_refused_and_the_connection_closed() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    // The first is its address.
    for n in (1..32).chain([1]) {
        assert_eq!(wire.ask(auth("digest", &format!("user-{n}:x"))).await.error, None);
    }
    assert_eq!(wire.ask(auth("digest", "user-32:x")).await.error, Some(ErrorCode::AuthFailed));
    wire.expect_closed().await;
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_multi_changes_a_long_list_later_requests_count_its_new_size() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let strangers = || (0..100).map(|n| Acl::new(Perms::ALL, "digest", format!("user-{n}:x")));
    let open: Vec<_> = strangers().chain(Acl::open()).collect();
    wire.ask(create("/a").acl(open)).await;
    let replaced = || create("/a").acl(strangers().collect());
    let parts = || [check("/a", 0), check("/a", 0), delete("/a"), replaced(), check("/a", 0)];
    let answer = wire.ask(multi(parts())).await;
    assert_eq!(answer.results()[4], OpResult::Error(Some(ErrorCode::NoAuth)));
    assert_eq!(wire.ask(multi(parts().into_iter().take(4))).await.error, None);
    assert_eq!(wire.ask(get_data("/a")).await.error, Some(ErrorCode::NoAuth), "what was found is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_either_and_then_expires() {
    let zk = Zk::start().await;
    zk.create("/big", &"x".repeat(1_000_000)).await;
    let mut deaf = zk.wire().await;
    deaf.ask(create("/e").ephemeral()).await;
    let mut asks = bytes::BytesMut::new();
    for _ in 0..100_000 {
        deaf.encode(get_data("/big"), &mut asks);
    }
    let (reader, mut writer) = deaf.into_halves();
    let sending = tokio::spawn(async move { writer.write_all(&asks).await });
    tokio::time::sleep(secs(9)).await;
    assert!(!sending.is_finished(), "the server stopped reading");
    assert!(zk.has("/e").await);
    tokio::time::sleep(secs(6)).await;
    assert!(!zk.has("/e").await, "the session has expired");
    sending.await.expect("a sender").expect_err("and its connection was closed, though it is not read");
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn past_the_outbox_limit_a_connection_is_closed_and_its_session_survives() {
    let zk = Zk::with(|settings| settings.outbox_limit(1 << 20)).await;
    let path = format!("/{}", "a".repeat(200));
    zk.create(&path, "").await;
    let mut deaf = zk.wire().await;
    deaf.ask(add_watch(&path, PERSISTENT)).await;
    let welcome = deaf.welcome.clone();
    let mut writer = zk.wire().await;
    for _ in 0..3 {
        writer.pipeline((0..5_000).map(|_| set_data(&path, "")).collect::<Vec<_>>()).await;
    }
    assert!(zk.word("srvr").await.contains("Connections: 2\n"), "the writer, and the one that asks");
    // What had left the server before is still there; then the connection ends.
    let rest = deaf.rest().await;
    assert!(rest.len() < 2 << 20, "{} bytes", rest.len());
    assert!(zk.connect(Hello::again(&welcome)).await.is_alive().await);
}

#[tokio::test(start_paused = true)]
async fn after_a_reply_over_the_outbox_limit_nothing_of_the_connection_is_executed() {
    let zk = Zk::with(|settings| settings.outbox_limit(100_000)).await;
    zk.create("/big", &"x".repeat(50_000)).await;
    let mut greedy = zk.wire().await;
    let mut bytes = bytes::BytesMut::new();
    for _ in 0..32 {
        greedy.encode(get_data("/big"), &mut bytes);
    }
    for n in 0..200 {
        greedy.encode(create(&format!("/n{n}")), &mut bytes);
    }
    greedy.send_bytes(&bytes).await;
    greedy.rest().await;
    assert_eq!(zk.children("/").await.len(), 2, "/big and /zookeeper");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_everything() {
    let zk = Zk::with(|settings| settings.outbox_limit(4 << 20)).await;
    zk.create("/big", &"x".repeat(100_000)).await;
    let mut slow = zk.wire().await;
    // 40 MB of answers, ten times what may wait for a client that does not read.
    let frames = slow.pipeline((0..400).map(|_| get_data("/big")).collect::<Vec<_>>()).await;
    assert!(frames.into_iter().all(|frame| frame.answer().text().len() == 100_000));
}

#[tokio::test(start_paused = true)]
async fn where_longer_frames_are_taken_data_may_be_longer_and_be_read_as_often_in_a_row() {
    let zk = Zk::with(|settings| settings.max_frame(4 << 20)).await;
    zk.create("/big", &"x".repeat(3 << 20)).await;
    let mut wire = zk.wire().await;
    let frames = wire.pipeline((0..32).map(|_| get_data("/big")).collect::<Vec<_>>()).await;
    assert!(frames.into_iter().all(|frame| frame.answer().text().len() == 3 << 20));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_may_request_far_more_at_once_than_its_outbox_holds() {
    let zk = Zk::with(|settings| settings.outbox_limit(1 << 20).all_four_letter_words()).await;
    for n in 0..3_000 {
        zk.create(&format!("/child-{n}-{}", "x".repeat(200)), "").await;
    }
    let mut wire = zk.wire().await;
    // All in one batch: 19 MB of answers where 1 MB may wait. Later requests are answered in their order.
    let mut asks: Vec<_> = (0..31).map(|_| get_children("/")).collect();
    asks.push(create("/last"));
    let frames = wire.pipeline(asks).await;
    assert_eq!(frames.last().map(|last| last.clone().answer().path().to_owned()).as_deref(), Some("/last"));
    assert!(frames[..31].iter().all(|frame| frame.clone().answer().names().len() == 3_001));
    assert!(zk.word("srvr").await.contains("\nOutstanding: 0\n"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_and_sends_its_pings_keeps_its_session() {
    let zk = Zk::start().await;
    zk.create("/big", &"x".repeat(1_000_000)).await;
    let mut slow = zk.wire().await;
    slow.ask(create("/e").ephemeral()).await;
    let mut asks = bytes::BytesMut::new();
    // One reply, as to execute another request would renew the session too.
    slow.encode(multi_read((0..8).map(|_| get_data("/big"))), &mut asks);
    slow.send_bytes(&asks).await;
    let mut ping = bytes::BytesMut::new();
    Request::Ping.encode_frame(Xid::PING, &mut ping);
    let (mut reader, mut writer) = slow.into_halves();
    // Four times the session timeout, and no ping of this time is read by the server.
    let mut piece = vec![0; 200_000];
    for _ in 0..39 {
        tokio::time::sleep(secs(1)).await;
        writer.write_all(&ping).await.expect("a connection");
        reader.read_exact(&mut piece).await.expect("what was asked for");
    }
    assert!(zk.has("/e").await, "it was heard of all the time");
    tokio::time::sleep(secs(15)).await;
    assert!(!zk.has("/e").await, "and is no more");
}

/// Reads to the end of a stream, so many bytes in a second.
async fn read_slowly(mut stream: impl AsyncRead + Unpin, per_second: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = vec![0; per_second];
    loop {
        tokio::time::sleep(secs(1)).await;
        match stream.read(&mut piece).await.expect("a stream that ends") {
            0 => return all,
            got => all.extend_from_slice(&piece[..got]),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_has_closed_its_session_gets_every_answer_before_however_slowly_it_reads() {
    let zk = Zk::start().await;
    zk.create("/big", &"x".repeat(500_000)).await;
    let mut slow = zk.wire().await;
    let mut asks = bytes::BytesMut::new();
    for _ in 0..8 {
        slow.encode(get_data("/big"), &mut asks);
    }
    slow.encode(close_session(), &mut asks);
    slow.send_bytes(&asks).await;
    let (reader, _writer) = slow.into_halves();
    let got = read_slowly(reader, 50_000).await;
    let (header, data, stat) = (4 + 16, 4 + 500_000, 68);
    assert_eq!(got.len(), 8 * (header + data + stat) + header);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_four_letter_word_comes_whole_however_slowly_it_is_read() {
    let zk = Zk::with(|settings| settings.all_four_letter_words()).await;
    let mut watcher = zk.wire().await;
    let path = |n| format!("/{n}-{}", "x".repeat(200));
    watcher.pipeline((0..2_000).map(|n| exists(&path(n)).watch()).collect::<Vec<_>>()).await;
    let mut stream = zk.stream();
    stream.write_all(b"wchp").await.expect("a connection that takes bytes");
    let whole = zk.word("wchp").await;
    let got = read_slowly(stream, 20_000).await;
    assert!(got == whole.as_bytes(), "{} bytes of {}", got.len(), whole.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_pipeline_far_more_than_is_held_lose_nothing() {
    let zk = Zk::start_tcp().await;
    zk.create("/a", "x").await;
    let mut clients = Vec::new();
    for n in 0..6 {
        let mut wire = if n % 2 == 0 { zk.tcp_wire().await } else { zk.wire().await };
        clients.push(tokio::spawn(async move {
            let own = format!("/own-{n}-");
            let script = (0..3_000).flat_map(|_| [create(&own).sequential(), get_data("/a")]);
            wire.pipeline(script.collect::<Vec<_>>()).await
        }));
    }
    for client in clients {
        let frames = client.await.expect("a client that gets its answers");
        assert_eq!(frames.len(), 6_000);
        let mut paths = frames.chunks(2).map(|pair| pair[0].clone().answer().path().to_owned());
        assert!(paths.by_ref().is_sorted());
        assert!(frames.into_iter().all(|frame| frame.answer().error.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_floods_does_not_keep_others_waiting() {
    let zk = Zk::start().await;
    let (mut flood, mut other) = (zk.wire().await, zk.wire().await);
    let flooding = tokio::spawn(async move {
        flood.pipeline((0..50_000).map(|_| set_data("/none", "x")).collect::<Vec<_>>()).await.len()
    });
    let asking = tokio::spawn(async move {
        let mut zxids = Vec::new();
        for _ in 0..100 {
            zxids.push(other.ask(ping()).await.zxid);
        }
        zxids
    });
    // Each refused write of the flood takes a zxid: these count what was handled between two of the other's pings.
    let zxids = asking.await.expect("a client that gets its answers");
    let most = zxids.windows(2).map(|pair| pair[1] - pair[0]).max().expect("pings");
    assert!(most <= 128, "{most} requests of one before one of another");
    assert!(zxids[99] > zxids[0], "the flood continues");
    assert_eq!(flooding.await.expect("a flood"), 50_000);
}

#[tokio::test(start_paused = true)]
async fn one_that_has_sent_very_much_before_it_is_served_does_not_keep_others_waiting() {
    let zk = Zk::start().await;
    let mut other = zk.wire().await;
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut flood = Wire::over(ours);
    flood.send_bytes(&Hello::new().bytes()).await;
    for _ in 0..5_000 {
        flood.send(set_data("/none", "x")).await;
    }
    let before = other.ask(ping()).await.zxid;
    zk.serve_stream(theirs, [127, 0, 0, 1].into());
    let behind = other.ask(ping()).await.zxid;
    assert!(behind - before <= 128, "{} requests of one before one of another", behind - before);
    flood.expect_welcome().await;
    for _ in 0..5_000 {
        flood.next().await;
    }
}

/// Almost endless pings, whose answers are not read.
struct Endless {
    hello: Vec<u8>,
    pings: Arc<AtomicUsize>,
}

const MANY: usize = 100_000;

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ping = [&8_i32.to_be_bytes()[..], &Xid::PING.0.to_be_bytes(), &OpCode::Ping.code().to_be_bytes()];
        if self.pings.fetch_add(1, Relaxed) < MANY {
            to.put_slice(&mem::take(&mut self.hello));
            to.put_slice(&ping.concat());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_ends_and_takes_no_answers_does_not_keep_others_waiting() {
    let zk = Zk::start().await;
    let pings = Arc::new(AtomicUsize::new(0));
    let endless = Endless { hello: Hello::new().bytes().to_vec(), pings: Arc::clone(&pings) };
    zk.serve_stream(endless, [127, 0, 0, 1].into());
    for _ in 0..10 {
        zk.serves_others().await;
    }
    let read = pings.load(Relaxed);
    assert!((1..MANY).contains(&read), "{read} pings were read");
    zk.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_no_answers_is_still_read_to_the_end() {
    let zk = Zk::start().await;
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let (nowhere, gone) = tokio::io::duplex(1);
    drop(gone);
    let (reader, _) = tokio::io::split(theirs);
    let (_, writer) = tokio::io::split(nowhere);
    zk.serve_stream(tokio::io::join(reader, writer), [127, 0, 0, 1].into());
    let mut wire = Wire::over(ours);
    wire.send_bytes(&Hello::new().bytes()).await;
    for n in 0..200 {
        wire.send(create(&format!("/n{n}"))).await;
        tokio::task::yield_now().await;
    }
    wire.finish().await;
    assert_eq!(zk.children("/").await.len(), 201);
}
