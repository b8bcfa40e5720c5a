//! [`hold_over_sessions`]: holds a lock whenever it can, in one session after the other, and works while it does.

use std::future::Future;
use std::ops::ControlFlow;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Sessions};

use crate::acquire::Acquire;
use crate::error::LockError;
use crate::guard::Guard;
use crate::retry::RetryPolicy;
use crate::state::{HoldState, LostReason};

/// Acquires the lock, runs `work` until that ends or the lock is lost, releases it, and begins again unless `work` has broken
/// the loop.
///
/// Each acquisition is used once, so no two runs of `work` have the same token; and a run is dropped before the next
/// acquisition begins.
///
/// # Errors
/// The first error that another attempt does not change, and the end of the sessions.
/// # Cancel safety
/// Dropping the future drops `work`, and then releases the lock or leaves its queue.
pub(crate) async fn hold_over_sessions<G: 'static, T, F>(
    sessions: &Sessions,
    acquire: impl Fn(&Client) -> Acquire<G>,
    mut work: impl FnMut(G) -> F,
) -> Result<T, LockError>
where
    F: Future<Output = ControlFlow<T>>,
{
    let mut over = 0;
    loop {
        let term = sessions.term_after(over).await?;
        if let Some(output) = hold_in_session(&term.client, &acquire, &mut work).await? {
            return Ok(output);
        }
        // Its state may not show yet that it is over.
        over = term.number;
    }
}

/// `None` once the session is over.
async fn hold_in_session<G: 'static, T, F>(
    client: &Client,
    acquire: &impl Fn(&Client) -> Acquire<G>,
    work: &mut impl FnMut(G) -> F,
) -> Result<Option<T>, LockError>
where
    F: Future<Output = ControlFlow<T>>,
{
    let mut retries = RetryPolicy::<LockError>::until_session_ends(client, "");
    loop {
        let (acquiring, wrap) = acquire(client).unwrapped();
        match acquiring.await {
            Ok(guard) => {
                let began = client.clock().now();
                let ended = work_under(guard, wrap, work).await;
                if client.clock().now() - began >= client.session_timeout() {
                    retries.reset();
                }
                match ended? {
                    Ok(ControlFlow::Break(output)) => return Ok(Some(output)),
                    // The work decides how often it makes way for others.
                    Ok(ControlFlow::Continue(())) => continue,
                    // If the session is over as well, the next attempt reports that.
                    Err(reason) => tracing::debug!(%reason, "acquiring a lost lock again"),
                }
            }
            Err(LockError::SessionOver { .. }) => return Ok(None),
            Err(error) if may_pass(&error) => {
                tracing::debug!(%error, "acquiring a lock again");
            }
            Err(error) => return Err(error),
        }
        // Somebody who deletes our znodes, or a server that closes connections, is not answered at full speed.
        retries.next().await;
    }
}

/// Runs `work` under a lock that was just acquired, and releases the lock. The inner error is how the lock was lost.
async fn work_under<G, T, F>(
    guard: Guard,
    wrap: fn(Guard) -> G,
    work: &mut impl FnMut(G) -> F,
) -> Result<Result<ControlFlow<T>, LostReason>, LockError>
where
    F: Future<Output = ControlFlow<T>>,
{
    // By the clock: this program may have been suspended since the lock was granted.
    if let HoldState::Lost(reason) = guard.state() {
        return Ok(Err(reason));
    }
    let flow = match guard.run(async { work(wrap(guard.reenter())).await }).await {
        Ok(flow) => flow,
        Err(reason) => return Ok(Err(reason)),
    };
    match (guard.release().await, &flow) {
        // A znode of this session that remains would be in the way for as long as the session lasts.
        (Err(error), ControlFlow::Continue(())) => Err(error),
        _ => Ok(Ok(flow)),
    }
}

/// Whether another attempt in the same session may succeed.
fn may_pass(error: &LockError) -> bool {
    match error {
        LockError::NodeDeleted { .. } | LockError::NotHeld { .. } | LockError::QueueFull { .. } => true,
        LockError::Client(error) => error.is_retryable(),
        _ => false,
    }
}
