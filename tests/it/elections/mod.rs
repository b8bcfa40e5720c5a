//! Elections over sessions: at every request the connection breaks or the session expires, and no two works have one token.

mod faults;
mod loss;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use zoolet::recipes::Acquire;
use zoolet::testing::TestServer;
use zoolet::{Client, Election, Leadership, LockError, SessionId, Sessions};
use zoolet_test_support::secs;

use crate::common::test_server;

const DIR: &str = "/election";
/// What leaders write.
const PLAN: &str = "/plan";

/// What the works of all candidates did, in order.
#[derive(Debug, Clone, Default)]
struct Worklog(Arc<Mutex<Vec<WorkEvent>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum WorkEvent {
    Began {
        who: &'static str,
        token: u64,
        session: SessionId,
    },
    /// It came to its end, or was dropped.
    Ended {
        who: &'static str,
        token: u64,
    },
}

/// A work that is running.
struct Running {
    log: Worklog,
    who: &'static str,
    token: u64,
}

impl Worklog {
    fn begin(&self, who: &'static str, leadership: &Leadership) -> Running {
        let (token, session) = (leadership.token().get(), leadership.session_id());
        self.push(WorkEvent::Began { who, token, session });
        Running { log: self.clone(), who, token }
    }

    fn push(&self, event: WorkEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    fn events(&self) -> Vec<WorkEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tokens with which a candidate has begun, in order.
    fn tokens(&self, who: &str) -> Vec<u64> {
        let events = self.events();
        let began = events.iter().filter_map(|event| match event {
            WorkEvent::Began { who: other, token, .. } if *other == who => Some(*token),
            _ => None,
        });
        began.collect()
    }

    /// Who works now.
    fn running(&self) -> Vec<&'static str> {
        let mut running = Vec::new();
        for event in self.events() {
            match event {
                WorkEvent::Began { who, .. } => running.push(who),
                WorkEvent::Ended { who, .. } => running.retain(|other| *other != who),
            }
        }
        running
    }

    /// Nobody worked twice at once or twice under one token. Nobody worked beside another one either, unless sessions have ended
    /// without their clients knowing.
    #[track_caller]
    fn check(&self, apart: bool, case: &str) {
        let (mut running, mut highest) = (Vec::new(), 0);
        for event in self.events() {
            match event {
                WorkEvent::Began { who, token, .. } => {
                    assert!(!running.contains(&who), "{case}: {who} began before it had ended");
                    assert!(running.is_empty() || !apart, "{case}: {who} began beside {running:?}");
                    assert!(token > highest, "{case}: {who} began with {token} after {highest}");
                    (highest, _) = (token, running.push(who));
                }
                WorkEvent::Ended { who, .. } => running.retain(|other| *other != who),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.log.push(WorkEvent::Ended { who: self.who, token: self.token });
    }
}

struct World {
    zk: TestServer,
    log: Worklog,
}

impl World {
    async fn start() -> Self {
        let zk = test_server().znode(PLAN, "").start().await.unwrap();
        Self { zk, log: Worklog::default() }
    }

    fn sessions(&self) -> Sessions {
        Sessions::open(self.zk.options(), self.zk.connector()).unwrap()
    }

    /// Lets time pass until then.
    async fn time<F: IntoFuture>(&self, future: F) -> F::Output {
        self.zk.pass_time_until(future).await.unwrap()
    }

    /// Leads `turns` times, each time for a while, with one write; returns the last token.
    fn candidate(
        &self,
        sessions: &Sessions,
        who: &'static str,
        turns: usize,
    ) -> JoinHandle<Result<u64, LockError>> {
        let (sessions, log, clock) = (sessions.clone(), self.log.clone(), self.zk.clock().clone());
        let mut led = 0;
        let work = move |leadership: Leadership| {
            let (log, clock) = (log.clone(), clock.clone());
            // Counted when the work ends, because one that is dropped has not been done.
            let begun = log.begin(who, &leadership);
            led += 1;
            let last = led >= turns;
            async move {
                let _running = begun;
                let token = leadership.token().get();
                let wrote = leadership.fenced().set_data(PLAN, token.to_string()).commit().await;
                clock.sleep(Duration::from_millis(300)).await;
                if last && wrote.is_ok() { ControlFlow::Break(token) } else { ControlFlow::Continue(()) }
            }
        };
        tokio::spawn(async move { Election::run(&sessions, campaign(who), work).await })
    }

    /// Leads until it is aborted.
    fn leader(&self, sessions: &Sessions, who: &'static str) -> JoinHandle<Result<(), LockError>> {
        self.leader_with(sessions, who, campaign(who))
    }

    fn leader_with(
        &self,
        sessions: &Sessions,
        who: &'static str,
        campaign: impl Fn(&Client) -> Acquire<Leadership> + Send + Sync + 'static,
    ) -> JoinHandle<Result<(), LockError>> {
        let (sessions, log) = (sessions.clone(), self.log.clone());
        let work = move |leadership: Leadership| {
            let running = log.begin(who, &leadership);
            async move {
                let _running = running;
                std::future::pending().await
            }
        };
        tokio::spawn(async move { Election::run(&sessions, campaign, work).await })
    }

    /// Lets time pass until somebody works.
    async fn until_works(&self, who: &str) {
        for _ in 0..200 {
            self.zk.wait_until_idle().await.unwrap();
            if self.log.running().contains(&who) {
                return;
            }
            self.zk.advance(Duration::from_millis(100)).await.unwrap();
        }
        panic!("{who} does not lead: {:?}", self.log.events());
    }

    /// Nothing is left in the directory once everybody is gone.
    async fn check_empty(&self, case: &str) {
        self.zk.advance(secs(1)).await.unwrap();
        assert_eq!(self.zk.children(DIR), Vec::<String>::new(), "{case}");
    }
}

fn campaign(who: &'static str) -> impl Fn(&Client) -> Acquire<Leadership> + Clone + Send + Sync + 'static {
    move |zk| Election::new(zk, DIR).campaign(who)
}

async fn session_of(sessions: &Sessions) -> SessionId {
    sessions.client().await.unwrap().session_id()
}
