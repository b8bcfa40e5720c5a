//! Apache ZooKeeper 3.9.5 with its Prometheus provider, and this server, side by side. `tests/apache/run metrics` starts it.

#![allow(clippy::print_stdout, reason = "reports what differs")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_test_support::{Wire, counted_operations};

use crate::families::APACHE;
use crate::moved::{self, comparable};
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

    let moved = comparable(&apache, &before);
    println!("{moved:#?}");
    assert_eq!(moved, moved::apache());
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run metrics"]
async fn the_families_are_those_of_the_list() {
    let addresses = std::env::var(ADDRESSES).expect(ADDRESSES);
    let (_, metrics) = addresses.split_once(',').expect("two addresses");
    let without_quantiles = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let apache = scrape(metrics).await.list();
    for (apache, listed) in apache.iter().zip(APACHE.lines()) {
        // Families with keys have samples only after they were moved.
        let has_keys = listed.split(' ').count() == 2;
        match has_keys {
            true => assert_eq!(without_quantiles(apache), without_quantiles(listed)),
            false => assert_eq!(apache, listed),
        }
    }
    assert_eq!(apache.len(), APACHE.lines().count());
}
