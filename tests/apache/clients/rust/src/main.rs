//! The crate zookeeper-client against a server: see ../../README.md.

mod checks;
mod conform;
mod locks;
mod multi;
mod operations;
mod permissions;
mod sessions;
mod watches;

use std::time::Duration;

use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions};

use checks::{check, env, Outcome};

pub const PERSISTENT: &CreateOptions<'static> = &CreateMode::Persistent.with_acls(Acls::anyone_all());
pub const EPHEMERAL: &CreateOptions<'static> = &CreateMode::Ephemeral.with_acls(Acls::anyone_all());

/// A connector with a session timeout.
pub fn connector(timeout_ms: u64) -> Connector {
    Client::connector().with_session_timeout(Duration::from_millis(timeout_ms))
}

/// A session through the proxy, below the script's root.
pub async fn connect(timeout_ms: u64) -> Outcome<Client> {
    Ok(connector(timeout_ms).connect(&hosts()).await?)
}

pub fn hosts() -> String {
    env("ZK_HOSTS") + &env("ZK_ROOT")
}

/// A session past the proxy, below the script's root.
pub async fn outside() -> Outcome<Client> {
    Ok(connector(20_000).connect(&(env("ZK_DIRECT") + &env("ZK_ROOT"))).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    if std::env::args().nth(1).as_deref() == Some("conform") {
        return conform::run().await;
    }
    let all = Client::connect(&env("ZK_DIRECT")).await?;
    all.create(&env("ZK_ROOT"), b"", PERSISTENT).await?;
    check("config is empty, reconfig refused, connection kept", operations::config(&all)).await;
    let client = connect(6000).await?;
    let outside = outside().await?;
    operations::run(&client).await?;
    multi::run(&client).await?;
    permissions::run(&client).await?;
    watches::run(&client, &outside).await?;
    locks::run(&client, &outside).await?;
    sessions::run(client, &outside).await?;
    std::process::exit(i32::from(checks::any_failed()))
}
