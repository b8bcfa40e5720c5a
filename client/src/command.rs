//! What handles send to the driver, in the one order of everything, and what it sends back.

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_clock::ActivityGuard;
use zoolet_proto::{Reply, Request, Zxid};

use crate::call_span::CallSpan;
use crate::chroot::Chroot;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::feed::{FeedReply, FeedSink};
use crate::pending::PendingShare;
use crate::watch::{Watch, WatchKind, WatchStream};

/// A message from a handle to the driver. Their order is the order of everything.
#[derive(Debug)]
pub(crate) enum DriverCommand {
    /// Send a request.
    Submit(Box<Submission>),
    /// The user of a watch is gone.
    Unwatch { kind: WatchKind, path: String, id: u64 },
    /// Close the session.
    Close(ReplyTo),
    /// End the session as expired, for this reason, without the server's word.
    GiveUp(&'static str),
    /// Leave the present server for another one.
    LeaveServer,
    /// Report connections to this feed from now on.
    OpenFeed(FeedSink),
    /// The reader of a feed is gone.
    CloseFeed(FeedSink),
}

/// A request on its way to the driver and to its reply. Boxed, as it is moved a dozen times.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) request: Request,
    /// The caller sees its paths below this.
    pub(crate) chroot: Chroot,
    pub(crate) reply_to: ReplyTo,
    pub(crate) deadline: Option<Instant>,
    /// The number of connections that were lost while it was in flight.
    pub(crate) losses: u8,
    /// Its share of the room for pending requests.
    pub(crate) _share: PendingShare,
    /// Keeps a manual clock from advancing before the driver has it.
    pub(crate) activity: ActivityGuard,
}

impl Submission {
    /// A request of the session itself, whose outcome nobody awaits.
    pub(crate) fn internal(request: Request) -> Box<Self> {
        Box::new(Self {
            request,
            chroot: Chroot::default(),
            reply_to: ReplyTo::nobody(),
            deadline: None,
            losses: 0,
            _share: None,
            activity: ActivityGuard::default(),
        })
    }

    /// Answers with an error, if somebody waits. `sent` is whether a server may have received it.
    pub(crate) fn fail(&mut self, sent: bool, error: impl FnOnce(ErrorContext) -> Error) {
        if self.reply_to.is_awaited() {
            self.reply_to.send(Err(error(ErrorContext::of(&self.request, sent, &self.chroot))));
        }
    }
}

/// A reply, with what else it brings. Rare things are boxed, because every reply is moved several times.
#[derive(Debug)]
pub(crate) struct DecodedReply {
    pub(crate) reply: Reply,
    pub(crate) extra: Option<Box<ReplyExtra>>,
}

#[derive(Debug)]
pub(crate) enum ReplyExtra {
    /// The one-shot watch that is set.
    Watch(Watch),
    /// The persistent watch that is set.
    WatchStream(WatchStream),
    /// The number of a sequential znode.
    Sequence(i32),
}

pub(crate) type CallOutcome = Result<DecodedReply, Error>;

/// The outcome of a call. At most 128 bytes: what is larger is moved by a call of memcpy, and this is moved often.
#[derive(Debug)]
pub(crate) struct AnsweredCall {
    pub(crate) outcome: CallOutcome,
    /// Of the header of its reply; 0 if no server has replied. See [`shown_zxid`].
    pub(crate) zxid: Zxid,
}

// Not in the builds of others: a compiler may lay it out in another way.
#[cfg(test)]
const _: () = assert!(size_of::<AnsweredCall>() <= 128);

/// The state that a reply with this zxid in its header shows. A server that does not know the operation names none (−1).
pub(crate) fn shown_zxid(header: Zxid) -> Option<Zxid> {
    (header.0 > 0).then_some(header)
}

impl From<CallOutcome> for AnsweredCall {
    /// Without a reply.
    fn from(outcome: CallOutcome) -> Self {
        Self { outcome, zxid: Zxid(0) }
    }
}

/// The driver's end of a call.
#[derive(Debug)]
pub(crate) struct ReplyTo(Option<CallEnd>);

#[derive(Debug)]
enum CallEnd {
    Caller(oneshot::Sender<AnsweredCall>, Option<CallSpan>),
    Feed(FeedTicket),
}

/// A request of a feed.
#[derive(Debug)]
pub(crate) struct FeedTicket {
    pub(crate) feed: FeedSink,
    /// The connection on which it may be sent.
    pub(crate) generation: u64,
    pub(crate) tag: u64,
}

impl ReplyTo {
    /// The two ends of a call.
    pub(crate) fn channel() -> (Self, oneshot::Receiver<AnsweredCall>) {
        let (caller, outcome) = oneshot::channel();
        (Self(Some(CallEnd::Caller(caller, None))), outcome)
    }

    /// Ends this span with the outcome.
    pub(crate) fn trace(&mut self, span: CallSpan) {
        if let Some(CallEnd::Caller(_, traced)) = &mut self.0 {
            *traced = Some(span);
        }
    }

    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    pub(crate) fn feed(ticket: FeedTicket) -> Self {
        Self(Some(CallEnd::Feed(ticket)))
    }

    /// The ticket, if this is a request of a feed.
    pub(crate) fn ticket(&self) -> Option<&FeedTicket> {
        match &self.0 {
            Some(CallEnd::Feed(ticket)) => Some(ticket),
            _ => None,
        }
    }

    /// Sends the outcome. If the caller is gone, the outcome is dropped, with the watch it may have.
    #[inline]
    pub(crate) fn send(&mut self, outcome: impl Into<AnsweredCall>) {
        match self.0.take() {
            Some(CallEnd::Caller(caller, span)) => {
                let answered = outcome.into();
                // Before the caller goes on, whose own span may end then.
                if let Some(span) = span {
                    span.end(&answered.outcome);
                }
                drop(caller.send(answered));
            }
            // A reply to a feed is sent by its ticket; here the call has failed.
            Some(CallEnd::Feed(ticket)) => {
                if let Err(error) = outcome.into().outcome {
                    ticket.feed.reply(FeedReply { tag: ticket.tag, zxid: None, outcome: Err(error) });
                }
            }
            None => {}
        }
    }

    /// Whether this is a caller's request. The caller may be gone.
    pub(crate) fn has_caller(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn is_awaited(&self) -> bool {
        match &self.0 {
            Some(CallEnd::Caller(caller, _)) => !caller.is_closed(),
            Some(CallEnd::Feed(ticket)) => ticket.feed.is_read(),
            None => false,
        }
    }
}
