//! Unique numbers, for names.

use zoolet_client::Client;
use zoolet_client::internal::ClientExt as _;

/// A unique number. Clients may share a seed and generate the same random numbers, but never a session.
pub(crate) fn unique_number(client: &Client) -> u128 {
    client.random_u128() ^ u128::from(client.session_id().0 as u64)
}
