//! Barriers: where many wait until they may go on together.

mod double;
mod error;
mod member;
mod single;

pub use double::{DoubleBarrier, Inside};
pub use error::BarrierError;
pub use single::Barrier;
