//! Flow control: why a client is not read, why its replies do not leave, and who wakes its connection then.
//!
//! ```text
//!   socket                                                            socket
//!     │ bytes                                                            ▲ bytes
//!     ▼                                                                  │
//!  ┌─ task of the connection ─────────────────────────────────────────────────┐
//!  │ read loop ◄─────────────── Outbox::poll_loops ──────────────► write loop │
//!  └──┬──────────▲────────────────────────────────────────────────────▲───────┘
//!     │ submit   │ finish_requests, return_unprocessed                │ next
//!     │ a batch  │                                                    │
//!     ▼          │             push, push_events                      │
//!   turn ────────┴──────────────────────────────► Outbox ─────────────┘
//!     │    ▲                                        ▲  messages that may leave, and after them
//!     │    └─ CommitQueue::advanced ──┐             │  messages that wait for the log
//!     ▼                               │             │
//!   CommitQueue ───────► log ─────────┘             │
//!                  (then a turn, which begins with) └─ release
//! ```
//!
//! The read loop and the write loop are polled by one task. A turn runs in the task that submits it, which most often is this one;
//! others run in the tasks of other connections and in that of the driver, on any thread.
//!
//! # Why is this client not read, and who wakes its connection?
//!
//! | the read loop waits | because | until | woken by |
//! | --- | --- | --- | --- |
//! | in `read_buf` | the peer has sent nothing | bytes arrive | the runtime |
//! | in `Turns::submit`, before a write or a new session | more than [`limits::COMMIT_QUEUE`] bytes of transactions wait for the disk | the log has synced some, or has ended | `CommitQueue::advance`, `reopen`, `fail`, the end of the log |
//! | in [`ready_for_requests`](outbox::Outbox::ready_for_requests) | its batch is not answered: it is in the driver's queue, or a fault of a test holds it back | a turn has answered it | `finish_requests` |
//! | the same | at least the [mark](budget::SendBudget::mark) is unsent | the write loop has sent all that it took, or the connection is aborted | the runtime, `abort`, a push that overflows |
//! | in [`held_at_most`](outbox::Outbox::held_at_most) | more than [`limits::MAX_HELD_REPLIES`] of its messages wait for the log | the log has them, or [`limits::BACK_PRESSURE_TIMEOUT`] has passed | `release`, `abort`, the timer |
//! | in `held_at_most(0)`, at the end of the stream | replies wait for the log: a peer that sends nothing more still gets what its stream takes of them at once | the log has them | `release`, `abort` |
//! | in `yield_now` | it has had its share: [`limits::BATCH`] requests | other tasks have run | itself |
//! | anywhere | both loops were polled [`limits::ROUNDS`] times in a row | other tasks have run | itself |
//!
//! Its pings are not read meanwhile. So its session is renewed when it is due (`Bus::handle_timeout`) if it is the server that
//! keeps the connection waiting: the disk, or the queue of the driver.
//!
//! # Why do its replies not leave?
//!
//! | the write loop waits | because | until | woken by |
//! | --- | --- | --- | --- |
//! | in [`next`](outbox::Outbox::next) | nothing may leave | a turn pushes, or releases what waited for the log | `push`, `push_events`, `release`, `abort` |
//! | in `send_all` | the peer takes nothing | it does, or [`limits::LINGER`] has passed in which the peer of a closing connection has taken nothing | the runtime, `push` of a close, `abort`, the timer |
//! | the same, with much to send | [`limits::BULK_SENDERS`] others send much | one of them has sent [`limits::MAX_SEND`] bytes | the semaphore `Shared::bulk` |
//!
//! # The wake-ups
//!
//! From a task or thread to another there are:
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | a change of an outbox | the task of its connection | `Outbox::changed`; `Outbox::finish_requests` if only the count has changed |
//! | a turn | the log | `CommitQueue::submit` |
//! | the log | the driver, which takes a turn; it releases what became durable, as any turn does | `CommitQueue::advance` |
//! | the log | connections that wait for room in the commit queue | `CommitQueue::advance` |
//!
//! A turn that moves the next deadline, or finds a connection slow, also has work for the driver: `Turns::moved` and the queue of
//! slow batches. Neither concerns an outbox.
//!
//! A connection's task is in one of three states, so that it is woken only if it sleeps, and once for any number of changes:
//!
//! ```text
//!             poll_loops begins a round                  nothing has changed in the round
//! Scheduled ─────────────────────────────► Polling ─────────────────────────────────────────► Parked
//!     ▲                                       │ a change: both loops are polled once more        │
//!     ├───────────────────────────────────────┘                                                  │
//!     └──────────────────────────────────────────────────────────────────────────────────────────┘
//!                                                           a change: the task is woken
//! ```
//!
//! What it keeps: replies in the order of the requests (rule 1 of `docs/design.md`); events before replies that show the change, as
//! both are pushed in the order of execution and nothing overtakes what waits for the log (rules 2 and 14); and a bound in bytes for
//! each connection (rule 8).

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod cost;
pub(crate) mod limits;
pub(crate) mod outbox;
#[cfg(test)]
mod outbox_model_tests;
#[cfg(test)]
mod outbox_tests;
pub(crate) mod queue;
mod sync;
