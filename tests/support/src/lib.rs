//! What the tests of several crates share. Not published; only integration tests and fuzz targets use it, because the unit
//! tests of a crate would see its types twice.

#![allow(missing_docs, clippy::unwrap_used, reason = "for tests alone")]

mod answer;
mod body;
#[cfg(feature = "certificates")]
pub mod certificates;
mod counted;
mod dice;
mod hello;
mod limit;
mod request;
mod samples;
#[cfg(feature = "server")]
mod storage;
mod tasks;
#[cfg(feature = "server")]
mod under_test;
mod wire;

use std::time::Duration;

pub use answer::{Answer, Event, Expected, Frame, event, reply};
pub use body::Body;
pub use counted::counted_operations;
pub use dice::Dice;
pub use hello::{Hello, password_of};
pub use limit::limit;
pub use request::*;
pub use samples::{Sample, samples};
#[cfg(feature = "server")]
pub use storage::{TestStorage, small_files, stored};
pub use tasks::{at_once, pass, until};
#[cfg(feature = "server")]
pub use under_test::Zk;
pub use wire::{Receiver, Sender, Stream, Wire};
pub use zoolet_proto::{ErrorCode, EventType, OpCode, Reply, Request, SessionId, Xid, Zxid};

/// The tick of every server, and the session timeout that [`Hello::new`] requests.
pub const TICK: Duration = secs(2);
pub const TIMEOUT: Duration = secs(10);

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
