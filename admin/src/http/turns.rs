//! [`Turns`]: what HTTP may cost the clients of the ZooKeeper server, which share its runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Works on one request or handshake at a time, and lets the runtime serve everybody else before the next one; what waits lets the
/// next one through. So at most one stands before a client's request, however many have come.
#[derive(Debug)]
pub(super) struct Turns(Semaphore);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(1))
    }

    /// Works to the end of it, from wait to wait in a turn each.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        // Not the waker of the task: that is woken to yield as well, and a wake-up of the work may come meanwhile.
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            let turn = self.0.acquire().await;
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            // Without this, hyper goes on with the requests that are there until the socket is full.
            yield_now().await;
            drop(turn);
            match polled {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => woken.0.notified().await,
            }
        }
    }
}

/// Keeps a wake-up until somebody waits for it.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_comes_while_others_have_their_turn_is_not_lost() {
        let (sender, receiver) = oneshot::channel();
        // It runs when the work has waited once, and yields.
        tokio::spawn(async move { sender.send(7) });
        assert_eq!(Turns::new().run(receiver).await, Ok(7));
    }
}
