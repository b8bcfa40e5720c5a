//! Faults at one of the requests of a program.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use zoolet::Client;
use zoolet::testing::{TestServer, handshake, request};

/// A fault at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFault {
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
    /// The program crashes before it is executed.
    CrashBefore,
    /// The program crashes after it was executed.
    CrashAfter,
}

pub const REQUEST_FAULTS: [RequestFault; 7] = [
    RequestFault::DropRequest,
    RequestFault::LoseReply,
    RequestFault::CutReply,
    RequestFault::ExpireBefore,
    RequestFault::ExpireAfter,
    RequestFault::CrashBefore,
    RequestFault::CrashAfter,
];

impl RequestFault {
    /// Whether the program and its session survive it.
    pub fn is_survived(self) -> bool {
        matches!(self, Self::DropRequest | Self::LoseReply | Self::CutReply)
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum RunEnd<T, E> {
    /// The program and its session survived, and this was returned.
    Returned(Result<T, E>),
    /// Nothing was returned, or that the session is over.
    Unknown,
}

/// Runs `case` for each fault at the first request, the second and so on, until it returns that there were not so many.
/// Returns the number of requests.
pub async fn at_every_request(mut case: impl AsyncFnMut(RequestFault, u64) -> Option<()>) -> u64 {
    let mut most = 0;
    for fault in REQUEST_FAULTS {
        let mut nth = 1;
        while case(fault, nth).await.is_some() {
            nth += 1;
            assert!(nth < 100, "there is no end of requests");
        }
        most = most.max(nth - 1);
    }
    assert!(most > 1, "{most} requests");
    most
}

/// Runs `work` with a fault at the `nth` request of `client` from now on; `None` if there were not so many.
pub async fn run_with_fault<T: Send + 'static, E: Send + 'static>(
    zk: &TestServer,
    client: &Client,
    fault: RequestFault,
    nth: u64,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Option<RunEnd<T, E>> {
    let id = client.session_id();
    let before = zk.faults().fired().len();
    let at = zk.faults().on(request().session(id).nth(nth));
    match fault {
        RequestFault::DropRequest => at.drop_request(),
        RequestFault::LoseReply => at.lose_reply(),
        RequestFault::CutReply => at.cut_reply(7),
        RequestFault::ExpireBefore | RequestFault::CrashBefore => at.freeze(),
        RequestFault::ExpireAfter | RequestFault::CrashAfter => at.lose_reply(),
    }
    .unwrap();
    // A client that is to expire or crash does not reconnect before that.
    if !fault.is_survived() {
        zk.faults().on(handshake().session(id)).freeze().unwrap();
    }
    let running = tokio::spawn(work);
    if fault.is_survived() {
        let told = zk.pass_time_until(running).await.unwrap().unwrap();
        let happened = zk.faults().fired().len() > before;
        zk.faults().clear();
        return happened.then_some(RunEnd::Returned(told));
    }
    zk.wait_until_idle().await.unwrap();
    if zk.faults().fired().len() == before {
        running.abort();
        return None;
    }
    if matches!(fault, RequestFault::CrashBefore | RequestFault::CrashAfter) {
        // Its session exists for a while, as after a crash, but no client resumes it.
        running.abort();
        let _ = running.await;
        return Some(RunEnd::Unknown);
    }
    zk.faults().clear();
    zk.expire_session(id).await.unwrap();
    zk.unfreeze_all().await.unwrap();
    match zk.pass_time_until(running).await.unwrap().unwrap() {
        // It was done before that request.
        Ok(told) => Some(RunEnd::Returned(Ok(told))),
        Err(_) => Some(RunEnd::Unknown),
    }
}

/// Polls `work` so many times, with all other tasks idle in between, and drops it; whether it was done by then.
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
