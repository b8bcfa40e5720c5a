//! [`StreamQueue`]: the items of one stream, from the driver to its reader.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use crate::locked::locked;

/// A queue with one reader. Filling it never waits, so the code that fills it keeps it bounded: [`StreamQueue::update`] may merge
/// or drop what it cannot hold.
#[derive(Debug)]
pub(crate) struct StreamQueue<T>(Mutex<QueueState<T>>);

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<T>,
    ended: bool,
    reader: Option<Waker>,
}

impl<T> Default for StreamQueue<T> {
    fn default() -> Self {
        Self(Mutex::new(QueueState { items: VecDeque::new(), ended: false, reader: None }))
    }
}

impl<T> StreamQueue<T> {
    /// Changes the unread items, unless the last one is among them.
    pub(crate) fn update(&self, change: impl FnOnce(&mut VecDeque<T>)) {
        self.change(|state| change(&mut state.items));
    }

    /// Adds the last item.
    pub(crate) fn end(&self, last: T) {
        self.change(|state| {
            state.items.push_back(last);
            state.ended = true;
        });
    }

    fn change(&self, change: impl FnOnce(&mut QueueState<T>)) {
        let mut state = locked(&self.0);
        if state.ended {
            return;
        }
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Moves all unread items to the end of `items`. Ready without one once the last was read.
    pub(crate) fn poll_all(&self, cx: &mut Context<'_>, items: &mut Vec<T>) -> Poll<()> {
        let mut state = locked(&self.0);
        if state.items.is_empty() && !state.ended {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        items.extend(state.items.drain(..));
        Poll::Ready(())
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = locked(&self.0);
        match state.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if state.ended => Poll::Ready(None),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
