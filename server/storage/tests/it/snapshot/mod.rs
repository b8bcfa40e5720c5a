//! Snapshots: what is written, what is read, and what of it is refused.

mod support;
mod writing;
