//! [`Stepper`]: what handshakes and HTTP may cost the clients, which share their runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

/// Works on one request or handshake at a time, and lets the runtime serve everybody else before the next one;
/// what waits lets the next one through. So at most one stands before a client's request, however many have come.
#[derive(Debug)]
pub struct Stepper(Semaphore);

impl Default for Stepper {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Stepper {
    /// Works to the end of it, from wait to wait in a step each. Calls `note` with true when the next step can
    /// be taken, and with false when the work waits for something else, such as its peer.
    pub async fn run<T>(&self, work: impl Future<Output = T>, mut note: impl FnMut(bool)) -> T {
        let mut work = pin!(work);
        // Not the waker of the task: that is woken to yield as well, and a wake-up may come meanwhile.
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        loop {
            note(true);
            let permit = self.0.acquire().await;
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            // Without this, hyper goes on with the requests that are there until the socket is full.
            yield_now().await;
            drop(permit);
            match polled {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => {
                    note(false);
                    woken.0.notified().await;
                }
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
    async fn what_comes_while_others_run_is_not_lost() {
        let (sender, receiver) = oneshot::channel();
        // It runs when the work has waited once, and yields.
        tokio::spawn(async move { sender.send(7) });
        let mut notes = Vec::new();
        assert_eq!(Stepper::default().run(receiver, |is_ready| notes.push(is_ready)).await, Ok(7));
        assert_eq!(notes, [true, false, true]);
    }
}
