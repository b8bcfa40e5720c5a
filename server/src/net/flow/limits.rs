//! Every constant of flow control, which decides how much is done, kept or awaited at a time: what it bounds, and the
//! reason for its value or the command that shows its effect. Lengths of the wire format are not here, nor what a
//! snapshot allows itself.
//!
//! "Bench" is `cargo bench --bench server -- --only ROW`, "attack" is `tests/hostile/run NAME`. Where neither stands, nobody has
//! measured another value.

use std::time::Duration;

// Reading.

/// Requests that are submitted to a turn at once: the share of one connection. What one connection has asked for and not read is
/// the replies of one batch. Bench `durable-reader`: 8 and 16 make no difference.
pub(crate) const BATCH: usize = 32;

/// A connection is not read while more of its messages wait for the log, as the latency of others grows with what one client
/// has in flight. Bench `durable-reader`: 64 costs the writer a seventh, 128 the reader a tenth or more. It is looked at once a batch.
pub(crate) const MAX_HELD_REPLIES: usize = 3 * BATCH;

/// After this the connection is read again until the sync under way returns: if syncs are slow, throughput needs many
/// transactions per sync, and pings must be read.
pub(crate) const BACK_PRESSURE_TIMEOUT: Duration = Duration::from_millis(1);

/// Bytes that are read at once: first, and at most. An idle connection has no buffer that is larger than [`KEEP`]. Bench `size`.
pub(crate) const MIN_READ: usize = 1 << 10;
pub(crate) const MAX_READ: usize = 64 << 10;

/// How often the loops of a connection are polled before other tasks run. For a single request two rounds do: the first reads it,
/// the second writes the reply and finds nothing more.
pub(crate) const ROUNDS: usize = 2;

// Turns.

/// A turn ends when its replies have this many bytes. One whose batch has as many makes its connection slow.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// A turn ends when it has lasted this long by the server's clock: a request of 18 bytes may take 90 ms. A clock that stands
/// still ends none, so that a simulation repeats with its seed. Attack `long`.
pub(crate) const TURN_TIME: Duration = Duration::from_millis(2);

/// Bytes that an event counts in a turn for each connection that gets it: about what it costs to queue it there. Attack `fan_out`.
pub(crate) const EVENT: usize = 64;

/// Cheap requests that are executed between two looks at the clock, which costs as much as a tenth of one.
pub(crate) const CHEAP_IN_A_ROW: usize = 8;

/// A request with more parts, and a listing of more children, takes a good part of a turn. Attack `long`.
pub(crate) const MANY_PARTS: usize = 1_000;
pub(crate) const MANY_CHILDREN: usize = 10_000;

/// Entries that a four-letter word copies in one turn, and lines that it makes before other tasks run.
pub(crate) const LISTED: usize = 500;

/// Bytes of transactions that may wait for the disk before connections that write have to wait.
pub(crate) const COMMIT_QUEUE: usize = 32 << 20;

/// Milliseconds between comparisons of the wall clock with that of deadlines, which cost as much as a tenth of a cheap request.
pub(crate) const COMPARE_CLOCKS: i64 = 100;

// What is queued for a connection.

/// The default limit of an outbox: this many of the longest frames, and this many bytes at least. At the limit the connection
/// is closed. Only events get there, and a reply that is larger.
pub(crate) const OUTBOX_FRAMES: usize = 64;
pub(crate) const OUTBOX_BYTES: usize = 64 << 20;

/// Unsent bytes above which a connection is not read. All marks together are `ALL_MARKS`, as far as each is within its bounds,
/// so that 1,000 clients that pipeline large reads take no more memory than 256. Attack `large`.
pub(crate) const ALL_MARKS: usize = 64 << 20;
pub(crate) const LEAST_MARK: usize = 16 << 10;
pub(crate) const MOST_MARK: usize = 256 << 10;

/// If all outboxes together have more bytes that no znode shares, a connection with more than its mark of them is closed at its
/// next message.
pub(crate) const ALL_OUTBOXES: usize = 256 << 20;

/// A queue that grows or shrinks by less is not counted in that.
pub(crate) const CHARGE_STEP: usize = 16 << 10;

/// A value of this length is shared with the tree. To copy a shorter one costs less than to send it by itself.
pub(crate) const SHARED_FROM: usize = 16 << 10;

/// A piece of this many bytes is complete: a buffer that grows without end doubles, and is copied each time.
pub(crate) const PIECE: usize = 16 << 10;

/// A buffer larger than the first is kept only if most of it was used last, one larger than the second in no case: one request
/// of 10 KB would leave 64 KiB with its connection. Bench `size`.
pub(crate) const KEEP: usize = 4 << 10;
pub(crate) const KEEP_BUSY: usize = 16 << 10;

/// Lists of connections that get events of one change and are kept apart. A change has one for each path at which it is watched.
pub(crate) const EVENT_LISTS: usize = 8;

// Writing.

/// Bytes that are handed to the kernel at once, and how many connections with more to send do so at a time. Each ready task waits
/// while such a write runs: on a runtime of one thread, a thousand such senders would delay everybody. Attack `large`.
pub(crate) const MAX_SEND: usize = 64 << 10;
pub(crate) const BULK_SENDERS: usize = 8;

/// How long the peer of a closing connection may read nothing of what is left to be sent, and then how long it may take to
/// close its end.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Bytes in flight in each direction of a connection in process: at most a read at once.
pub(crate) const PIPE: usize = MAX_READ;

// TLS. Attack `handshakes`.

/// How many connections may shake hands at a time: each has a descriptor and up to [`MAX_HANDSHAKE`].
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKES: usize = 1_000;

/// How long that may take, as on Apache with Netty, and for how long in all a handshake may have waited for its peer before it gives
/// way to another.
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
#[cfg(feature = "tls")]
pub(crate) const STALLED_HANDSHAKE: Duration = Duration::from_secs(1);

/// Bytes that a peer may send in it: a message of rustls has at most 64 KiB, of which only a chain of certificates needs any.
#[cfg(feature = "tls")]
pub(crate) const MAX_HANDSHAKE: usize = 128 << 10;

// Others.

/// How long accepting pauses after an error, which most often is a lack of descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A line of the log that a peer can cause stands for those of this time.
pub(crate) const LINE_PERIOD: Duration = Duration::from_secs(1);

/// The lines for connections that have ended in such a time: more than a service at work has, and fewer than a flood makes.
pub(crate) const CLOSED_LINES: u32 = 100;
