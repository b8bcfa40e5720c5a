//! A program for `zoolet conform --client`: it uses all that the judge of clients looks at, and goes on whatever happens.
//!
//! ```sh
//! cargo build -p zoolet-client --example conform_client
//! zoolet conform --client -- target/debug/examples/conform_client
//! ```

use std::env;
use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_client::{AddWatchMode, Client, Error, ErrorCode};

/// How long an operation is tried again.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// How many watches with a path of 900 bytes take more than a frame.
const MANY_WATCHES: usize = 1_300;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn StdError>> {
    run().await
}

/// Does what the environment names.
pub async fn run() -> Result<(), Box<dyn StdError>> {
    let scenario = env::var("ZOOKEEPER_SCENARIO")?;
    let duration = Duration::from_secs(env::var("ZOOKEEPER_SECONDS")?.parse()?);
    let path = env::var("ZOOKEEPER_PATH")?;
    let mut zk = connect().await?;
    for path in ["/app", "/app/watched", "/app/lock"] {
        create(&zk, path).await?;
    }
    // A watch that is dropped is not set again.
    let data = retry(|| async { zk.get_data("/app/watched").watch().await }).await?;
    let children = retry(|| async { zk.get_children("/app/watched").watch().await }).await?;
    let exists = retry(|| async { zk.exists("/app/absent").watch().await }).await?;
    let recursive =
        retry(|| async { zk.add_watch("/app/watched", AddWatchMode::PersistentRecursive).await }).await?;
    let mut many = Vec::new();
    match scenario.as_str() {
        "many-watches" => {
            for number in 0..MANY_WATCHES {
                let path = format!("/app/{number:0900}");
                many.push(retry(|| async { zk.exists(&path).watch().await }).await?);
            }
        }
        "large-replies" | "empty-replies" => {
            zk.get_data(format!("{path}/data")).await?;
            zk.get_children(format!("{path}/children")).await?;
            // It is refused before it is sent.
            let refused = zk.set_data("/app", vec![0; 1 << 20]).await;
            if !matches!(refused, Err(Error::RequestTooLarge { .. })) {
                return Err(format!("a request of more than 1 MiB: {refused:?}").into());
            }
        }
        "idle" => sleep(duration).await,
        _ => {}
    }
    let end = Instant::now() + duration;
    while Instant::now() < end {
        match retry(|| work(&zk)).await {
            Err(Error::SessionExpired(_)) => zk = connect().await?,
            outcome => outcome?,
        }
        sleep(PAUSE).await;
    }
    drop((data, children, exists, recursive, many));
    zk.close().await?;
    Ok(())
}

async fn connect() -> Result<Client, Error> {
    Client::options()
        .auth("digest", "conform:secret")
        .connect(env::var("ZOOKEEPER").unwrap_or_default())
        .await
}

async fn create(zk: &Client, path: &str) -> Result<(), Error> {
    match retry(|| async { zk.create(path, "").await }).await {
        Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// What a contender for a lock does, and a write.
async fn work(zk: &Client) -> Result<(), Error> {
    let ticket = zk.create("/app/lock/ticket-", "").ephemeral().sequential().await?;
    zk.set_data("/app", "x").await?;
    zk.delete(ticket.path).await
}

/// Tries it again until it is done, unless the session is over.
async fn retry<T, F>(operation: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let limit = Instant::now() + LIMIT;
    loop {
        match operation().await {
            Err(Error::ConnectionLoss(_)) if Instant::now() < limit => sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
