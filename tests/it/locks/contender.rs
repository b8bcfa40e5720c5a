//! A contender: acquires, writes under the lock, rests, gives it back; or gives up on the way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use zoolet::recipes::Released;
use zoolet::testing::Node;
use zoolet::{Client, LockError};

use crate::locks::recipe::{Held, Part, Terms};
use crate::locks::stage::{Phase, Stage, locked};
use crate::locks::store::{STORE, parse};

/// Where a contender sits: its session, and what it is doing.
#[derive(Debug)]
pub struct Seat {
    pub number: usize,
    pub zk: Client,
    phase: Mutex<Phase>,
    /// Whether another client deleted its znode since it last began to acquire.
    pub evicted: AtomicBool,
    pub watches_own: AtomicBool,
    /// Whether it does not know if its last write happened.
    unsure: AtomicBool,
    /// Opens when it may go on with what it holds.
    pub gate: Notify,
}

/// One acquisition from the first request to the last.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    pub terms: Terms,
    /// After how many turns of the scheduler the acquisition is dropped.
    pub patience: Option<usize>,
    pub hold: Hold,
    /// Whether it goes on writing though it knows that the lock is lost.
    pub stubborn: bool,
    /// Whether it makes a reader of a writer, or a writer of a reader, and then holds that.
    pub change: bool,
    pub reenter: bool,
    pub leave: Leave,
}

/// How long the lock is kept.
#[derive(Debug, Clone, Copy, Default)]
pub enum Hold {
    /// Until the gate opens.
    #[default]
    UntilTold,
    For(Duration),
    /// Not at all: nothing is even written.
    NotAtAll,
}

/// How the lock is given back.
#[derive(Debug, Clone, Copy, Default)]
pub enum Leave {
    #[default]
    Release,
    /// It is not awaited.
    Drop,
    /// It is not awaited after so many turns of the scheduler.
    ReleaseFor(usize),
}

/// How an acquisition ended.
#[derive(Debug)]
pub enum End {
    Released(Released),
    /// The guard was dropped, or the future of its release.
    LeftAlone,
    GivenUp,
    /// It was only tried, and taken.
    Busy,
    Failed(LockError),
}

impl Seat {
    pub fn new(number: usize, zk: Client) -> Self {
        Self {
            number,
            zk,
            phase: Mutex::new(Phase::Idle),
            evicted: AtomicBool::new(false),
            watches_own: AtomicBool::new(false),
            unsure: AtomicBool::new(false),
            gate: Notify::new(),
        }
    }

    /// The data of its znodes: several may belong to one session.
    pub fn name(&self) -> String {
        format!("seat {}", self.number)
    }

    /// Whether a znode is its own.
    pub fn is_named_by(&self, node: &Node) -> bool {
        node.owner() == Some(self.zk.session_id()) && (node.text().is_empty() || node.text() == self.name())
    }

    pub fn phase(&self) -> std::sync::MutexGuard<'_, Phase> {
        locked(&self.phase)
    }

    fn enter(&self, phase: Phase) -> Phase {
        std::mem::replace(&mut self.phase(), phase)
    }

    /// Acquires once and gives back.
    pub async fn take(self: Arc<Self>, stage: Arc<Stage>, turn: Turn) -> End {
        self.evicted.store(false, SeqCst);
        self.watches_own.store(turn.terms.watch_own_node, SeqCst);
        self.enter(Phase::Acquiring);
        let acquiring = stage.recipe.acquire(&self.zk, turn.terms, self.name());
        let acquired = within(&stage.restless, turn.patience, acquiring).await;
        let held = match acquired {
            Some(Ok(Some(held))) => held,
            other => {
                self.enter(Phase::Idle);
                return match other {
                    None => End::GivenUp,
                    Some(Err(error)) => End::Failed(error),
                    Some(Ok(_)) => End::Busy,
                };
            }
        };
        let mut part = turn.terms.part;
        stage.note_claim(part, &held, None);
        let mut held = self.hold(&stage, held, part, turn).await;
        if turn.change {
            (held, part) = self.change(&stage, held, part).await;
            held = self.hold(&stage, held, part, turn).await;
        }
        self.enter(Phase::Asking);
        if turn.reenter {
            held = self.reenter(held).await;
        }
        let end = match turn.leave {
            Leave::Drop => {
                drop(held);
                End::LeftAlone
            }
            Leave::Release => end_of(Some(held.release().await)),
            Leave::ReleaseFor(turns) => end_of(within(&stage.restless, Some(turns), held.release()).await),
        };
        self.enter(Phase::Idle);
        end
    }

    async fn hold(&self, stage: &Stage, held: Held, part: Part, turn: Turn) -> Held {
        if matches!(turn.hold, Hold::NotAtAll) {
            return held;
        }
        let token = held.guard().token().get();
        let exclusive = stage.recipe.is_exclusive(part);
        self.enter(Phase::Asking);
        if exclusive {
            locked(&stage.outside).open(token);
        }
        self.write(&held, exclusive).await;
        let outside = locked(&stage.outside).read();
        self.enter(Phase::Holding(held));
        match turn.hold {
            Hold::UntilTold => self.gate.notified().await,
            Hold::For(duration) => stage.zk.clock().sleep(duration).await,
            Hold::NotAtAll => {}
        }
        let Phase::Holding(held) = self.enter(Phase::Asking) else { panic!("the guard was taken") };
        if turn.stubborn || !held.is_lost() {
            self.write(&held, exclusive).await;
            // Read before, written now: what a holder does that does not know that it is none any more.
            if exclusive {
                locked(&stage.outside).write(token, outside + 1);
            }
        }
        held
    }

    /// Makes a reader of a writer, or the other way round.
    async fn change(&self, stage: &Stage, held: Held, part: Part) -> (Held, Part) {
        let before = (held.guard().node().to_owned(), held.guard().token().get());
        let (held, changed) = held.change().await;
        match changed {
            Ok(()) => {
                let part = match held {
                    Held::Read(_) => Part::Shared,
                    Held::Write(_) => Part::Exclusive,
                    _ => return (held, part),
                };
                stage.note_claim(part, &held, Some(before));
                (held, part)
            }
            Err(LockError::NotAlone { .. } | LockError::NotHeld { .. } | LockError::SessionOver { .. }) => {
                (held, part)
            }
            // The place of a reader would not be that of the writer any more.
            Err(LockError::CounterLow { .. }) => (held, part),
            Err(LockError::NodeDeleted { .. }) if self.evicted.load(SeqCst) => (held, part),
            Err(error) => panic!("seat {} cannot change what it holds: {error}", self.number),
        }
    }

    /// Enters once more; the first guard that is released does not release the lock.
    async fn reenter(&self, held: Held) -> Held {
        let again = held.guard().reenter();
        assert_eq!((again.token(), again.nodes()), (held.guard().token(), held.guard().nodes()));
        assert_eq!(held.release().await.expect("nothing is asked"), Released::StillHeld);
        Held::Guard(again)
    }

    /// Reads the count and writes the next one, if the lock is held when that arrives. A reader only checks whether
    /// it is.
    async fn write(&self, held: &Held, exclusive: bool) {
        // The outcome of an own write is read after a sync, because another server may lag.
        let synced = self.unsure.load(SeqCst).then(|| self.zk.sync(STORE).send());
        let read = self.zk.get_data(STORE).send();
        if let Some(synced) = synced {
            if synced.await.is_err() {
                return;
            }
        }
        // It may fail with the session, or three connections; then nothing is written.
        let Ok((data, _)) = read.await else { return };
        self.unsure.store(false, SeqCst);
        let data = format!("{} {}", parse(&data).0 + 1, held.guard().token());
        let write = held.guard().fenced();
        let write = if exclusive { write.set_data(STORE, data) } else { write };
        match write.commit().await {
            Ok(_) | Err(LockError::NotHeld { .. } | LockError::SessionOver { .. }) => {}
            Err(LockError::Client(error)) if error.is_retryable() => self.unsure.store(true, SeqCst),
            Err(error) => panic!("a write under the lock: {error}"),
        }
    }
}

fn end_of(released: Option<Result<Released, LockError>>) -> End {
    match released {
        None => End::LeftAlone,
        Some(Ok(released)) => End::Released(released),
        Some(Err(error)) => End::Failed(error),
    }
}

/// What `future` gives if it does so within so many turns of the scheduler; then it is dropped. In each of them it is polled,
/// and everybody else gets a turn, too.
pub async fn within<F: Future>(restless: &AtomicUsize, turns: Option<usize>, future: F) -> Option<F::Output> {
    let Some(mut left) = turns else { return Some(future.await) };
    restless.fetch_add(1, SeqCst);
    let mut future = pin!(future);
    let output = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await;
    restless.fetch_sub(1, SeqCst);
    output
}
