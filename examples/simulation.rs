//! A server and two clients on a simulated network with a partition, in simulated time, the same in every run:
//! `cargo run --example simulation`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::{Duration, UNIX_EPOCH};

use turmoil::net::{TcpListener, TcpStream};
use zoolet::client::Clock;
use zoolet::{Client, Lock, Server};

fn main() -> turmoil::Result {
    // The seed determines all latencies. The epoch is fixed too, as znodes and session ids contain the time.
    let mut network = turmoil::Builder::new();
    network.rng_seed(7).epoch(UNIX_EPOCH).simulation_duration(Duration::from_secs(60));
    let mut sim = network.build();
    sim.host("server", serve);
    sim.client("first", contend(1));
    sim.client("second", contend(2));
    sim.run()
}

/// The server gets its streams and its time from the simulation.
async fn serve() -> turmoil::Result {
    let clock = Clock::tokio().starting_at(turmoil::since_epoch().ok_or("no simulation")?);
    let server = Server::builder().clock(clock).start().await?;
    let listener = TcpListener::bind("0.0.0.0:2181").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        server.serve_stream(stream, peer.ip());
    }
}

/// Acquires the lock. The first holder is cut off while it holds it.
async fn contend(number: u64) -> turmoil::Result {
    let connect = || TcpStream::connect("server:2181");
    let zk = Client::options().seed(number).connect(connect).await?;
    let guard = Lock::new(&zk, "/locks/ledger").acquire().await?;
    println!("{:7.3} s: client {number} holds the lock, token {}", seconds(), guard.token());
    if number == 1 {
        turmoil::partition("first", "server");
        println!("{:7.3} s: client 1 is cut off; its lease has {:?} left", seconds(), guard.lease_left());
        let why = guard.lost().await;
        println!("{:7.3} s: client 1 has lost the lock: {why}", seconds());
        tokio::time::sleep(Duration::from_secs(5)).await;
        turmoil::repair("first", "server");
        let end = zk.ended().await;
        println!("{:7.3} s: client 1 is reconnected; its session: {end:?}", seconds());
    }
    zk.close().await?;
    Ok(())
}

fn seconds() -> f64 {
    turmoil::sim_elapsed().unwrap_or_default().as_secs_f64()
}
