//! A message leaves when what it shows is in the log, and not later.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zoolet::admin::AdminServer;
use zoolet::server::extension::with_disk;
use zoolet::server::{Durability, Server};
use zoolet::testing::FixtureExt as _;
use zoolet_test_support::*;

use super::held_disk::{HeldDisk, options, start_with};

async fn start() -> (Zk, HeldDisk) {
    start_with(|settings| settings).await
}

/// Whether nothing arrives, however long other tasks run.
async fn is_silent(wire: &mut Wire) -> bool {
    for _ in 0..100 {
        if at_once(wire.next()).await.is_some() {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}

#[tokio::test]
async fn a_write_is_answered_when_its_own_sync_has_returned() {
    let (zk, disk) = start().await;
    let mut wire = zk.wire().await;
    disk.hold();
    wire.send(create("/a")).await;
    disk.until_held().await;
    assert!(is_silent(&mut wire).await);
    disk.release();
    wire.expect(reply(1).path("/a")).await;
}

#[tokio::test]
async fn a_client_that_sends_nothing_more_is_still_answered() {
    let (zk, disk) = start().await;
    let (mut ends, mut breaks) = (zk.wire().await, zk.wire().await);
    disk.hold();
    ends.send(create("/a")).await;
    ends.finish().await;
    breaks.send(create("/b")).await;
    // No frame is that long.
    breaks.send_bytes(&i32::MAX.to_be_bytes()).await;
    disk.until_held().await;
    assert!(is_silent(&mut ends).await && is_silent(&mut breaks).await);
    disk.release();
    for (mut wire, path) in [(ends, "/a"), (breaks, "/b")] {
        wire.expect(reply(1).path(path)).await;
        wire.expect_closed().await;
    }
}

#[tokio::test]
async fn a_read_that_shows_nothing_undurable_does_not_wait_and_names_what_is_durable() {
    let (zk, disk) = start().await;
    let (mut writer, mut reader) = (zk.wire().await, zk.wire().await);
    writer.ask(create("/other")).await;
    let durable = writer.ask(create("/written")).await.zxid;
    disk.hold();
    for _ in 0..3 {
        writer.send(set_data("/written", "new")).await;
        disk.until_held().await;
        for read in [get_data("/other"), get_children("/other"), exists("/none"), ping(), who_am_i()] {
            assert_eq!(reader.ask(read).await.zxid, durable);
        }
    }
    disk.release();
    for zxid in 1..=3 {
        assert_eq!(writer.next().await.answer().zxid, durable + zxid);
    }
}

#[tokio::test]
async fn a_read_that_shows_something_undurable_waits_and_names_it() {
    let (zk, disk) = start().await;
    let (mut writer, mut reader) = (zk.wire().await, zk.wire().await);
    let before = writer.ask(create("/a")).await.zxid;
    disk.hold();
    writer.send(set_data("/a", "new")).await;
    writer.send(create("/a/b")).await;
    disk.until_held().await;
    reader.send(get_data("/a")).await;
    reader.send(exists("/a/b/c")).await;
    assert!(is_silent(&mut reader).await);
    disk.release();
    let data = reader.next().await.answer();
    assert_eq!((data.text(), data.zxid), ("new".to_owned(), before + 2), "the new child is in its Stat");
    let missing = reader.next().await.answer();
    assert_eq!(
        (missing.error, missing.zxid),
        (Some(ErrorCode::NoNode), before + 2),
        "never less than before"
    );
}

/// What is decided while it waits for the disk may be lost although it answers.
#[tokio::test]
async fn the_command_monitor_shows_what_there_was_before_it_waited() {
    let (zk, disk) = start().await;
    let admin = AdminServer::builder(&*zk).bind("127.0.0.1:0").start().await.expect("a free port");
    let mut wire = zk.wire().await;
    disk.hold();
    wire.send(create("/a")).await;
    disk.until_held().await;
    let turns = zk.metrics().turns;
    let mut http = TcpStream::connect(admin.addr()).await.expect("a connection");
    let request = b"GET /commands/monitor HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    http.write_all(request).await.expect("sent");
    // It takes a turn to look at the state.
    until(|| zk.metrics().turns > turns).await;
    wire.send(create("/b")).await;
    until(|| zk.metrics().znodes == 7).await;
    disk.release();
    let mut answer = String::new();
    http.read_to_string(&mut answer).await.expect("an answer and the end");
    assert!(answer.contains("\"znode_count\" : 6,"), "{answer}");
}

#[tokio::test]
async fn a_reply_does_not_overtake_one_that_waits() {
    let (zk, disk) = start().await;
    let mut wire = zk.wire().await;
    wire.ask(create("/a")).await;
    disk.hold();
    wire.send(create("/b")).await;
    wire.send(get_data("/a")).await;
    disk.until_held().await;
    assert!(is_silent(&mut wire).await);
    disk.release();
    wire.expect(reply(2).path("/b")).await;
    wire.expect(reply(3)).await;
}

#[tokio::test]
async fn an_event_waits_for_its_transaction_and_comes_before_every_reply_that_shows_it() {
    let (zk, disk) = start().await;
    let (mut writer, mut watcher) = (zk.wire().await, zk.wire().await);
    writer.ask(create("/a")).await;
    writer.ask(create("/other")).await;
    watcher.ask(get_data("/a").watch()).await;
    disk.hold();
    writer.send(set_data("/a", "new")).await;
    disk.until_held().await;
    watcher.send(get_data("/other")).await;
    watcher.send(get_data("/a")).await;
    assert!(is_silent(&mut watcher).await, "the event waits, and the replies after it");
    disk.release();
    watcher.expect(event(EventType::NodeDataChanged, "/a")).await;
    watcher.expect(reply(2)).await;
    watcher.expect(reply(3).data("new")).await;
}

/// An event with several recipients is encoded once and takes another way to them than one with a single recipient.
#[tokio::test]
async fn an_event_for_several_watchers_waits_for_its_transaction_at_each_of_them() {
    let (zk, disk) = start().await;
    let (mut writer, mut watchers) = (zk.wire().await, [zk.wire().await, zk.wire().await, zk.wire().await]);
    writer.ask(create("/a")).await;
    writer.ask(create("/a/b")).await;
    for watcher in &mut watchers {
        watcher.ask(get_data("/a").watch()).await;
        watcher.ask(add_watch("/a/b", RECURSIVE)).await;
    }
    disk.hold();
    // Several in one turn: those of a multi are encoded one after the other.
    writer.send(multi([set_data("/a", "new"), set_data("/a/b", "new"), create("/a/b/c")])).await;
    disk.until_held().await;
    for watcher in &mut watchers {
        watcher.send(get_data("/a")).await;
        assert!(is_silent(watcher).await, "the events wait, and the reply after them");
    }
    disk.release();
    for watcher in &mut watchers {
        watcher.expect(event(EventType::NodeDataChanged, "/a")).await;
        watcher.expect(event(EventType::NodeDataChanged, "/a/b")).await;
        watcher.expect(event(EventType::NodeCreated, "/a/b/c")).await;
        watcher.expect(reply(3).data("new")).await;
    }
}

#[tokio::test]
async fn the_events_of_watches_that_are_set_again_wait_for_what_they_show() {
    let (zk, disk) = start().await;
    let (mut writer, mut watcher) = (zk.wire().await, zk.wire().await);
    let seen = writer.ask(create("/a")).await.zxid;
    disk.hold();
    writer.send(delete("/a")).await;
    disk.until_held().await;
    watcher.send(set_watches(seen, &["/a"], &[], &[])).await;
    assert!(is_silent(&mut watcher).await);
    disk.release();
    watcher.expect(event(EventType::NodeDeleted, "/a")).await;
    assert_eq!(watcher.next().await.answer().zxid, seen + 1);
}

#[tokio::test]
async fn a_session_is_confirmed_when_it_is_in_the_log() {
    let (zk, disk) = start().await;
    let mut wire = zk.raw();
    disk.hold();
    wire.send_bytes(&Hello::new().bytes()).await;
    disk.until_held().await;
    for _ in 0..100 {
        assert!(at_once(wire.payload()).await.is_none());
        tokio::task::yield_now().await;
    }
    disk.release();
    assert!(!wire.expect_welcome().await.is_refusal());
}

#[tokio::test]
async fn what_arrives_during_a_sync_is_synced_by_the_next_one() {
    let (zk, disk) = start().await;
    let mut wires = Vec::new();
    for _ in 0..20 {
        wires.push(zk.wire().await);
    }
    wires[0].ask(create("/a")).await;
    let before = disk.syncs();
    disk.hold();
    wires[0].send(set_data("/a", "first")).await;
    disk.until_held().await;
    for wire in &mut wires[1..] {
        for _ in 0..10 {
            wire.send(set_data("/a", "later")).await;
        }
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    disk.release();
    for wire in &mut wires[1..] {
        for _ in 0..10 {
            wire.next().await.answer();
        }
    }
    assert_eq!(disk.syncs() - before, 2, "one for the first, one for all others");
}

/// Otherwise the latency of other clients grows with what this one has in flight. During a slow sync it is read, because
/// throughput then needs many transactions per sync.
#[tokio::test]
async fn a_client_with_many_writes_in_flight_gets_back_pressure_until_a_sync_is_slow() {
    const SENT: usize = 500;
    let (zk, disk) = start().await;
    let (mut first, mut wire) = (zk.wire().await, zk.wire().await);
    let before = zk.fixture().transactions().len();
    disk.hold();
    first.send(create("/first")).await;
    disk.until_held().await;
    // Time stands still unless it is advanced, because this task never goes idle.
    tokio::time::pause();
    let asking =
        tokio::spawn(async move { wire.pipeline((0..SENT).map(|n| create(&format!("/{n}")))).await });
    let executed = async || {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        zk.fixture().transactions().len() - before - 1
    };
    let followed = executed().await;
    assert!(
        (2 * 32..=4 * 32).contains(&followed),
        "{followed}: a fourth batch is read while three wait, and no fifth"
    );
    tokio::time::advance(Duration::from_millis(2)).await;
    assert_eq!(executed().await, SENT, "this sync is slow");
    tokio::time::resume();
    disk.release();
    assert!(asking.await.unwrap().into_iter().all(|frame| frame.answer().error.is_none()));
}

#[tokio::test]
async fn a_client_that_never_sends_a_full_batch_gets_back_pressure_as_well() {
    const SEGMENTS: usize = 10;
    const EACH: usize = 31;
    let (zk, disk) = start().await;
    let (mut first, mut wire) = (zk.wire().await, zk.wire().await);
    let before = zk.fixture().transactions().len();
    disk.hold();
    first.send(create("/first")).await;
    disk.until_held().await;
    // Time stands still, because this task never goes idle.
    tokio::time::pause();
    for segment in 0..SEGMENTS {
        for n in 0..EACH {
            wire.send(create(&format!("/{}", segment * EACH + n))).await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    let followed = zk.fixture().transactions().len() - before - 1;
    assert!(
        (3 * 32..=5 * 32).contains(&followed),
        "{followed}: it is looked at each time that 32 were submitted"
    );
    tokio::time::resume();
    disk.release();
    for _ in 0..SEGMENTS * EACH {
        assert_eq!(wire.next().await.answer().error, None);
    }
}

/// Each client may have its share in flight; together they might fill the memory.
#[tokio::test]
async fn writers_wait_while_too_much_waits_for_the_disk_and_readers_do_not() {
    const WRITERS: usize = 60;
    let (zk, disk) = start().await;
    let mut reader = zk.wire().await;
    let mut wires = Vec::new();
    for _ in 0..WRITERS {
        wires.push(zk.wire().await);
    }
    let before = zk.fixture().transactions().len();
    disk.hold();
    let writing: Vec<_> = wires
        .into_iter()
        .enumerate()
        .map(|(n, mut wire)| {
            let write = create(&format!("/{n}")).data("x".repeat(1_000_000));
            tokio::spawn(async move { wire.ask(write).await.error })
        })
        .collect();
    disk.until_held().await;
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
    }
    // Those that the sync is for, and 32 MiB after them.
    let executed = zk.fixture().transactions().len() - before;
    assert!((20..=45).contains(&executed), "{executed} of {WRITERS}");
    assert_eq!(reader.ask(get_data("/zookeeper")).await.error, None);
    disk.release();
    for writing in writing {
        assert_eq!(writing.await.expect("an answer"), None);
    }
}

#[tokio::test]
async fn a_clean_end_waits_for_the_disk_and_leaves_everything_there() {
    let (zk, disk) = start().await;
    let mut wire = zk.wire().await;
    wire.ask(create("/a")).await;
    disk.hold();
    wire.send(set_data("/a", "unanswered")).await;
    disk.until_held().await;
    let shutdown = tokio::spawn(zk.shutdown());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!shutdown.is_finished());
    disk.release();
    shutdown.await.expect("an end");
    let on_disk = Arc::new(disk);
    let zk = Zk::with(|settings| with_disk(settings.storage(options()), on_disk)).await;
    assert_eq!(zk.wire().await.ask(get_data("/a")).await.text(), "unanswered");
}

/// A server that is dropped ends its log in the background.
#[tokio::test]
async fn a_start_waits_for_a_server_before_it_whose_sync_takes_more_than_half_a_second() {
    let (zk, disk) = start().await;
    let mut wire = zk.wire().await;
    disk.hold();
    wire.send(create("/a")).await;
    disk.until_held().await;
    drop((wire, zk));
    let refused_before = disk.locks();
    let mut next = pin!(with_disk(Server::builder().storage(options()), Arc::new(disk.clone())).start());
    let many_attempts = async {
        // One in ten milliseconds.
        while disk.locks() < refused_before + 60 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        given_up = &mut next => panic!("{given_up:?}"),
        () = many_attempts => disk.release(),
    }
    next.await.expect("a server").shutdown().await;
}

#[tokio::test]
async fn a_log_that_panics_stops_the_server() {
    let (zk, disk) = start().await;
    let mut wire = zk.wire().await;
    wire.ask(create("/a")).await;
    disk.panic();
    wire.send(create("/b")).await;
    assert!(zk.failed().await.to_string().contains("panicked"));
    wire.expect_end().await;
    zk.shutdown().await;
}

#[tokio::test]
async fn only_a_log_that_is_not_synced_is_given_to_the_disk_as_it_grows() {
    for durability in [Durability::Sync, Durability::Os] {
        let mut options = options();
        options.durability = durability;
        let (zk, disk) = start_with(|settings| settings.storage(options)).await;
        let mut wire = zk.wire().await;
        let half_a_mebibyte = "x".repeat(1 << 19);
        wire.ask(create("/a")).await;
        for _ in 0..8 {
            wire.ask(set_data("/a", &half_a_mebibyte)).await;
        }
        let begun = disk.begun();
        assert_eq!(begun.len(), if durability == Durability::Os { 4 } else { 0 }, "{begun:?}");
        let mut end = 0;
        for (from, len) in begun {
            assert_eq!(from, end, "each piece once");
            end += len;
        }
    }
}
