//! A cache of a configuration that follows its changes, over a lost session:
//! `cargo run --example cache`

#![allow(clippy::print_stdout, reason = "an example prints")]

use zoolet::recipes::CacheChange;
use zoolet::testing::TestServer;
use zoolet::{Cache, Sessions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::builder().znode("/config/rate", "10").start().await?;
    let writer = server.client().await;
    let sessions = Sessions::open(server.options(), server.connector())?;

    // Data that is not a number is an error of that znode alone.
    let rates = Cache::builder(&sessions, "/config")
        .max_depth(1)
        .decode(|path, data| match path {
            "/config" => Ok(0),
            _ => Ok(std::str::from_utf8(data)?.parse::<u32>()?),
        })
        .open()
        .await?;
    let mut changes = rates.changes();
    let follower = tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            match change {
                CacheChange::Created(new) | CacheChange::Changed { new, .. } => {
                    println!("{} is {:?}", new.path(), new.value());
                }
                other => println!("{other:?}"),
            }
        }
    });

    // Two znodes in one transaction: no snapshot has one without the other.
    writer.multi().set_data("/config/rate", "20").create("/config/burst", "200").await?;
    let snapshot = rates.at_least(writer.last_zxid()).await?;
    let value = |path: &str| snapshot.get(path).and_then(|entry| entry.value().ok().copied());
    assert_eq!((value("/config/rate"), value("/config/burst")), (Some(20), Some(200)));

    // What changes while there is no session is compared with the next one.
    server.expire_session(sessions.client().await?.session_id()).await?;
    writer.set_data("/config/rate", "fast").await?;
    let snapshot = server.pass_time_until(rates.fresh()).await??;
    println!("exact at {}, stale since {:?}", snapshot.as_of(), snapshot.stale_since());
    assert!(snapshot.get("/config/rate").is_some_and(|entry| entry.value().is_err()));

    drop(rates);
    server.pass_time_until(follower).await??;
    Ok(())
}
