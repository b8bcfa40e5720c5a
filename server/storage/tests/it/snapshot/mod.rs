//! Snapshots: what is written, what is read, and what of it is refused.

mod crashes;
mod damage;
mod others;
mod purging;
mod raw;
mod round_trip;
mod support;
mod writing;
