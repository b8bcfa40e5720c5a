//! The admin server over TCP, beside a server with clients.

mod commands;
mod common;
