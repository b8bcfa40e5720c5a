//! What is said on the wire: connections to a server, conversations of others, and messages as named values.

pub(crate) mod acl;
pub(crate) mod connection;
pub(crate) mod conversation;
pub(crate) mod encoding;
pub(crate) mod fields;
pub(crate) mod normal;
pub(crate) mod operations;
pub(crate) mod proxy;
pub(crate) mod requests;
mod wait;

pub use connection::ANSWER_LIMIT;
pub use wait::until_it_serves;
