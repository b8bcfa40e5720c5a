//! [`HistoryCheck`]: concurrent clients whose connections are cut, and a check of what they saw.
//!
//! Clients write values that nobody else writes, read, and list, through a proxy that cuts their connections. Their calls
//! and outcomes, in the order of one clock, are the history, which is compared with the rules of ZooKeeper.

mod check;
mod client;
mod cutter;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::catalogue::run::Runner;
use crate::error::RunError;
use crate::history::verdict::{CheckError, Undecided};
use client::Client;
use cutter::Cutter;

/// Concurrent clients of a server, or of an ensemble.
#[derive(Debug, Clone)]
pub struct HistoryCheck {
    /// The servers as HOST:PORT. Of one, every read has to be up to date; of several, that after a sync.
    pub servers: Vec<String>,
    /// How many clients there are.
    pub clients: usize,
    /// How long they go on.
    pub duration: Duration,
    /// What their requests and the cuts are drawn from.
    pub seed: u64,
}

/// The figures of a check, and what it says.
#[derive(Debug, Clone)]
pub struct HistoryReport {
    /// How many operations were answered.
    pub answered: usize,
    /// How many were not, because their connection was cut.
    pub unanswered: usize,
    /// How many connections were cut.
    pub cuts: u64,
    /// The first broken rule, or why too little was done to tell. A rule that is broken is broken all the same.
    pub checked: Result<(), CheckError>,
}

/// The operations of all clients.
#[derive(Default)]
struct Log {
    now: AtomicU64,
    operations: Mutex<Vec<RegisterOp>>,
    /// What has first kept clients from working that no server is to blame for.
    hindrance: Mutex<Option<String>>,
}

impl Log {
    /// A time that is later than all before.
    fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, operation: RegisterOp) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }

    fn hinder(&self, what: String) {
        self.hindrance.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    fn take(&self) -> Vec<RegisterOp> {
        std::mem::take(&mut self.operations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call of a client, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegisterOp {
    client: usize,
    /// Its session, counted per client.
    session: usize,
    began: u64,
    /// When the reply was there.
    ended: u64,
    call: Call,
    /// None if there was no reply.
    outcome: Option<CallOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    /// Writes a value to a register, if it has the version.
    Set {
        register: usize,
        value: String,
        version: i32,
    },
    /// Reads a register, after a sync or without.
    Get {
        register: usize,
        synced: bool,
    },
    Create {
        name: String,
    },
    Delete {
        name: String,
    },
    /// Lists what is created and deleted.
    List {
        synced: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CallOutcome {
    /// The register after the write or at the read.
    State(Register),
    Names(Vec<String>),
    /// Created or deleted.
    Done,
    /// The version was another.
    Refused,
    /// There was no such znode.
    Missing,
}

/// A register.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Register {
    value: String,
    /// The zxid of its last write.
    mzxid: i64,
    version: i32,
}

impl HistoryCheck {
    /// Runs the clients, and checks what they saw. The runner is of one of the servers: [`Runner::finish`] removes what they
    /// have left, also if this is dropped before it is done.
    ///
    /// # Errors
    /// If a server cannot be reached at the begin or the end, does not answer as a ZooKeeper does, or refuses a znode.
    pub async fn run(&self, runner: &Runner) -> Result<HistoryReport, RunError> {
        let mut owner = runner.owner().await?;
        let root = runner.subtree("history");
        runner.create(&mut owner, &root).await?;
        for name in client::znodes(&root) {
            runner.create(&mut owner, &name).await?;
        }
        runner.end(&mut owner).await;
        let log = Arc::new(Log::default());
        let proxies = self.proxies(runner, &log).await?;
        let until = Instant::now() + self.duration;
        let mut running = JoinSet::new();
        for number in 0..self.clients {
            let addresses = proxies.iter().map(|proxy| proxy.address()).collect();
            running.spawn(Client::new(self, number, addresses, &root, runner.limit, &log).run(until));
        }
        while running.join_next().await.is_some() {}
        // What was written is still there: of every server, without a proxy.
        for (at, server) in self.servers.iter().enumerate() {
            let (last, number) = (vec![server.clone()], self.clients + at);
            if !Client::new(self, number, last, &root, runner.limit, &log).read_all().await {
                return Err(runner.fail(&format!("{server} does not answer at the end")));
            }
        }
        let cuts = proxies.iter().map(Cutter::cuts).sum();
        drop(proxies);
        let hindrance = log.hindrance.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(self.judge(&log.take(), cuts, hindrance))
    }

    fn judge(&self, operations: &[RegisterOp], cuts: u64, hindrance: Option<String>) -> HistoryReport {
        let answered = operations.iter().filter(|operation| operation.outcome.is_some()).count();
        let checked = check::check(operations, self.is_ensemble());
        let checked = checked.and_then(|()| match hindrance.or_else(|| self.missing(operations)) {
            Some(why) => Err(Undecided::TooLittle(why).into()),
            None => Ok(()),
        });
        HistoryReport { answered, unanswered: operations.len() - answered, cuts, checked }
    }

    /// What was not done that a verdict needs.
    fn missing(&self, operations: &[RegisterOp]) -> Option<String> {
        let by_clients = || operations.iter().filter(|operation| operation.client < self.clients);
        let idle = (0..self.clients).find(|client| {
            !by_clients().any(|operation| operation.client == *client && operation.outcome.is_some())
        });
        if let Some(client) = idle {
            return Some(format!("client {client} got no answer"));
        }
        // The only calls with such an outcome are reads and writes of registers.
        let is_done = |operation: &&RegisterOp| matches!(operation.outcome, Some(CallOutcome::State(_)));
        let is_write = |operation: &RegisterOp| matches!(operation.call, Call::Set { .. });
        if !by_clients().filter(is_done).any(is_write) {
            return Some("no write was acknowledged".to_owned());
        }
        if by_clients().filter(is_done).all(is_write) {
            return Some("no read was answered".to_owned());
        }
        None
    }

    fn is_ensemble(&self) -> bool {
        self.servers.len() > 1
    }

    async fn proxies(&self, runner: &Runner, log: &Arc<Log>) -> Result<Vec<Cutter>, RunError> {
        let mut proxies = Vec::new();
        for server in &self.servers {
            let proxy = Cutter::start(server.clone(), self.seed, Arc::clone(log)).await;
            proxies.push(proxy.map_err(|error| runner.fail(&format!("cannot listen for clients: {error}")))?);
        }
        Ok(proxies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client has seen of register 0, one operation after the other.
    fn operation(at: u64, client: usize, call: Call, outcome: Option<CallOutcome>) -> RegisterOp {
        RegisterOp { client, session: 1, began: 2 * at, ended: 2 * at + 1, call, outcome }
    }

    fn set(at: u64, client: usize, value: &str) -> RegisterOp {
        let call = Call::Set { register: 0, value: value.to_owned(), version: -1 };
        let (value, mzxid) = (value.to_owned(), at as i64 + 1);
        operation(
            at,
            client,
            call,
            Some(CallOutcome::State(Register { value, mzxid, version: at as i32 + 1 })),
        )
    }

    fn get(at: u64, client: usize, outcome: Option<CallOutcome>) -> RegisterOp {
        operation(at, client, Call::Get { register: 0, synced: false }, outcome)
    }

    fn judged(servers: usize, operations: &[RegisterOp], hindrance: Option<&str>) -> HistoryReport {
        let servers = vec!["127.0.0.1:1".to_owned(); servers];
        let check = HistoryCheck { servers, clients: 2, duration: Duration::ZERO, seed: 1 };
        check.judge(operations, 0, hindrance.map(str::to_owned))
    }

    fn old() -> Option<CallOutcome> {
        Some(CallOutcome::State(Register { value: String::new(), mzxid: 0, version: 0 }))
    }

    #[test]
    fn a_read_of_another_client_may_be_old_in_an_ensemble_and_not_of_a_single_server() {
        let operations = [set(0, 0, "a"), get(1, 1, old())];
        assert!(matches!(judged(1, &operations, None).checked, Err(CheckError::Violation(_))));
        assert_eq!(judged(2, &operations, None).checked, Ok(()));
    }

    #[test]
    fn each_client_a_write_and_a_read_are_needed_for_a_verdict() {
        let (write, read) = (set(0, 0, "a"), get(1, 0, None));
        let why = |report: HistoryReport| match report.checked {
            Err(CheckError::Undecided(Undecided::TooLittle(why))) => Some(why),
            checked => checked.map(|()| None).expect("no violation"),
        };
        let undecided = |operations: &[RegisterOp]| why(judged(1, operations, None));
        assert_eq!(undecided(&[]), Some("client 0 got no answer".to_owned()));
        assert_eq!(undecided(&[write.clone(), read.clone()]), Some("client 1 got no answer".to_owned()));
        assert_eq!(undecided(&[write.clone(), set(1, 1, "b")]), Some("no read was answered".to_owned()));
        assert_eq!(
            undecided(&[get(0, 0, old()), get(1, 1, old())]),
            Some("no write was acknowledged".to_owned())
        );
        // What is read in the end, past the clients, is not their work.
        let state = Some(CallOutcome::State(Register { value: "a".to_owned(), mzxid: 1, version: 1 }));
        assert!(undecided(&[write.clone(), get(1, 2, state.clone())]).is_some());
        let enough = [write, get(1, 1, state)];
        assert_eq!(undecided(&enough), None);
        let hindered = judged(1, &enough, Some("too many open files"));
        assert_eq!((hindered.answered, hindered.unanswered), (2, 0));
        assert_eq!(why(hindered), Some("too many open files".to_owned()));
    }
}
