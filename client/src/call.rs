//! One request from its caller to the driver and back: what is sent over, what comes back, and the two types a
//! caller holds, [`Call`] before it is sent and [`Reply`] after.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_clock::Hold;
use zoolet_proto::{OpCode, Request};

use crate::client::Client;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::watch::{Handle, WatchKind};

/// What handles tell the driver. The order of these is the order of everything.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send a request.
    Submit(Submission),
    /// The user of a watch has gone.
    Unwatch { kind: WatchKind, path: String, id: u64 },
    /// Close the session.
    Close(ReplyTo),
}

/// A request with everything it needs on its way.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: Request,
    pub(crate) reply_to: ReplyTo,
    pub(crate) deadline: Option<Instant>,
    /// How many connections were lost under it.
    pub(crate) losses: u8,
    /// Keeps a manual clock from being moved on before the driver has it.
    pub(crate) hold: Hold,
}

impl Submission {
    /// A request of the client's own, whose outcome nobody awaits.
    pub(crate) fn internal(request: Request) -> Self {
        Self { request, reply_to: ReplyTo::nobody(), deadline: None, losses: 0, hold: Hold::default() }
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: zoolet_proto::Reply,
    pub(crate) watch: Option<Box<Handle>>,
}

pub(crate) type Outcome = Result<Answer, Error>;

/// Where an outcome goes.
#[derive(Debug)]
pub(crate) struct ReplyTo(Option<oneshot::Sender<Outcome>>);

impl ReplyTo {
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    /// Hands over the outcome. If nobody waits any more it is dropped, and with it the watch it may hold.
    pub(crate) fn send(&mut self, outcome: Outcome) {
        if let Some(caller) = self.0.take() {
            let _ = caller.send(outcome);
        }
    }

    /// Whether a caller has asked, who may have gone since.
    pub(crate) fn is_a_callers(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|caller| !caller.is_closed())
    }
}

pub(crate) type Decode<T> = fn(Outcome) -> Result<T, Error>;

/// A request that is not sent yet: `.await` sends it and waits, [`send`](Call::send) sends it now.
#[must_use = "a request is sent by `.await` or `.send()`"]
pub struct Call<'c, T> {
    client: &'c Client,
    request: Result<Request, Error>,
    timeout: Option<Duration>,
    decode: Decode<T>,
}

impl<'c, T> Call<'c, T> {
    pub(crate) fn new(client: &'c Client, request: Result<Request, Error>, decode: Decode<T>) -> Self {
        Self { client, request, timeout: None, decode }
    }

    /// Gives up after `timeout`, counted from the sending, with [`Error::Timeout`]. A request that has left is not
    /// recalled by that.
    ///
    /// Default: [`request_timeout`](crate::ConnectOptions::request_timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request now, without waiting, and gives the future of its reply.
    ///
    /// # Ordering and cancel safety
    /// Requests leave in the order of these calls, not of the polls. Dropping the future does not recall the request;
    /// a watch that its reply would have brought is taken back.
    pub fn send(self) -> Reply<T> {
        let Self { client, request, timeout, decode } = self;
        let reply = match request {
            Ok(request) => client.submit(request, timeout),
            Err(error) => Waiting::Failed(Some(error)),
        };
        Reply { waiting: reply, decode }
    }

    pub(crate) fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<T> IntoFuture for Call<'_, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Reply<T>;

    fn into_future(self) -> Reply<T> {
        self.send()
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The reply to a request that has been sent: a future that borrows nothing.
#[must_use = "the outcome of a request may be an error"]
pub struct Reply<T> {
    waiting: Waiting,
    decode: Decode<T>,
}

pub(crate) enum Waiting {
    /// For the driver.
    Sent { outcome: oneshot::Receiver<Outcome>, op: OpCode },
    /// For the first poll, to say what stopped the request on this side.
    Failed(Option<Error>),
}

impl Waiting {
    /// A pair of ends, for a request of this kind.
    pub(crate) fn channel(op: OpCode) -> (ReplyTo, Self) {
        let (caller, outcome) = oneshot::channel();
        (ReplyTo(Some(caller)), Self::Sent { outcome, op })
    }
}

impl<T> Reply<T> {
    pub(crate) fn new(waiting: Waiting, decode: Decode<T>) -> Self {
        Self { waiting, decode }
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let closed = |context| Err(Error::Closed(context));
        let outcome = match &mut self.waiting {
            Waiting::Sent { outcome, op } => {
                let outcome = ready!(Pin::new(outcome).poll(cx));
                // The driver went while it had this request in hand.
                outcome.unwrap_or_else(|_| closed(ErrorContext::unanswered(*op)))
            }
            Waiting::Failed(error) => {
                error.take().map_or_else(|| closed(ErrorContext::local("request", "")), Err)
            }
        };
        Poll::Ready((self.decode)(outcome))
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_whose_outcome_got_lost_may_have_applied() {
        for (op, exposed) in [(OpCode::SetData, true), (OpCode::Multi, true), (OpCode::GetData, false)] {
            let (reply_to, waiting) = Waiting::channel(op);
            drop(reply_to);
            let mut reply = Reply::new(waiting, |outcome| outcome.map(drop));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let Poll::Ready(Err(error)) = Pin::new(&mut reply).poll(&mut cx) else {
                panic!("nobody will answer");
            };
            assert!(error.is_session_over());
            assert_eq!(error.may_have_applied(), exposed, "{error}");
        }
    }
}
