//! Captures: what clients and a server say to each other, recorded by a proxy, shown as text, and sent again.

mod deletions;
mod expiry;
mod format;
mod ids;
mod link;
mod mask;
mod message;
mod observer;
mod order;
mod plan;
mod player;
mod proxy;
mod replay;
mod waiting;
mod writer;

pub use message::{Message, Messages};
pub use proxy::Capture;
pub use replay::{Replay, ReplayDifference, Replayed};
pub use writer::Captured;
