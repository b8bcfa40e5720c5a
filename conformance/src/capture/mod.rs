//! Captures: what clients and a server say to each other, recorded by a proxy, shown as text, and sent again.

mod format;
mod mask;
mod message;
mod observer;
mod proxy;
mod replay;
mod writer;

pub use message::{Message, Messages};
pub use proxy::Capture;
pub use replay::{Replay, ReplayDifference, Replayed};
pub use writer::Captured;
