//! The client against a server that the tests play.

mod calls;
mod cancel;
mod clock;
mod common;
mod connection;
mod messages;
mod parents;
mod probe;
mod seed;
