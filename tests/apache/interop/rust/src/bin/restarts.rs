//! Our client stays connected to a server that restarts without its state: see ../../../../clients/restarts.py.

use std::error::Error;
use std::time::Duration;

use zoolet_client::{Client, ErrorCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (hosts, root) = (std::env::var("ZK_HOSTS")?, std::env::var("ZK_ROOT")?);
    let timeout = Duration::from_millis(std::env::var("ZK_TIMEOUT_MS")?.parse()?);
    loop {
        let client = match Client::options().session_timeout(timeout).connect(hosts.as_str()).await {
            Ok(client) => client,
            Err(error) => {
                println!("error {error}");
                continue;
            }
        };
        let mut works = false;
        while !client.state().is_final() {
            match write_and_read(&client, &root).await {
                Ok(()) if !works => {
                    works = true;
                    println!("works {:x}", client.session_id().0);
                }
                Ok(()) => {}
                Err(error) => println!("error {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!("lost");
    }
}

async fn write_and_read(client: &Client, path: &str) -> Result<(), zoolet_client::Error> {
    match client.create(path, "").await {
        Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(error),
        _ => {}
    }
    client.set_data(path, "x").await?;
    client.get_data(path).await?;
    Ok(())
}
