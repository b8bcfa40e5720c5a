//! How often something is tried again, and how long is waited in between.

use std::future::Future;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error};

/// How often something is tried again. The pauses come to about five seconds, to which a client without a connection adds
/// its own waiting: up to a session timeout each time.
const ATTEMPTS: u32 = 16;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What keeps a loop from going on for ever, and from going on without a pause.
#[derive(Debug)]
pub(crate) struct Patience<'c> {
    client: &'c Client,
    tried: u32,
}

impl<'c> Patience<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, tried: 0 }
    }

    /// Waits until it is time for another attempt, by the client's clock; `false` if there have been enough. The first
    /// comes at once: what made it necessary is most often over.
    pub(crate) async fn lasts(&mut self) -> bool {
        let lasts = self.counts();
        if self.tried > 1 && lasts {
            let pause = (FIRST_PAUSE * (1 << (self.tried - 2).min(10))).min(LONGEST_PAUSE);
            // Those who got into each other's way once are not to meet again.
            let share = (self.client.random_u128() % 512) as u32;
            self.client.clock().sleep(pause / 2 + pause * share / 1024).await;
        }
        lasts
    }

    /// As [`lasts`](Self::lasts) without a pause, for what ended with its connection: before the next one the client
    /// pauses by itself, if there is reason to.
    pub(crate) fn counts(&mut self) -> bool {
        self.tried += 1;
        self.tried < ATTEMPTS
    }

    /// Begins anew: it goes on, so whatever was in its way is over.
    pub(crate) fn renew(&mut self) {
        self.tried = 0;
    }

    /// Asks until there is an answer, or it ends.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &mut self,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, Error> {
        loop {
            match ask().await {
                Err(error) if error.is_retryable() => self.outlasts(error).await?,
                answer => return answer,
            }
        }
    }

    /// Gives way to `error` unless there is time for another attempt.
    pub(crate) async fn outlasts<E>(&mut self, error: E) -> Result<(), E> {
        if self.lasts().await { Ok(()) } else { Err(error) }
    }
}
