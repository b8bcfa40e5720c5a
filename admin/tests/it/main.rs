//! The admin server over TCP, beside a server with clients.

mod commands;
mod common;
//! The metrics of a server beside those of Apache ZooKeeper 3.9.5.

mod apache;
mod families;
mod scrape;
