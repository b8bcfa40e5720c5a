//! A program that embeds a durable server, a client and a lock, for `benches/embed/run`.

use zoolet::{Client, Lock, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "data".into());
    let server = Server::builder().data_dir(dir).start().await?;
    let zk = Client::connect(server.in_process()).await?;
    zk.create("/config", "v1").await?;
    let guard = Lock::new(&zk, "/locks/ledger").acquire().await?;
    println!("held, fencing token {}", guard.token());
    guard.release().await?;
    zk.close().await?;
    server.shutdown().await;
    Ok(())
}
