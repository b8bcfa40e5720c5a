//! What `zoolet-recipes` needs beyond the public API. Exempt from semantic versioning.

use tokio::runtime;
use tokio::time::Instant;
use zoolet_clock::Clock;
#[doc(hidden)]
pub use zoolet_proto::contender;

use crate::client::Client;
use crate::error::Error;
pub use crate::feed::{FEED_CAPACITY, Feed, FeedItem, FeedReply, FeedRequest};
pub use crate::locked::locked;
pub use crate::op::MissingParents;
pub use zoolet_proto::{NameList, Reply, records};

/// The error of a create, with other advice about a missing parent: the caller of a recipe has no `.parents()`.
pub fn with_parent_advice(mut error: Error, advice: &'static str) -> Error {
    if let Error::Refused { context, .. } | Error::MultiRefused { context, .. } = &mut error {
        context.set_parent_advice(advice);
    }
    error
}

/// The clock, runtime, random numbers and lease of a session.
pub trait ClientExt {
    #[doc(hidden)]
    fn client(&self) -> &Client;

    /// The clock that the timers of this client run on.
    fn clock(&self) -> &Clock {
        &self.client().shared.clock
    }

    /// The runtime that drives the session. Tasks that last as long as the session are spawned here, because the
    /// caller's runtime may be gone before.
    fn runtime(&self) -> &runtime::Handle {
        &self.client().runtime
    }

    /// A random number from the generator that [`seed`](crate::ConnectOptions::seed) seeds, for names that must be
    /// unique in a program whose runs are reproducible. Not for secrets.
    ///
    /// Two clients with one seed generate the same numbers. If they may meet, mix in something that differs, such as
    /// [`session_id`](Client::session_id).
    fn random_u128(&self) -> u128 {
        self.client().shared.random_u128()
    }

    /// When, by [`clock`](ClientExt::clock), the latest request that was answered had been sent.
    ///
    /// The server noted a sign of life no earlier than this; a server that answers reads only does not count. So it
    /// cannot have expired the session before this plus [`session_timeout`](Client::session_timeout), as far as both
    /// clocks run equally fast: the local lease that a lock may rely on.
    fn last_contact(&self) -> Instant {
        self.client().shared.last_contact()
    }

    /// Whether `path` is valid, for operations that only send paths made of it.
    ///
    /// # Errors
    /// `InvalidPath`, as an error of `operation`.
    fn check_path(&self, operation: &'static str, path: &str) -> Result<(), Error> {
        self.client().checked_path(operation, path.to_owned(), false).map(drop)
    }

    /// Another handle, whose requests are sent however many wait for a reply: for those that clean up, which a destructor
    /// sends, and for those that must not overtake each other while they wait. What uses it must be bounded by itself.
    fn unlimited(&self) -> Client {
        Client { is_limited: false, ..self.client().clone() }
    }

    /// A feed of this handle's chroot: replies, events and connections in the order of the wire.
    fn feed(&self) -> Feed {
        let client = self.client();
        Feed::open(&client.commands, &client.shared, &client.chroot)
    }

    /// The number of hosts in the connect string, or 1 for a closure. More than one are an ensemble.
    fn hosts(&self) -> usize {
        self.client().shared.hosts()
    }
}

impl ClientExt for Client {
    fn client(&self) -> &Client {
        self
    }
}

/// What things that last over sessions need.
pub trait SessionsExt {
    /// The clock of all sessions.
    fn clock(&self) -> &Clock;

    /// The runtime of the supervisor.
    fn runtime(&self) -> &runtime::Handle;

    /// Whether `path` is valid.
    ///
    /// # Errors
    /// `InvalidPath`, as an error of `operation`.
    fn check_path(&self, operation: &'static str, path: &str) -> Result<(), Error>;
}
