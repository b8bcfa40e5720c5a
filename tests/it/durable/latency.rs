//! What operators see of a server that waits for its disk: latency and outstanding requests, as the clients experience them.

use std::time::Duration;

use zoolet::Clock;
use zoolet_test_support::*;

use super::held_disk::{HeldDisk, start_with};

async fn start() -> (Zk, HeldDisk, Clock) {
    let clock = Clock::manual();
    let settings = clock.clone();
    let (zk, disk) = start_with(|builder| builder.clock(settings).all_four_letter_words()).await;
    (zk, disk, clock)
}

/// A figure of `mntr`.
fn figure(mntr: &str, name: &str) -> f64 {
    let line = mntr.lines().find_map(|line| line.strip_prefix(name)).expect("the figure");
    line.trim().parse().expect("a number")
}

/// A field of the only line of `cons` in which it is that.
fn has(cons: &str, part: &str) -> bool {
    cons.lines().any(|line| line.split(['(', ',', ')']).any(|field| field == part))
}

#[tokio::test]
async fn a_write_takes_until_its_reply_leaves_and_is_outstanding_until_then() {
    let (zk, disk, clock) = start().await;
    let mut wire = zk.wire().await;
    zk.word("srst").await;
    disk.hold();
    for _ in 0..3 {
        wire.send(create("/a").sequential()).await;
    }
    disk.until_held().await;
    let disk_takes_250_ms = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_millis(250)).expect("a manual clock");
        disk.release();
    };
    // The answer waits for the log as well, but is of the time at which it was asked for.
    let (during, ()) = tokio::join!(zk.word("mntr"), disk_takes_250_ms);
    assert_eq!(figure(&during, "zk_outstanding_requests"), 3.0);
    assert_eq!(figure(&during, "zk_max_latency"), 0.0);
    for _ in 0..3 {
        wire.next().await;
    }
    let (mntr, srvr, cons) = (zk.word("mntr").await, zk.word("srvr").await, zk.word("cons").await);
    assert_eq!(figure(&mntr, "zk_outstanding_requests"), 0.0);
    assert_eq!((figure(&mntr, "zk_min_latency"), figure(&mntr, "zk_max_latency")), (250.0, 250.0));
    assert_eq!(figure(&mntr, "zk_avg_latency"), 250.0);
    assert!(srvr.contains("Latency min/avg/max: 250/250.0/250"), "{srvr}");
    assert!(has(&cons, "maxlat=250") && has(&cons, "llat=250"), "{cons}");
}

#[tokio::test]
async fn a_read_beside_a_write_that_waits_takes_no_time_and_one_after_it_as_long_as_the_write() {
    let (zk, disk, clock) = start().await;
    let (mut writer, mut reader) = (zk.wire().await, zk.wire().await);
    writer.ask(create("/read")).await;
    zk.word("crst").await;
    disk.hold();
    writer.send(create("/a")).await;
    writer.send(get_data("/read")).await;
    disk.until_held().await;
    reader.ask(get_data("/read")).await;
    clock.advance(Duration::from_millis(40)).expect("a manual clock");
    disk.release();
    for _ in 0..2 {
        writer.next().await;
    }
    let cons = zk.word("cons").await;
    assert!(has(&cons, "minlat=40") && has(&cons, "maxlat=0"), "{cons}");
}

#[tokio::test]
async fn an_average_has_a_fraction_of_a_millisecond() {
    let (zk, disk, clock) = start().await;
    let mut wire = zk.wire().await;
    zk.word("srst").await;
    disk.hold();
    wire.send(create("/a")).await;
    disk.until_held().await;
    clock.advance(Duration::from_micros(1_250)).expect("a manual clock");
    disk.release();
    wire.next().await;
    let srvr = zk.word("srvr").await;
    assert!(srvr.contains("Latency min/avg/max: 1/1.25/1"), "{srvr}");
}
