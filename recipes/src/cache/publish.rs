//! From the task of a cache to its readers: the latest snapshot, and what led to it.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use zoolet_client::internal::locked;

use super::change::{CacheChange, between_all};
use super::error::CacheError;
use super::snapshot::Snapshot;

/// Most steps, and changes in them, that are kept for readers that are behind. A reader that is further behind compares its
/// snapshot with the latest.
const MAX_STEPS: usize = 64;
const MAX_CHANGES: usize = 4096;

/// The latest snapshot and the steps to it.
pub(super) struct Board<T> {
    state: Mutex<BoardState<T>>,
    /// Notifies readers of each change, and never under the lock.
    changed: Arc<Notify>,
}

/// A snapshot, and what led to it from the one before.
type KeptStep<T> = (Arc<Snapshot<T>>, Arc<[CacheChange<T>]>);

struct BoardState<T> {
    /// `None` until it is initialized.
    latest: Option<Arc<Snapshot<T>>>,
    /// The number of steps so far.
    step: u64,
    /// The last ones, each with its snapshot. The last has the number `step`.
    steps: VecDeque<KeptStep<T>>,
    ended: Option<CacheError>,
}

impl<T> Board<T> {
    pub(super) fn new() -> Self {
        let state = BoardState { latest: None, step: 0, steps: VecDeque::new(), ended: None };
        Self { state: Mutex::new(state), changed: Arc::default() }
    }

    pub(super) fn latest(&self) -> Option<Arc<Snapshot<T>>> {
        locked(&self.state).latest.clone()
    }

    /// Publishes a snapshot and what led to it.
    pub(super) fn publish(&self, snapshot: Arc<Snapshot<T>>, changes: Vec<CacheChange<T>>) {
        let mut state = locked(&self.state);
        state.latest = Some(Arc::clone(&snapshot));
        if !changes.is_empty() {
            state.step += 1;
            state.steps.push_back((snapshot, changes.into()));
            while state.steps.len() > MAX_STEPS || state.kept_changes() > MAX_CHANGES {
                state.steps.pop_front();
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(super) fn end(&self, error: CacheError) {
        let mut state = locked(&self.state);
        if state.ended.is_none() {
            state.ended = Some(error);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits for a snapshot that is `wanted`.
    ///
    /// # Errors
    /// Why the cache has ended, if it has.
    pub(super) async fn wait_for(
        &self,
        mut wanted: impl FnMut(&Snapshot<T>) -> bool,
    ) -> Result<Arc<Snapshot<T>>, CacheError> {
        loop {
            // Before the look, so that no change is missed between the look and the wait.
            let changed = self.changed.notified();
            {
                let state = locked(&self.state);
                if let Some(snapshot) = state.latest.as_ref().filter(|snapshot| wanted(snapshot)) {
                    return Ok(Arc::clone(snapshot));
                }
                if let Some(error) = &state.ended {
                    return Err(error.clone());
                }
            }
            changed.await;
        }
    }
}

impl<T> BoardState<T> {
    fn kept_changes(&self) -> usize {
        self.steps.iter().map(|(_, changes)| changes.len()).sum()
    }

    /// The snapshot and the changes after step `seen`, if they are kept.
    fn step_after(&self, seen: u64) -> Option<&KeptStep<T>> {
        let first = self.step - self.steps.len() as u64 + 1;
        self.steps.get(usize::try_from((seen + 1).checked_sub(first)?).ok()?)
    }
}

/// The changes of a [`Cache`](super::Cache): a [`Stream`] that ends after [`CacheChange::Ended`], or when the cache is dropped.
///
/// A reader that is slow gets what differs between the snapshot that it has seen last and the latest one: for each znode
/// the state before and the newest, and never a queue that grows. It does not keep the cache open.
pub struct CacheChanges<T> {
    board: Arc<Board<T>>,
    /// The next change of the board; begun before each look at it, so that none is missed.
    changed: Pin<Box<OwnedNotified>>,
    /// What the items so far add up to.
    seen: Arc<Snapshot<T>>,
    /// The step that has led to it, if one has.
    step: Option<u64>,
    /// Whether `Initialized` is among the items so far.
    initialized: bool,
    unread: VecDeque<CacheChange<T>>,
    ended: bool,
}

impl<T> CacheChanges<T> {
    /// From nothing to the latest snapshot, and on.
    pub(super) fn from_nothing(board: &Arc<Board<T>>) -> Self {
        let epoch = board.latest().map_or(0, |latest| latest.epoch);
        let seen = Arc::new(Snapshot::empty(epoch));
        Self { initialized: false, ..Self::since(board, seen) }
    }

    /// What differs from `seen`.
    pub(super) fn since(board: &Arc<Board<T>>, seen: Arc<Snapshot<T>>) -> Self {
        let state = locked(&board.state);
        // The latest snapshot is that of the last step, but for its zxid.
        let is_latest = state.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, &seen));
        let step = is_latest.then_some(state.step);
        drop(state);
        let changed = Box::pin(Arc::clone(&board.changed).notified_owned());
        let (board, unread) = (Arc::clone(board), VecDeque::new());
        Self { board, changed, seen, step, initialized: true, unread, ended: false }
    }

    /// Waits for the next change. `None` after the last.
    ///
    /// # Ordering and cancel safety
    /// Deletions of one snapshot come first, children before parents; then the rest in the order of its transactions,
    /// parents before children. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<CacheChange<T>> {
        poll_fn(|cx| self.poll_change(cx)).await
    }

    /// The snapshot that the changes so far lead to, once all of a step have been read.
    pub fn snapshot(&self) -> &Arc<Snapshot<T>> {
        &self.seen
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Option<CacheChange<T>>> {
        loop {
            if let Some(change) = self.unread.pop_front() {
                return Poll::Ready(Some(change));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let state = locked(&self.board.state);
            if let Some((snapshot, changes)) = self.step.and_then(|step| state.step_after(step)) {
                self.unread.extend(changes.iter().cloned());
                self.seen = Arc::clone(snapshot);
                self.step = self.step.map(|step| step + 1);
                continue;
            }
            let is_behind = self.step.is_none_or(|step| step < state.step);
            match (&state.latest, &state.ended) {
                (Some(latest), _) if is_behind => {
                    let latest = Arc::clone(latest);
                    self.step = Some(state.step);
                    drop(state);
                    // Without the lock, as it may take a while.
                    self.unread.extend(between_all(&self.seen, &latest));
                    if !mem::replace(&mut self.initialized, true) {
                        self.unread.push_back(CacheChange::Initialized { as_of: latest.as_of });
                    }
                    self.seen = latest;
                }
                (_, Some(error)) => {
                    self.unread.extend(match error {
                        // Dropped by its owner.
                        CacheError::Gone => None,
                        error => Some(CacheChange::Ended(error.clone())),
                    });
                    self.ended = true;
                }
                _ => {
                    drop(state);
                    ready!(self.changed.as_mut().poll(cx));
                    self.changed.set(Arc::clone(&self.board.changed).notified_owned());
                }
            }
        }
    }
}

impl<T> Stream for CacheChanges<T> {
    type Item = CacheChange<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CacheChange<T>>> {
        self.poll_change(cx)
    }
}

impl<T> std::fmt::Debug for CacheChanges<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheChanges").field("seen", &self.seen).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn nothing_is_left_of_readers_that_are_dropped_while_they_wait() {
        let (board, task) = (Arc::new(Board::<()>::new()), Arc::new(Task));
        let waker = Waker::from(Arc::clone(&task));
        let mut cx = Context::from_waker(&waker);
        let (mut waiting, mut changes) =
            (Box::pin(board.wait_for(|_| true)), CacheChanges::from_nothing(&board));
        assert!(waiting.as_mut().poll(&mut cx).is_pending() && changes.poll_change(&mut cx).is_pending());
        drop((waiting, changes, waker));
        assert_eq!(Arc::strong_count(&task), 1);
    }
    /// The last waker of a task, which some executors drop with all that it owns, such as other readers.
    struct LastWaker(Arc<Board<()>>);

    impl Wake for LastWaker {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for LastWaker {
        fn drop(&mut self) {
            assert!(self.0.state.try_lock().is_ok(), "dropped under the lock of the board");
        }
    }

    #[test]
    fn a_reader_that_moves_to_another_task_may_be_the_last_that_knew_of_the_former_one() {
        let board = Arc::new(Board::<()>::new());
        let mut changes = CacheChanges::from_nothing(&board);
        let mut waiting = Box::pin(board.wait_for(|_| true));
        for waker in [Waker::from(Arc::new(LastWaker(Arc::clone(&board)))), Waker::noop().clone()] {
            let mut cx = Context::from_waker(&waker);
            assert!(changes.poll_change(&mut cx).is_pending() && waiting.as_mut().poll(&mut cx).is_pending());
        }
    }
}
