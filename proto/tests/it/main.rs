//! The wire protocol: golden bytes, round trips, and bytes that are wrong.

mod common;
mod golden;
mod round_trips;
