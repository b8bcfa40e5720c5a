//! A common interface to the two clients.

use std::error::Error;

use clap::ValueEnum;

pub(crate) const PATH: &str = "/bench-clients";
static DATA: [u8; 100] = [b'x'; 100];

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Our client.
    Zoolet,
    /// The crate zookeeper-client.
    ZookeeperClient,
}

/// The operation to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    Get,
    Set,
}

/// A connected client. Clones share the session.
#[derive(Clone)]
pub(crate) enum Client {
    Zoolet(zoolet_client::Client),
    ZookeeperClient(zookeeper_client::Client),
}

impl Client {
    pub(crate) async fn connect(kind: Kind, addr: &str) -> Outcome<Self> {
        Ok(match kind {
            Kind::Zoolet => Self::Zoolet(zoolet_client::Client::connect(addr).await?),
            Kind::ZookeeperClient => Self::ZookeeperClient(zookeeper_client::Client::connect(addr).await?),
        })
    }

    /// Creates the znode of the operations unless it exists.
    pub(crate) async fn prepare(&self) -> Outcome<()> {
        match self {
            Self::Zoolet(client) => match client.create(PATH, &DATA[..]).await {
                Err(error) if error.code() != Some(zoolet_client::ErrorCode::NodeExists) => Err(error.into()),
                _ => Ok(()),
            },
            Self::ZookeeperClient(client) => {
                let options =
                    zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
                match client.create(PATH, &DATA, &options).await {
                    Err(error) if error != zookeeper_client::Error::NodeExists => Err(error.into()),
                    _ => Ok(()),
                }
            }
        }
    }

    pub(crate) async fn run(&self, op: Op) -> Outcome<()> {
        match (self, op) {
            (Self::Zoolet(client), Op::Get) => drop(client.get_data(PATH).await?),
            (Self::Zoolet(client), Op::Set) => drop(client.set_data(PATH, &DATA[..]).await?),
            (Self::ZookeeperClient(client), Op::Get) => drop(client.get_data(PATH).await?),
            (Self::ZookeeperClient(client), Op::Set) => drop(client.set_data(PATH, &DATA, None).await?),
        }
        Ok(())
    }
}
