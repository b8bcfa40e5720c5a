//! Stores, who is trusted, and reload; without a network.

mod common;
mod handshakes;
mod reload;
mod stores;
