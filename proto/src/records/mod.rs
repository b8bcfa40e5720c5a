//! The records of the protocol, one file for each family. Each implements [`Jute`](crate::Jute).

mod auth;
mod connect;
mod data;
mod multi;
mod watch;

pub use auth::{AuthPacket, ClientInfo, GetAcl, SaslToken, SetAcl};
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN};
pub use data::{
    CheckVersion, Create, CreateTtl, Delete, DeleteContainer, Exists, GetAllChildrenNumber, GetChildren,
    GetData, GetEphemerals, Reconfig, SetData, Sync,
};
pub use multi::{MultiHeader, Op, OpResult};
pub use watch::{AddWatch, CheckWatches, RemoveWatches, SetWatches, SetWatches2, WatchedEvent};
