//! A queue from the driver to one reader: never waits to be filled, and may be told to stop growing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The items on their way to one reader.
#[derive(Debug)]
pub(crate) struct Queue<T>(Mutex<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    closed: bool,
    reader: Option<Waker>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Mutex::new(Inner { items: VecDeque::new(), closed: false, reader: None }))
    }
}

impl<T> Queue<T> {
    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        // No code of others runs under this lock, so a poisoned one is as good as any.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends what `choose` makes of the queue's length and last item, and wakes the reader.
    pub(crate) fn push_with(&self, choose: impl FnOnce(usize, Option<&T>) -> Option<T>) {
        let mut inner = self.inner();
        if inner.closed {
            return;
        }
        let Some(item) = choose(inner.items.len(), inner.items.back()) else { return };
        inner.items.push_back(item);
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Appends an item and wakes the reader.
    pub(crate) fn push(&self, item: T) {
        self.push_with(|_, _| Some(item));
    }

    /// Ends the queue behind what it has.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The next item; `None` behind the last one of a closed queue.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inner = self.inner();
        match inner.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if inner.closed => Poll::Ready(None),
            None => {
                inner.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
