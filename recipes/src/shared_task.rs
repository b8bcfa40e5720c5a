//! [`SharedTask`]: a task on the session's runtime that its handles can advance as well.
//!
//! A destructor cannot wait, and the task that owns a claim may not run before the next request of the same caller, or not
//! at all if the program ends. So a handle that has news for the task polls it once, in place: what the task sends for
//! that is sent before the call returns. The task then goes on where it is, on its runtime.

use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use zoolet_client::internal::locked;

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A handle on the task. Dropping it has no effect.
#[derive(Clone)]
pub(crate) struct SharedTask {
    cell: Arc<TaskCell>,
    runtime: Handle,
}

#[derive(Default)]
struct TaskCell {
    progress: Mutex<TaskProgress>,
    /// The thread that polls the task now.
    poller: Mutex<Option<ThreadId>>,
}

#[derive(Default)]
struct TaskProgress {
    /// `None` once it has completed, or its runtime is gone.
    future: Option<TaskFuture>,
    /// Wakes the task on its runtime, which has polled it before.
    waker: Option<Waker>,
}

impl SharedTask {
    /// Spawns the task, which gets a handle on itself for the guards that it makes.
    pub(crate) fn spawn<F>(runtime: &Handle, task: impl FnOnce(SharedTask) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = Self { cell: Arc::default(), runtime: runtime.clone() };
        locked(&shared.cell.progress).future = Some(Box::pin(task(shared.clone())));
        runtime.spawn(TaskRunner(Arc::clone(&shared.cell)));
        shared
    }

    /// What the task sends to this receiver. Dropping the output cancels, as the task sees by
    /// [`closed`](oneshot::Sender::closed).
    pub(crate) fn output<T>(self, receiver: oneshot::Receiver<T>) -> TaskOutput<T> {
        TaskOutput { receiver, task: self }
    }

    /// Polls the task once, unless it is what calls this. Waits only while another thread polls it.
    pub(crate) fn advance(&self) {
        // The task drops a guard that nobody has received; it goes on by itself.
        if *locked(&self.cell.poller) == Some(thread::current().id()) {
            return;
        }
        // A destructor may run outside of a runtime, or when the thread has already dropped its handle on one.
        if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
            return;
        }
        let _entered = self.runtime.enter();
        let progress = locked(&self.cell.progress);
        // What it waits for wakes it on its runtime. If that has not polled it yet, it will.
        let waker = progress.waker.clone();
        let polled =
            self.cell.poll(progress, &mut Context::from_waker(waker.as_ref().unwrap_or(Waker::noop())));
        if let (Poll::Ready(()), Some(waker)) = (polled, waker) {
            waker.wake();
        }
    }
}

impl TaskCell {
    fn poll(&self, mut progress: MutexGuard<'_, TaskProgress>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(mut future) = progress.future.take() else { return Poll::Ready(()) };
        *locked(&self.poller) = Some(thread::current().id());
        // The caller's budget may be used up, and this must not end before everything is sent.
        let polled = pin!(unconstrained(future.as_mut())).poll(cx);
        *locked(&self.poller) = None;
        match polled {
            Poll::Pending => progress.future = Some(future),
            // It may own handles on itself, so it is dropped without the lock.
            Poll::Ready(()) => drop((progress, future)),
        }
        polled
    }
}

/// The outcome of a [`SharedTask`]. If it is dropped before it was received, the requests with which the task cleans up are
/// sent before the drop returns, as far as they need no reply.
pub(crate) struct TaskOutput<T> {
    receiver: oneshot::Receiver<T>,
    task: SharedTask,
}

impl<T> TaskOutput<T> {
    /// The output, if it was sent, and refuses it from now on.
    pub(crate) fn close(&mut self) -> Option<T> {
        self.receiver.close();
        // Nothing is received from an empty one: that would end it, and the drop would take the task for done.
        if self.receiver.is_empty() { None } else { self.receiver.try_recv().ok() }
    }
}

impl<T> Future for TaskOutput<T> {
    type Output = Result<T, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receiver).poll(cx)
    }
}

impl<T> Drop for TaskOutput<T> {
    fn drop(&mut self) {
        self.receiver.close();
        // A guard that was sent is dropped with the receiver, which releases it; one that was received belongs to another.
        if self.receiver.is_empty() && !self.receiver.is_terminated() {
            self.task.advance();
        }
    }
}

/// The task on its runtime.
struct TaskRunner(Arc<TaskCell>);

impl Future for TaskRunner {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut progress = locked(&self.0.progress);
        match &mut progress.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => progress.waker = Some(cx.waker().clone()),
        }
        self.0.poll(progress, cx)
    }
}

impl Drop for TaskRunner {
    /// The runtime is gone, or the task has completed or panicked.
    fn drop(&mut self) {
        let future = mem::take(&mut *locked(&self.0.progress));
        drop(future);
    }
}
