//! [`Connection`]: whether what was read is of the present connection.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_core::Stream as _;
use zoolet_client::{Client, SessionState, States};

/// Whether a client still has the connection on which it read.
///
/// A write that is made without a connection waits for one, and others may have replaced the znode by then, with one of the
/// same version. So each write follows a read on its own connection.
#[derive(Debug)]
pub(super) struct Connection<'c> {
    client: &'c Client,
    states: States,
}

impl<'c> Connection<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        let mut connection = Self { client, states: client.states() };
        connection.is_same();
        connection
    }

    /// Whether there is a connection, and was all the time since the last call.
    pub(super) fn is_same(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut is_same = true;
        while let Poll::Ready(Some(_)) = Pin::new(&mut self.states).poll_next(&mut cx) {
            is_same = false;
        }
        is_same && self.client.state().is_connected()
    }

    /// Waits for another connection.
    pub(super) async fn renewed(&mut self) {
        loop {
            match self.states.next().await {
                Some(SessionState::Connected | SessionState::ConnectedReadOnly) => return,
                Some(_) => {}
                // Everything else fails now.
                None => std::future::pending().await,
            }
        }
    }
}
