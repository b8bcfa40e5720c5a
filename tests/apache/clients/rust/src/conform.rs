//! A program for `zoolet conform --client`: see ../../conform.py.

use std::future::Future;
use std::time::Duration;

use tokio::time::{sleep, Instant};
use zookeeper_client::{Acls, AddWatchMode, Client, CreateMode, CreateOptions, Error};

use crate::checks::{env, Outcome};
use crate::{connector, PERSISTENT};

const TICKET: &CreateOptions<'static> = &CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

pub async fn run() -> Outcome {
    let scenario = env("ZOOKEEPER_SCENARIO");
    let duration = Duration::from_secs(env("ZOOKEEPER_SECONDS").parse()?);
    let mut client = connect().await?;
    for path in ["/app", "/app/watched", "/app/lock"] {
        client.create(path, b"", PERSISTENT).await?;
    }
    // A watch that is dropped is not set again.
    let _data = retry(|| client.get_and_watch_data("/app/watched")).await?;
    let _children = retry(|| client.list_and_watch_children("/app/watched")).await?;
    let _exists = retry(|| client.check_and_watch_stat("/app/absent")).await?;
    let _recursive = retry(|| client.watch("/app/watched", AddWatchMode::PersistentRecursive)).await?;
    let mut many = Vec::new();
    match scenario.as_str() {
        "many-watches" => {
            for number in 0..1300 {
                let path = format!("/app/{number:0900}");
                many.push(retry(|| client.check_and_watch_stat(&path)).await?);
            }
        }
        "large-replies" | "empty-replies" => {
            client.get_data(&(env("ZOOKEEPER_PATH") + "/data")).await?;
            client.list_children(&(env("ZOOKEEPER_PATH") + "/children")).await?;
        }
        "idle" => sleep(duration).await,
        _ => {}
    }
    let end = Instant::now() + duration;
    while Instant::now() < end {
        match retry(|| work(&client)).await {
            Err(Error::SessionExpired) => client = connect().await?,
            outcome => outcome?,
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn connect() -> Result<Client, Error> {
    connector(10_000).with_auth("digest", b"conform:secret").connect(&env("ZOOKEEPER")).await
}

async fn work(client: &Client) -> Result<(), Error> {
    let (_, sequence) = client.create("/app/lock/ticket-", b"", TICKET).await?;
    client.set_data("/app", b"x", None).await?;
    client.delete(&format!("/app/lock/ticket-{sequence}"), None).await
}

async fn retry<T, F: Future<Output = Result<T, Error>>>(operation: impl Fn() -> F) -> Result<T, Error> {
    let limit = Instant::now() + LIMIT;
    loop {
        match operation().await {
            Err(Error::ConnectionLoss) if Instant::now() < limit => sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
