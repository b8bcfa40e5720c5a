//! Following a znode with configuration, missing no value that stays: `cargo run --example watch_config`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use zoolet::client::Error;
use zoolet::{Client, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().start().await?;
    let admin = Client::connect(server.in_process()).await?;
    admin.create("/config", "level=info").await?;

    let follower = tokio::spawn(follow(Client::connect(server.in_process()).await?));
    for value in ["level=debug", "level=trace", "stop"] {
        admin.set_data("/config", value).await?;
    }
    follower.await??;
    server.shutdown().await;
    Ok(())
}

/// Uses each value until it is out of date.
async fn follow(zk: Client) -> Result<(), Error> {
    loop {
        // The value and the watch come in one reply, so no change can slip through between them. Changes that come
        // faster than they are read are seen as one: the latest.
        let (data, stat, watch) = zk.get_data("/config").watch().await?;
        println!("version {}: {}", stat.version, String::from_utf8_lossy(&data));
        if data == "stop" {
            return Ok(());
        }
        // Outlives lost connections: what changed meanwhile is told when the session is back.
        watch.changed().await?;
    }
}
