//! Follows a configuration in a znode without missing its latest value: `cargo run --example watch_config`

#![allow(clippy::print_stdout, reason = "an example prints")]

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
    admin.close().await?;
    server.shutdown().await;
    Ok(())
}

/// Prints each value, then waits for the next.
async fn follow(zk: Client) -> Result<(), Error> {
    loop {
        // One request reads the value and sets the watch, so that no change is missed in between. Faster changes
        // coalesce to the latest value.
        let (data, stat, watch) = zk.get_data("/config").watch().await?;
        println!("version {}: {}", stat.version, String::from_utf8_lossy(&data));
        if data == "stop" {
            return zk.close().await;
        }
        // The watch survives lost connections: missed changes fire it when the session is resumed.
        watch.changed().await?;
    }
}
