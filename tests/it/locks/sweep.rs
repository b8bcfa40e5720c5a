//! Every fault at every request of every recipe, one after another.

use std::sync::Arc;

use tokio::task::JoinHandle;
use zoolet::LockError;
use zoolet::recipes::Released;
use zoolet::testing::{Action, request};

use crate::locks::contender::{End, Hold, Leave, Seat, Turn};
use crate::locks::recipe::{DIR, OTHER, Recipe, Terms};
use crate::locks::stage::{Phase, Stage, TIMEOUT, millis};

/// More steps than any schedule takes that comes to an end.
const STEPS: usize = 400;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReplyFault {
    Nothing,
    /// This happens to the request.
    Fault(Action),
    /// This happens to the request and to the next one.
    Twice(Action),
    /// This happens to the request, and the session is taken up at an endpoint that has seen nothing since the system was last quiescent,
    /// and then one transaction after another.
    Behind(Action),
    /// The request is executed, and before its reply arrives this is done.
    Applied(ControlAction),
    /// The request is answered, and before the next one is executed this is done.
    Answered(ControlAction),
    /// The reply to the very first is lost; and so much later this is done.
    Retried(ControlAction),
}

/// What the operator does to the victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlAction {
    Disconnect,
    /// It appears to have moved to another server.
    Move,
    Expire,
    /// Its znodes are deleted.
    Evict,
    /// One of its znodes is deleted.
    EvictOne,
    /// The znode in front of its is deleted.
    EvictAhead,
    /// The directory is deleted with all that is in it.
    EvictAll,
    /// Its data is replaced, and that of the znode in front of it.
    Touch,
}

impl ControlAction {
    pub const ALL: [Self; 7] = [
        Self::Disconnect,
        Self::Move,
        Self::Expire,
        Self::Evict,
        Self::EvictAhead,
        Self::EvictAll,
        Self::Touch,
    ];
}

impl ReplyFault {
    /// All that there are.
    pub fn all() -> Vec<Self> {
        let cuts = [Action::DropRequest, Action::Reset, Action::LoseReply, Action::CutReply(10)];
        let late = [Action::DelayRequest(millis(700)), Action::DelayReply(millis(700)), Action::Freeze];
        let faults = cuts.into_iter().chain(late).map(Self::Fault);
        let twice = cuts.into_iter().map(Self::Twice);
        let behind = cuts.into_iter().map(Self::Behind);
        let deeds =
            ControlAction::ALL.into_iter().flat_map(|action| [Self::Applied(action), Self::Answered(action)]);
        let retried =
            [ControlAction::Disconnect, ControlAction::Evict, ControlAction::EvictOne].map(Self::Retried);
        faults.chain(twice).chain(behind).chain(deeds).chain(retried).collect()
    }

    fn action(self) -> Option<ControlAction> {
        match self {
            Self::Applied(action) | Self::Answered(action) | Self::Retried(action) => Some(action),
            _ => None,
        }
    }
}

/// One schedule: a victim, with or without a contender before it and one after it.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    pub recipe: Recipe,
    pub terms: Terms,
    pub ahead: bool,
    pub behind: bool,
    /// Whether the directory is there from the start.
    pub dir: bool,
    /// How many children it has had already.
    pub counter: Option<u32>,
    pub fault: ReplyFault,
    /// Which request of the victim it meets, counted from 1; 0 is before the first.
    pub at: u64,
    /// After how many turns of the scheduler the victim gives up.
    pub patience: Option<usize>,
    pub leave: Leave,
    /// Whether the contender before it releases the lock while the victim acquires.
    pub hasty: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Whether there was such a request.
    pub fired: bool,
    pub victim: End,
}

/// A schedule that is under way.
struct Running {
    sweep: Sweep,
    stage: Arc<Stage>,
    victim: Arc<Seat>,
    front: Option<Arc<Seat>>,
    /// How many requests the victim's session had made before.
    before: usize,
    fired: bool,
    tasks: Vec<(&'static str, JoinHandle<End>)>,
}

impl Sweep {
    pub fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            terms: Terms::default(),
            ahead: false,
            behind: false,
            dir: true,
            counter: None,
            fault: ReplyFault::Nothing,
            at: 0,
            patience: None,
            leave: Leave::Release,
            hasty: false,
        }
    }

    /// Runs it, and sees that all is as it must be.
    pub fn run(self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut running = self.begin().await;
            running.drive().await;
            running.end().await
        })
    }

    async fn begin(self) -> Running {
        let lags = matches!(self.fault, ReplyFault::Behind(_));
        let endpoints = if lags { 2 } else { 1 };
        let stage = Stage::start(self.recipe, self.at, self, endpoints).await;
        if self.dir {
            stage.make_directories(self.counter).await;
        }
        let victim = stage.seat(0).await;
        let terms = Terms { part: self.terms.part, ..Terms::default() };
        let other = |seat: &Arc<Seat>| {
            let turn = Turn { terms, ..Turn::default() };
            tokio::spawn(Arc::clone(seat).take(Arc::clone(&stage), turn))
        };
        let (mut tasks, mut front) = (Vec::new(), None);
        if self.ahead {
            let seat = front.insert(stage.seat(0).await);
            tasks.push(("in front", other(seat)));
            stage.rest().await;
        }
        if lags {
            stage.zk.endpoint(1).expect("two endpoints").lag().await.expect("a server");
        }
        let before = stage.zk.requests(victim.zk.session_id()).len();
        self.place(&stage, &victim);
        let (terms, patience, leave) = (self.terms, self.patience, self.leave);
        let turn = Turn { terms, patience, hold: Hold::UntilTold, stubborn: true, leave, ..Turn::default() };
        if let Some(front) = front.as_ref().filter(|_| self.hasty) {
            front.gate.notify_one();
        }
        tasks.push(("the victim", tokio::spawn(Arc::clone(&victim).take(Arc::clone(&stage), turn))));
        stage.rest().await;
        if self.behind {
            tasks.push(("behind", other(&stage.seat(0).await)));
        }
        Running { sweep: self, stage, victim, front, before, fired: false, tasks }
    }

    /// Places the faults of the fault.
    fn place(&self, stage: &Stage, victim: &Seat) {
        let of_victim = |nth: u64| request().session(victim.zk.session_id()).nth(nth);
        let faults = stage.zk.faults();
        let place = |nth, action| _ = faults.place(of_victim(nth), action).expect("a fault");
        match self.fault {
            ReplyFault::Nothing => {}
            ReplyFault::Fault(action) | ReplyFault::Behind(action) => place(self.at.max(1), action),
            ReplyFault::Twice(action) => {
                place(self.at.max(1), action);
                place(self.at.max(1) + 1, action);
            }
            ReplyFault::Applied(_) => place(self.at.max(1), Action::DelayReply(millis(50))),
            ReplyFault::Answered(_) => place(self.at + 1, Action::Freeze),
            ReplyFault::Retried(_) => {
                place(1, Action::LoseReply);
                place(self.at + 2, Action::Freeze);
            }
        }
    }

    /// How a contender may end.
    fn allows(&self, who: &str, end: &End) -> bool {
        let action = self.fault.action();
        let victim = who == "the victim";
        match end {
            End::Released(Released::Deleted) => true,
            End::Released(Released::AlreadyGone) => victim || action.is_some(),
            End::Released(_) => false,
            End::GivenUp => victim && self.patience.is_some(),
            End::LeftAlone => victim && !matches!(self.leave, Leave::Release),
            End::Busy => self.terms.try_only,
            End::Failed(LockError::SessionOver { .. }) => victim && action == Some(ControlAction::Expire),
            End::Failed(LockError::NodeDeleted { .. }) => match action {
                Some(ControlAction::Evict | ControlAction::EvictOne) => victim,
                Some(ControlAction::EvictAll) => true,
                _ => false,
            },
            End::Failed(_) => false,
        }
    }
}

impl Running {
    async fn drive(&mut self) {
        for _ in 0..STEPS {
            self.stage.rest().await;
            self.inject().await;
            if self.stage.is_quiescent() {
                self.stage.check_quiescent();
            }
            if self.tasks.iter().all(|(_, task)| task.is_finished()) {
                return;
            }
            if !(self.catch_up().await || self.open_a_gate()) {
                let moved = self.stage.next_moment().await;
                assert!(moved, "no timer is pending, but the contenders have not finished");
            }
        }
        panic!("it does not come to an end");
    }

    /// Sees whether the fault has met its request; if somebody is to do something then, it is done.
    async fn inject(&mut self) {
        if self.fired {
            return;
        }
        let session = self.victim.zk.session_id();
        let faults = self.stage.zk.faults();
        let fired = faults.fired().iter().filter(|entry| entry.session == Some(session)).count();
        let met = fired > usize::from(matches!(self.sweep.fault, ReplyFault::Retried(_)));
        let done = self.stage.zk.requests(session).len() - self.before;
        let waits = matches!(self.sweep.fault, ReplyFault::Answered(_)) && done as u64 == self.sweep.at;
        self.fired = met || waits;
        let (true, Some(action)) = (self.fired, self.sweep.fault.action()) else { return };
        faults.clear();
        self.act(action).await;
        if met && matches!(self.sweep.fault, ReplyFault::Answered(_) | ReplyFault::Retried(_)) {
            // It may be closed, and what was frozen with it gone.
            let _ = self.stage.zk.unfreeze(session).await;
        }
        self.stage.rest().await;
    }

    async fn act(&self, action: ControlAction) {
        let (zk, session) = (&self.stage.zk, self.victim.zk.session_id());
        // A contender without znode and connection has nothing to lose.
        match action {
            ControlAction::Disconnect => _ = zk.disconnect(session).await,
            ControlAction::Move => self.stage.move_session(session).await,
            ControlAction::Expire => zk.expire_session(session).await.expect("a session that exists"),
            ControlAction::Evict => {
                for node in self.nodes_of(&self.victim) {
                    self.stage.evict(&node).await;
                }
            }
            ControlAction::EvictOne => {
                if let Some(node) = self.nodes_of(&self.victim).first() {
                    self.stage.evict(node).await;
                }
            }
            ControlAction::EvictAhead => {
                for node in self.front.iter().flat_map(|front| self.nodes_of(front)) {
                    self.stage.evict(&node).await;
                }
            }
            ControlAction::EvictAll => {
                self.stage.evict(DIR).await;
                self.stage.evict(OTHER).await;
            }
            ControlAction::Touch => {
                let front = self.front.iter().flat_map(|front| self.nodes_of(front));
                for node in front.chain(self.nodes_of(&self.victim)) {
                    self.stage.touch(&node).await;
                }
            }
        }
    }

    fn nodes_of(&self, seat: &Seat) -> Vec<String> {
        let sessions = self.stage.zk.sessions();
        let of_it = sessions.into_iter().filter(|session| session.id == seat.zk.session_id());
        of_it.flat_map(|session| session.ephemerals).collect()
    }

    /// Lets the lagging endpoint catch up: completely until the fault, then one transaction at a time.
    async fn catch_up(&self) -> bool {
        if !matches!(self.sweep.fault, ReplyFault::Behind(_)) {
            return false;
        }
        let endpoint = self.stage.zk.endpoint(1).expect("two endpoints");
        endpoint.apply_next(if self.fired { 1 } else { usize::MAX }).await.expect("a server") > 0
    }

    /// Lets a contender that idles with the lock continue.
    fn open_a_gate(&self) -> bool {
        let seats = self.stage.seats();
        let resting = seats.iter().find(|seat| matches!(*seat.phase(), Phase::Holding(_)));
        if let Some(seat) = resting {
            seat.gate.notify_one();
        }
        resting.is_some()
    }

    async fn end(mut self) -> Outcome {
        let mut victim = None;
        for (who, task) in std::mem::take(&mut self.tasks) {
            let end = task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            assert!(self.sweep.allows(who, &end), "the end of {who}: {end:?}");
            if who == "the victim" {
                victim = Some(end);
            }
        }
        let zk = &self.stage.zk;
        zk.faults().clear();
        let _ = zk.unfreeze_all().await;
        for endpoint in 0..zk.endpoints() {
            zk.endpoint(endpoint).expect("an endpoint").catch_up().await.expect("a server");
        }
        self.stage.rest().await;
        if !self.stage.is_quiescent() {
            // A client that waits for a connection reconnects.
            zk.advance(2 * TIMEOUT).await.expect("time passes");
            assert!(self.stage.is_quiescent(), "all clients are connected");
        }
        self.stage.check_quiescent();
        self.stage.check_nothing_left();
        self.stage.judge();
        Outcome { fired: self.fired, victim: victim.expect("a victim") }
    }
}
