//! Waiting for tasks while time stands still.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zoolet_clock::Clock;

/// What `future` returns without waiting for anything.
pub async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Lets every task run until `done` returns true. That takes no time, whatever the clock.
pub async fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if done() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the condition is never met");
}

/// Advances a manual clock, and lets the tasks that this wakes run.
pub async fn pass(clock: &Clock, duration: Duration) {
    clock.advance(duration).expect("a manual clock");
    until(|| clock.pending_wakeups() == 0).await;
}
