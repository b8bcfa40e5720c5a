//! Barriers: places where processes wait for a signal, or for each other.

mod double;
mod error;
mod member;
mod single;

pub use double::{BarrierGuard, DoubleBarrier};
pub use error::BarrierError;
pub use single::Barrier;
