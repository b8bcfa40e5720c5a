//! Apache ZooKeeper 3.9.5 with its Prometheus provider, and this server, side by side. `tests/apache/run metrics` starts it.

#![allow(clippy::print_stdout, reason = "reports what differs")]

use std::collections::BTreeSet;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_admin::PrometheusText;
use zoolet_test_support::{Wire, Zk, counted_operations};

use crate::scrape::Scrape;

/// The addresses of a fresh server: for clients, and of its metrics; with a comma between them.
const ADDRESSES: &str = "ZOOLET_APACHE_METRICS";

/// What `/metrics` of Apache answers.
async fn scrape(address: &str) -> Scrape {
    let mut stream = TcpStream::connect(address).await.expect("the provider's port");
    // Without HTTP/1.1 the body is not chunked.
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Scrape::parse(body)
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run metrics"]
async fn the_same_operations_move_the_same_families() {
    let addresses = std::env::var(ADDRESSES).expect(ADDRESSES);
    let (clients, metrics) = addresses.split_once(',').expect("two addresses");
    let before = scrape(metrics).await;
    counted_operations(async |hello| {
        Wire::open(TcpStream::connect(clients).await.expect("a server"), hello).await
    })
    .await;
    // Summaries are recorded by other threads.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let apache = scrape(metrics).await;

    let server = Zk::with(|settings| settings.enforce_quota(true).bind("127.0.0.1:0")).await;
    let ours = || Scrape::parse(&PrometheusText::new().without_process().write(&server.metrics()));
    let ours_before = ours();
    counted_operations(async |hello| Wire::open(server.tcp().await, hello).await).await;
    let ours = ours();
    let (theirs, ours) = (apache.since(&before), ours.since(&ours_before));
    let samples: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    for sample in samples {
        let (theirs, ours) = (theirs.get(*sample).unwrap_or(&0.0), ours.get(*sample).unwrap_or(&0.0));
        let sign = if theirs == ours { " " } else { "!" };
        println!("{sign} {sample:70} {theirs:12} {ours:12}");
    }
}
