//! [`SimulatedDisk`]: a disk in memory that loses power, fails and lies on demand.

mod content;
mod directory;
mod disk;
mod fault;
mod file;
pub mod glob;
mod inspect;
mod machine;
mod open_file;
mod operations;

pub use disk::SimulatedDisk;
pub use fault::{DiskFault, DiskFaultError, DiskFaultId, DiskMatcher, DiskOp, FiredDiskFault};
