//! The two types that a caller holds: [`Call`], a request before it is sent, and [`ReplyFuture`] after.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use zoolet_proto::{OpCode, Request, Zxid};

use crate::client::Client;
use crate::command::{AnsweredCall, CallOutcome, ReplyTo, shown_zxid};
use crate::context::ErrorContext;
use crate::error::Error;

pub(crate) type Decode<T> = fn(CallOutcome) -> Result<T, Error>;

/// A request that is not sent yet. `.await` sends it and waits for the reply; [`send`](Call::send) sends it now, without
/// waiting.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let (acl, _stat) = zk.get_acl("/a").timeout(Duration::from_secs(1)).await?;
/// let pipelined = [zk.get_acl("/b").send(), zk.get_acl("/c").send()];
/// for reply in pipelined {
///     println!("{:?}", reply.await?);
/// }
/// # Ok(()) }
/// ```
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

    /// Fails with [`Error::Timeout`] if there is no reply within `timeout` of sending. The server may execute the request
    /// nevertheless.
    ///
    /// Default: [`request_timeout`](crate::ConnectOptions::request_timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request now, without waiting, and returns the future of its reply.
    ///
    /// # Ordering and cancel safety
    /// Requests are sent in the order of these calls, not of the polls. Dropping the future does not cancel the request; a
    /// watch that its reply brings is removed.
    /// # Errors
    /// Besides those of the call, `QueueFull` if the requests that wait for a reply take more than
    /// [`max_pending`](crate::ConnectOptions::max_pending). `.await` waits for room instead: the request is sent when there
    /// is some, after those that wait already, and never if the future is dropped before.
    pub fn send(self) -> ReplyFuture<T> {
        self.submit::<false>()
    }

    /// Sends the request now if there is room, otherwise when there is.
    pub(crate) fn send_or_wait(self) -> ReplyFuture<T> {
        self.submit::<true>()
    }

    fn submit<const WAIT: bool>(self) -> ReplyFuture<T> {
        let Self { client, request, timeout, decode } = self;
        let pending = match request {
            Ok(request) => client.submit::<WAIT>(request, timeout),
            Err(error) => PendingReply::Failed(Some(error)),
        };
        ReplyFuture { pending, decode }
    }

    pub(crate) fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<T> IntoFuture for Call<'_, T> {
    type Output = Result<T, Error>;
    type IntoFuture = ReplyFuture<T>;

    fn into_future(self) -> ReplyFuture<T> {
        self.send_or_wait()
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("request", &self.request).finish_non_exhaustive()
    }
}

/// The reply to a request that has been sent: a `'static` future, from [`Call::send`]. Dropping it does not cancel the
/// request.
#[must_use = "the outcome of a request may be an error"]
pub struct ReplyFuture<T> {
    pending: PendingReply,
    decode: Decode<T>,
}

pub(crate) enum PendingReply {
    /// Waiting for the driver.
    Sent { outcome: oneshot::Receiver<AnsweredCall>, op: OpCode },
    /// Waiting for room, then for the driver.
    Blocked(Pin<Box<dyn Future<Output = AnsweredCall> + Send>>),
    /// The request was not sent, for this reason; taken by the first poll.
    Failed(Option<Error>),
}

impl PendingReply {
    /// The two ends of a request of this kind.
    pub(crate) fn channel(op: OpCode) -> (ReplyTo, Self) {
        let (reply_to, outcome) = ReplyTo::channel();
        (reply_to, Self::Sent { outcome, op })
    }

    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<AnsweredCall> {
        let closed = |context| AnsweredCall::from(Err(Error::Closed(context)));
        Poll::Ready(match self {
            Self::Sent { outcome, op } => {
                let outcome = ready!(Pin::new(outcome).poll(cx));
                // The driver was dropped while it had this request.
                outcome.unwrap_or_else(|_| closed(ErrorContext::unanswered(*op)))
            }
            Self::Blocked(outcome) => ready!(outcome.as_mut().poll(cx)),
            Self::Failed(error) => error
                .take()
                .map_or_else(|| closed(ErrorContext::local("request", "")), |error| Err(error).into()),
        })
    }
}

impl<T> ReplyFuture<T> {
    pub(crate) fn new(pending: PendingReply, decode: Decode<T>) -> Self {
        Self { pending, decode }
    }

    /// The same reply with the zxid of its header: the last transaction that the server had applied when it executed the
    /// request. For a write it is the write's own. A refusal has one too: `NoNode` at zxid 7 says that the znode was absent
    /// after transaction 7 (`FinalRequestProcessor`). `None` if no server has replied, or its reply names none, as to
    /// [`add_auth`](crate::Client::add_auth) and with `Unimplemented`, and with `ReplyTooLarge`.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let (stat, zxid) = zk.set_data("/config", "v2").send().with_zxid().await;
    /// println!("version {} at {zxid:?}", stat?.version);
    /// # Ok(()) }
    /// ```
    pub fn with_zxid(self) -> ReplyWithZxid<T> {
        ReplyWithZxid(self)
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<(Result<T, Error>, Option<Zxid>)> {
        let AnsweredCall { outcome, zxid } = ready!(self.pending.poll_outcome(cx));
        Poll::Ready(((self.decode)(outcome), shown_zxid(zxid)))
    }
}

impl<T> Future for ReplyFuture<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map(|(reply, _)| reply)
    }
}

/// A reply with the zxid of its header, from [`ReplyFuture::with_zxid`].
#[derive(Debug)]
#[must_use = "the outcome of a request may be an error"]
pub struct ReplyWithZxid<T>(ReplyFuture<T>);

impl<T> Future for ReplyWithZxid<T> {
    type Output = (Result<T, Error>, Option<Zxid>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_answer(cx)
    }
}

impl<T> fmt::Debug for ReplyFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_whose_outcome_is_lost_may_have_applied() {
        for (op, may_have_applied) in
            [(OpCode::SetData, true), (OpCode::Multi, true), (OpCode::GetData, false)]
        {
            let (reply_to, pending) = PendingReply::channel(op);
            drop(reply_to);
            let mut reply = ReplyFuture::new(pending, |outcome| outcome.map(drop));
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let Poll::Ready(Err(error)) = Pin::new(&mut reply).poll(&mut cx) else {
                panic!("no reply will come");
            };
            assert!(error.is_session_over());
            assert_eq!(error.may_have_applied(), may_have_applied, "{error}");
        }
    }
}
