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

/// A connector with a session timeout, which speaks as this run wants it.
pub fn connector(timeout_ms: u64) -> Connector {
    secured(Client::connector()).with_session_timeout(Duration::from_millis(timeout_ms))
}

#[cfg(feature = "secure")]
fn secured(mut connector: Connector) -> Connector {
    use zookeeper_client::{SaslOptions, TlsOptions};
    let file = |name| std::fs::read_to_string(env(name)).unwrap();
    let given = |name| std::env::var_os(name).is_some();
    if given("ZK_CA") {
        let mut tls = TlsOptions::new().with_pem_ca(&file("ZK_CA")).unwrap();
        if given("ZK_CERTIFICATE") {
            tls = tls.with_pem_identity(&file("ZK_CERTIFICATE"), &file("ZK_KEY")).unwrap();
        }
        connector = connector.with_tls(tls);
    }
    if given("ZK_USER") {
        connector = connector.with_sasl(SaslOptions::digest_md5(env("ZK_USER"), env("ZK_SECRET")));
    }
    connector
}

#[cfg(not(feature = "secure"))]
fn secured(connector: Connector) -> Connector {
    connector
}

/// The address of a server; without the prefix it would be plain in spite of the options.
pub fn address(host: &str) -> String {
    if std::env::var_os("ZK_CA").is_some() { format!("tcp+tls://{host}") } else { host.to_owned() }
}

/// A session through the proxy, below the script's root.
pub async fn connect(timeout_ms: u64) -> Outcome<Client> {
    Ok(connector(timeout_ms).connect(&hosts()).await?)
}

pub fn hosts() -> String {
    address(&env("ZK_HOSTS")) + &env("ZK_ROOT")
}

/// A session past the proxy, below the script's root.
pub async fn outside() -> Outcome<Client> {
    Ok(connector(20_000).connect(&(address(&env("ZK_DIRECT")) + &env("ZK_ROOT"))).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    if std::env::args().nth(1).as_deref() == Some("conform") {
        return conform::run().await;
    }
    let all = connector(6000).connect(&address(&env("ZK_DIRECT"))).await?;
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
