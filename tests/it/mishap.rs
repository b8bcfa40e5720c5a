//! What may happen to a program at one of its requests.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use zoolet::Client;
use zoolet::testing::{TestServer, handshake, request};

/// What happens at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFault {
    /// The connection breaks before it is executed.
    DropRequest,
    /// It breaks after it was executed, before the reply.
    LoseReply,
    /// It breaks in the middle of the reply.
    CutReply,
    /// The session expires before it is executed.
    ExpireBefore,
    /// The session expires after it was executed, and the reply is lost.
    ExpireAfter,
    /// The program ends before it is executed, and never comes back.
    CrashBefore,
    /// The program ends after it was executed, and never comes back.
    CrashAfter,
}

pub const MISHAPS: [ReplyFault; 7] = [
    ReplyFault::DropRequest,
    ReplyFault::LoseReply,
    ReplyFault::CutReply,
    ReplyFault::ExpireBefore,
    ReplyFault::ExpireAfter,
    ReplyFault::CrashBefore,
    ReplyFault::CrashAfter,
];

impl ReplyFault {
    /// Whether the program lives on, and its session with it.
    pub fn is_survived(self) -> bool {
        matches!(self, Self::DropRequest | Self::LoseReply | Self::CutReply)
    }
}

/// What became of it.
#[derive(Debug)]
pub enum Fate<T, E> {
    /// The program lived on with its session, and was told this.
    Told(Result<T, E>),
    /// It was not told, or that its session is over.
    Unknown,
}

/// Runs `case` for each mishap at the first request, the second and so on, until it says that there were not so many.
/// Gives the number of requests.
pub async fn at_every_request(mut case: impl AsyncFnMut(ReplyFault, u64) -> Option<()>) -> u64 {
    let mut most = 0;
    for mishap in MISHAPS {
        let mut nth = 1;
        while case(mishap, nth).await.is_some() {
            nth += 1;
            assert!(nth < 100, "there is no end of requests");
        }
        most = most.max(nth - 1);
    }
    assert!(most > 1, "{most} requests");
    most
}

/// Runs `work`, and lets a mishap happen at the `nth` request of `client` from now on; `None` if there were not so many.
pub async fn suffer<T: Send + 'static, E: Send + 'static>(
    zk: &TestServer,
    client: &Client,
    mishap: ReplyFault,
    nth: u64,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Option<Fate<T, E>> {
    let id = client.session_id();
    let before = zk.faults().fired().len();
    let at = zk.faults().on(request().session(id).nth(nth));
    match mishap {
        ReplyFault::DropRequest => at.drop_request(),
        ReplyFault::LoseReply => at.lose_reply(),
        ReplyFault::CutReply => at.cut_reply(7),
        ReplyFault::ExpireBefore | ReplyFault::CrashBefore => at.freeze(),
        ReplyFault::ExpireAfter | ReplyFault::CrashAfter => at.lose_reply(),
    }
    .unwrap();
    // Whoever is to expire or to be gone does not come back before that.
    if !mishap.is_survived() {
        zk.faults().on(handshake().session(id)).freeze().unwrap();
    }
    let running = tokio::spawn(work);
    if mishap.is_survived() {
        let told = zk.pass_time_until(running).await.unwrap().unwrap();
        let happened = zk.faults().fired().len() > before;
        zk.faults().clear();
        return happened.then_some(Fate::Told(told));
    }
    zk.wait_until_idle().await.unwrap();
    if zk.faults().fired().len() == before {
        running.abort();
        return None;
    }
    if matches!(mishap, ReplyFault::CrashBefore | ReplyFault::CrashAfter) {
        // Its session lives on for a while, as that of a program that was killed does; nothing of it comes back.
        running.abort();
        let _ = running.await;
        return Some(Fate::Unknown);
    }
    zk.faults().clear();
    zk.expire_session(id).await.unwrap();
    zk.heal_all().await.unwrap();
    match zk.pass_time_until(running).await.unwrap().unwrap() {
        // It was done before that request.
        Ok(told) => Some(Fate::Told(Ok(told))),
        Err(_) => Some(Fate::Unknown),
    }
}

/// Polls `work` so many times, with everybody else at rest in between, and drops it; whether it was done by then.
pub async fn polled(zk: &TestServer, polls: usize, work: impl Future) -> bool {
    let mut work = pin!(work);
    for _ in 0..polls {
        let done = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await;
        if done {
            return true;
        }
        zk.wait_until_idle().await.unwrap();
    }
    false
}
