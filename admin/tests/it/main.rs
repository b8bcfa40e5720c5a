//! The admin server over TCP, beside a server with clients; and metrics beside those of Apache ZooKeeper 3.9.5.

mod apache;
mod commands;
mod common;
mod consumers;
mod endpoint;
mod families;
#[cfg(feature = "tls")]
mod https;
mod moved;
mod page;
mod scrape;
mod sites;
mod transfers;
