//! The values that describe a held lock: its fencing token, its state, how it was lost, what a release did, and the
//! [`Grant`] that all of it rests on.

use std::fmt;

use tokio::time::Instant;
use zoolet_client::{Error, Stat, Zxid};

/// A number that rises with every acquisition of a lock, even if its directory was deleted in between: the
/// transaction that put the holder in the queue.
///
/// A store that keeps the highest token it has seen and rejects lower ones is safe from holders that have lost the lock
/// without knowing. A new holder must write its token before it reads.
///
/// ```
/// # use zoolet_recipes::FencingToken;
/// struct Store {
///     highest: u64,
/// }
///
/// impl Store {
///     fn write(&mut self, token: FencingToken) -> Result<(), &'static str> {
///         if token.get() < self.highest {
///             return Err("a later holder has written");
///         }
///         self.highest = token.get();
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(czxid: Zxid) -> Self {
        Self(czxid.0.unsigned_abs())
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a held lock, as far as it is known without asking the server.
///
/// ```no_run
/// # use zoolet_recipes::{Guard, HoldState};
/// # fn example(guard: &Guard) {
/// match guard.state() {
///     HoldState::Held => {}
///     HoldState::Suspect { .. } => println!("pause: no server is reached"),
///     state => println!("stop: {state:?}"),
/// }
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Connected, and nothing indicates a loss.
    Held,
    /// There is no connection, or only one to a server that is cut off from its ensemble. The lock is still held if the
    /// session is resumed in time.
    Suspect {
        /// Since when, by the client's clock.
        since: Instant,
    },
    /// Not held any more. Final.
    Lost(LostReason),
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The server has expired the session. Open a new client.
    #[error("the session has expired")]
    SessionExpired,
    /// The client was closed, or its runtime was shut down.
    #[error("the client is closed, or its runtime was shut down")]
    SessionClosed,
    /// The server rejected the client's credentials.
    #[error("authentication failed")]
    AuthFailed,
    /// Somebody deleted the znode of the holder.
    #[error("the znode of the holder was deleted")]
    NodeDeleted,
    /// No server was reached for so long that it may have expired the session. The session is not over by that: acquire again
    /// on the same client, which waits for a server and reports if the session has ended.
    #[error("no server was reached within the session timeout")]
    LeaseElapsed,
    /// The connection was lost, and [`SuspendPolicy::Lost`](crate::SuspendPolicy::Lost) is set.
    #[error("the connection was lost")]
    Suspended,
}

impl LostReason {
    /// How the session ended, if `error` reports its end.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::SessionExpired(_) => Some(Self::SessionExpired),
            Error::AuthFailed(_) => Some(Self::AuthFailed),
            Error::Closed(_) => Some(Self::SessionClosed),
            _ => None,
        }
    }
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lock was held until now.
    Deleted,
    /// The lock had been lost before.
    AlreadyGone,
    /// Another guard of the same acquisition still holds the lock; see [`Guard::reenter`](crate::Guard::reenter).
    StillHeld,
}

/// What a guard holds: written when the lock is won, and again when it is changed.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// The znodes; more than one for several locks or permits at once.
    pub(crate) nodes: Vec<String>,
    pub(crate) token: FencingToken,
    /// Another znode, and the version it has as long as the lock is ours. Needed where the next holder uses the name of
    /// our znode again, so that the name proves nothing.
    pub(crate) epoch: Option<(String, i32)>,
}

impl Grant {
    /// Whether a znode with our name and this `Stat` is ours, and not that of the next holder.
    pub(crate) fn is_of(&self, stat: &Stat) -> bool {
        self.epoch.is_none() || FencingToken::new(stat.czxid) == self.token
    }

    /// The paths and versions that a multi checks to ensure that the lock is held when it is executed.
    pub(crate) fn checks(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        let epoch = self.epoch.iter().map(|(path, version)| (path.as_str(), Some(*version)));
        epoch.chain(self.nodes.iter().map(|node| (node.as_str(), None)))
    }
}
