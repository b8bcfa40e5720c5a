//! [`RetryPolicy`]: whether a request is sent again, how often, and after which pause.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, EventType, SessionState, Watch};

use crate::requests::{changed, if_exists};

/// How long to wait before repeating what a server has refused for the moment, such as a write while it is cut off.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// The limit of a limited policy. The pauses add up to about five seconds. A client without a connection waits as well,
/// up to a session timeout for each attempt.
const ATTEMPTS: u32 = 16;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The error of a kind of recipes.
pub(crate) trait RecipeError: Sized {
    /// What a client's error means for the recipe at `path`.
    fn of(path: &str, error: Error) -> Self;
}

/// The retry policy of every recipe, by the client's clock. What is not retried becomes an error `E` of the recipe.
#[derive(Debug)]
pub(crate) struct RetryPolicy<'c, E> {
    client: &'c Client,
    path: &'c str,
    error: PhantomData<fn() -> E>,
    /// How many attempts in a row may fail.
    limit: Option<u32>,
    failed: u32,
}

impl<'c, E: RecipeError> RetryPolicy<'c, E> {
    /// For locks, whose callers choose their own timeout: retries until the session ends. Pauses only if the server
    /// refused; after a lost connection the next request waits for a new one anyway.
    pub(crate) fn until_session_ends(client: &'c Client, path: &'c str) -> Self {
        Self { client, path, error: PhantomData, limit: None, failed: 0 }
    }

    /// For barriers and tickets: gives up after 16 failures in a row, with growing pauses.
    pub(crate) fn limited(client: &'c Client, path: &'c str) -> Self {
        Self { limit: Some(ATTEMPTS), ..Self::until_session_ends(client, path) }
    }

    /// Sends a read until there is a reply that no retry would change.
    pub(crate) async fn ask<T, F: IntoFuture<Output = Result<T, Error>>>(
        &mut self,
        request: impl FnMut() -> F,
    ) -> Result<T, Error> {
        self.ask_write(&mut false, request).await
    }

    /// As [`ask`](Self::ask); `None` if the znode does not exist.
    pub(crate) async fn ask_if_exists<T, F: IntoFuture<Output = Result<T, Error>>>(
        &mut self,
        request: impl FnMut() -> F,
    ) -> Result<Option<T>, E> {
        let reply = self.ask(request).await;
        self.if_exists(reply)
    }

    /// As [`ask`](Self::ask), for a write. `may_have_applied` is set if a failed attempt may have been executed.
    pub(crate) async fn ask_write<T, F: IntoFuture<Output = Result<T, Error>>>(
        &mut self,
        may_have_applied: &mut bool,
        mut request: impl FnMut() -> F,
    ) -> Result<T, Error> {
        loop {
            match request().into_future().await {
                Ok(reply) => return Ok(reply),
                Err(error) => {
                    *may_have_applied |= error.may_have_applied();
                    self.wait(error).await?;
                }
            }
        }
    }

    /// Waits until the request that failed with `error` may be sent again.
    ///
    /// # Errors
    /// `error`, if a retry does not help or the limit is reached.
    pub(crate) async fn retry(&mut self, error: Error) -> Result<(), E> {
        self.wait(error).await.map_err(|error| self.error(error))
    }

    async fn wait(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_retryable() {
            return Err(error);
        }
        if self.limit.is_some() {
            return self.or_give_up(error).await;
        }
        let refused = matches!(error, Error::Refused { .. } | Error::MultiRefused { .. });
        if error.code() == Some(ErrorCode::NotReadOnly) {
            // The client is looking for a server that takes writes; this one would refuse again.
            let mut states = self.client.states();
            while states.next().await == Some(SessionState::ConnectedReadOnly) {}
        } else if refused && error.code() != Some(ErrorCode::SessionMoved) {
            self.client.clock().sleep(PAUSE).await;
        }
        Ok(())
    }

    /// As [`retry`](Self::retry), also after the codes in `also`: another client was faster, or the reply to our own request
    /// was lost.
    pub(crate) async fn retry_also(&mut self, error: Error, also: &[ErrorCode]) -> Result<(), E> {
        let waited = match error.code() {
            Some(code) if also.contains(&code) => self.or_give_up(error).await,
            _ => self.wait(error).await,
        };
        waited.map_err(|error| self.error(error))
    }

    /// Waits until the next attempt, whatever the error.
    ///
    /// # Errors
    /// `error`, if the limit is reached.
    pub(crate) async fn or_give_up<O>(&mut self, error: O) -> Result<(), O> {
        if self.next().await { Ok(()) } else { Err(error) }
    }

    /// Waits until the next attempt; `false` if the limit is reached. The first retry is immediate, because what made it
    /// necessary is most often over.
    pub(crate) async fn next(&mut self) -> bool {
        let goes_on = self.next_immediate();
        if goes_on {
            if let Some(pause) = pause(self.client, self.failed, LONGEST_PAUSE) {
                self.client.clock().sleep(pause).await;
            }
        }
        goes_on
    }

    /// As [`next`](Self::next) without a pause, for requests that failed with their connection: the client pauses before
    /// it reconnects if it needs to.
    pub(crate) fn next_immediate(&mut self) -> bool {
        self.failed += 1;
        self.limit.is_none_or(|limit| self.failed < limit)
    }

    /// What a client's error means for the recipe.
    pub(crate) fn error(&self, error: Error) -> E {
        E::of(self.path, error)
    }

    /// As [`if_exists`].
    pub(crate) fn if_exists<T>(&self, reply: Result<T, Error>) -> Result<Option<T>, E> {
        if_exists(reply).map_err(|error| self.error(error))
    }

    /// As [`changed`].
    pub(crate) async fn changed(&self, watch: Watch) -> Result<Option<EventType>, E> {
        changed(watch).await.map_err(|error| self.error(error))
    }

    /// Forgets earlier failures, because there was progress.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
    }
}

/// The pauses of a task that nobody waits for, and that never gives up: none before the first repeats, because to find out and
/// to act takes more than one, and then up to 5 seconds.
#[derive(Debug)]
pub(crate) struct BackOff<'c> {
    client: &'c Client,
    failed: u32,
}

impl<'c> BackOff<'c> {
    /// The number of repeats without a pause, after the first one.
    const FREE: u32 = 3;
    /// The longest pause.
    pub(crate) const LONGEST: Duration = Duration::from_secs(5);

    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, failed: 0 }
    }

    /// How long to wait until the next attempt; `None` if it follows at once.
    pub(crate) fn next_pause(&mut self) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        pause(self.client, self.failed.saturating_sub(Self::FREE), Self::LONGEST)
    }

    /// Forgets earlier failures, because all was well for a while.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
    }
}

/// The pause after this number of failures.
fn pause(client: &Client, failed: u32, longest: Duration) -> Option<Duration> {
    let pause = (FIRST_PAUSE * (1 << failed.checked_sub(2)?.min(10))).min(longest);
    // Jitter: callers that collided once must not collide again.
    let share = (client.random_u128() % 512) as u32;
    Some(pause / 2 + pause * share / 1024)
}
