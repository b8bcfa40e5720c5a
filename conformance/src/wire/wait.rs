//! Waits for a server that is still starting.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_proto::Request;

use crate::error::RunError;
use crate::wire::connection::{ANSWER_LIMIT, Connection};

/// How long it takes until a server is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits until a server opens sessions. One that starts may accept connections before, and end them. It is asked once if `time` is zero.
///
/// # Errors
/// If it does not do so in time, or does not answer as a ZooKeeper does, which no waiting changes.
pub async fn until_it_serves(address: &str, time: Duration) -> Result<(), RunError> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A server that accepts a connection and says nothing takes no more than the time, if there is one.
        let limit = if time.is_zero() { ANSWER_LIMIT } else { left.clamp(AGAIN, ANSWER_LIMIT) };
        match Connection::with_session(address, limit).await {
            Ok(mut connection) => {
                // Its answer is not needed, but a server that gets no such request keeps the session for its timeout.
                let _ = connection.ask(&Request::CloseSession).await;
                return Ok(());
            }
            Err(no) if no.may_be_starting && Instant::now() + AGAIN < end => sleep(AGAIN).await,
            Err(no) => return Err(no),
        }
    }
}
