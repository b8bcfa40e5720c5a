//! Power lost at every step of the disk of a durable server that is used by the same clients. The disk is copied before each step
//! of a run, and each copy loses its power, several times and each time in another way. Then a server starts on it:
//!
//! - it knows every transaction that a client had seen by then, and no half of one: its tree and its sessions are those after
//!   the last transaction that it knows;
//! - its clients go on: they resume their sessions, and what they saw and see keeps every rule of the checker.
//!
//! `ZOOLET_SCHEDULES` and `ZOOLET_SEED` as for the other random tests; `ZOOLET_LOSSES` is how often each copy loses its power.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolet::server::extension::ServerHandle;
use zoolet::server::{Server, StorageOptions, Txn, TxnOp};
use zoolet::testing::{
    Conn, DiskExt as _, FixtureExt as _, History, HistoryEntry, HistoryEvent, SimulatedDisk,
};
use zoolet::{Client, SessionId};
use zoolet_proto::Zxid;
use zoolet_test_support::{Dice, Hello, Wire, password_of};

use crate::random::crashes::storage;
use crate::random::host::{Hook, Host};
use crate::random::rough::Way;
use crate::random::{
    Manner, START, all_end, clients, each_seed, faults, judge, number, read_back, run, settings, settings_at,
};

/// How many runs there are by default, and how often the disk of each step loses its power.
const SCHEDULES: u64 = 4;
const LOSSES: u64 = 3;
/// Of so many crashes one is looked at in full.
const FULL: u64 = 20;

#[test]
#[allow(clippy::print_stdout, reason = "how much it has shown")]
fn power_lost_at_any_step_of_the_disk_takes_nothing_that_a_client_has_seen() {
    let losses = number("ZOOLET_LOSSES").unwrap_or(LOSSES);
    let (mut schedules, mut points, mut lossy) = (0, 0, 0);
    each_seed(SCHEDULES, |seed| {
        let story = run(Story::record(seed))?;
        schedules += 1;
        for (step, disk) in &story.disks {
            // First the process is killed, which loses nothing that was written.
            let mut written = Zxid(0);
            for nth in 0..=losses {
                let disk = if nth == 0 { disk.fork().kill() } else { disk.fork().power_loss(points + nth) };
                let found = run(story.start_on(*step, &disk, (points + nth) % FULL == 0));
                let found =
                    found.map_err(|why| format!("step {step}, loss {nth}: {why}\n{}", disk.tree()))?;
                written = written.max(found);
                lossy += u64::from(found < written);
            }
            points += losses + 1;
        }
        Ok(())
    });
    println!("{points} crashes, {lossy} of which took transactions that were written");
    // One schedule may be short.
    let many = schedules == 1 || points >= 500 * schedules;
    assert!(many && lossy > points / 50, "{points}, {lossy}: they show little");
}

/// A run of a server, and what it has left.
struct Story {
    storage: StorageOptions,
    /// The disk before each step.
    disks: Vec<(u64, SimulatedDisk)>,
    entries: Vec<HistoryEntry>,
    /// For each entry, how many steps there were before it, and the last transaction that was seen by then.
    known: Vec<(u64, Zxid)>,
    txns: Vec<Txn>,
    /// After each transaction, beginning with none, the sessions and the digest.
    states: Vec<(BTreeSet<SessionId>, Option<u64>)>,
}

impl Story {
    async fn record(seed: u64) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let storage = storage(&mut dice);
        let settings = settings().container_check_interval(Duration::from_secs(2)).storage(storage.clone());
        let (disk, history) = (SimulatedDisk::new(seed), History::new());
        disk.keep_history();
        // At each moment at which a client reads or writes, the steps and entries before it.
        let moments = Arc::new(Mutex::new(Vec::new()));
        let hook: Hook = {
            let (disk, history, moments) = (disk.clone(), history.clone(), Arc::clone(&moments));
            Arc::new(move || moments.lock().expect("no panic").push((disk.steps(), history.len())))
        };
        let host = Host::new(settings, disk.clone(), hook);
        host.start().await.map_err(|error| error.to_string())?;
        let here = host.clone();
        let way = |dice| {
            let here = here.clone();
            Way::new(move || here.connect(), dice, Manner::Wild)
        };
        let clients = clients(&history, &mut dice, Manner::Wild, way);
        let here = host.clone();
        let usual = tokio::spawn(faults::run(move || here.fixture(), dice.fork()));
        all_end(clients).await?;
        usual.abort();
        _ = usual.await;
        let (entries, txns) = (history.entries(), host.transactions());
        let known = known(&entries, &moments.lock().expect("no panic"));
        let states = states(&txns);
        Ok(Self { storage, disks: disk.take_history(), entries, known, txns, states })
    }

    /// Starts a server on a disk that crashed before a step, and looks at what it finds, or `in_full`. Returns the last
    /// transaction that it knows.
    async fn start_on(&self, step: u64, disk: &SimulatedDisk, in_full: bool) -> Result<Zxid, String> {
        // Later than all that has happened.
        let settings = settings_at(START + Duration::from_secs(7200)).storage(self.storage.clone());
        let server = settings.simulated_disk(disk).start().await;
        let server = server.map_err(|error| error.to_string())?;
        let entries = &self.entries[..self.known.partition_point(|(steps, _)| *steps < step)];
        let seen = entries.len().checked_sub(1).map_or(Zxid(0), |last| self.known[last].1);
        let last = server.initial_zxid();
        if last < seen {
            return Err(format!("a client has seen {seen}, and the server knows no more than {last}"));
        }
        let txns = &self.txns[..self.txns.partition_point(|txn| txn.zxid <= last)];
        self.check_state(&server, entries, txns)?;
        if in_full {
            go_on(&server, entries, txns, &self.states[txns.len()].0, seen).await?;
        }
        Ok(last)
    }

    /// Compares sessions and tree with those after these transactions.
    fn check_state(&self, server: &Server, entries: &[HistoryEntry], txns: &[Txn]) -> Result<(), String> {
        let (sessions, digest) = &self.states[txns.len()];
        let found: BTreeSet<SessionId> =
            server.fixture().sessions().iter().map(|session| session.id).collect();
        if found != *sessions {
            return Err(format!("the sessions are {found:?}, not {sessions:?}"));
        }
        let created: BTreeSet<SessionId> = txns.iter().filter_map(created).collect();
        if let Some(session) = entries.iter().filter_map(granted).find(|session| !created.contains(session)) {
            return Err(format!("session {session} was granted, and the server does not know it"));
        }
        let found = ServerHandle::of(server).look(|bus| bus.core().tree().digest());
        match digest {
            Some(_) if found != *digest => Err(format!("the digest is {found:?}, not {digest:?}")),
            _ => Ok(()),
        }
    }
}

/// Lets the clients of these sessions go on, and another one read everything, and checks what was seen before and after.
async fn go_on(
    server: &Server,
    entries: &[HistoryEntry],
    txns: &[Txn],
    sessions: &BTreeSet<SessionId>,
    seen: Zxid,
) -> Result<(), String> {
    for session in sessions {
        let stream = server.in_process()().into_inner().map_err(|error| error.to_string())?;
        let hello = Hello::new().session(*session).password(&password_of(*session)).has_seen(seen.0);
        let welcome = Wire::over(stream).hello(hello).await;
        if welcome.session != *session {
            return Err(format!("session {session} cannot be resumed"));
        }
    }
    let history = History::new();
    let zk = Client::connect(history.tap(server.in_process())).await.map_err(|error| error.to_string())?;
    zk.create("/after", "").await.map_err(|error| error.to_string())?;
    let read = read_back(zk).await;
    let txns: Vec<Txn> = txns.iter().cloned().chain(server.fixture().transactions()).collect();
    judge(Some(&txns), &joined(entries, history.entries()), &read)
}

/// The entries of two histories, the second of which began when the first had ended.
fn joined(first: &[HistoryEntry], second: Vec<HistoryEntry>) -> Vec<HistoryEntry> {
    let conns = first.iter().map(|entry| entry.conn.0 + 1).max().unwrap_or(0);
    let end = first.last().map_or(0, |entry| entry.at);
    let later = |HistoryEntry { at, conn: Conn(conn), event }| HistoryEntry {
        at: at + end,
        conn: Conn(conn + conns),
        event,
    };
    first.iter().cloned().chain(second.into_iter().map(later)).collect()
}

/// For each entry, the steps before it, and the last transaction that was seen until then.
fn known(entries: &[HistoryEntry], moments: &[(u64, usize)]) -> Vec<(u64, Zxid)> {
    let mut seen = Zxid(0);
    let mut moments = moments.iter().peekable();
    let mut steps = 0;
    let entries = entries.iter().enumerate();
    let known = entries.map(|(at, entry)| {
        while let Some((step, _)) = moments.next_if(|(_, before)| *before <= at) {
            steps = *step;
        }
        seen = seen.max(shown(entry));
        (steps, seen)
    });
    known.collect()
}

/// The transaction that an entry shows.
fn shown(entry: &HistoryEntry) -> Zxid {
    match &entry.event {
        HistoryEvent::Reply(header, _) => header.zxid,
        HistoryEvent::Event(zxid, _) => *zxid,
        _ => Zxid(0),
    }
}

fn granted(entry: &HistoryEntry) -> Option<SessionId> {
    match entry.event {
        HistoryEvent::ConnectResponse { session } => Some(session).filter(|session| session.0 != 0),
        _ => None,
    }
}

fn created(txn: &Txn) -> Option<SessionId> {
    matches!(txn.op, TxnOp::CreateSession { .. }).then_some(txn.session)
}

/// The sessions and the digest after each transaction, beginning with none.
fn states(txns: &[Txn]) -> Vec<(BTreeSet<SessionId>, Option<u64>)> {
    let mut states = vec![(BTreeSet::new(), None)];
    for txn in txns {
        let (mut sessions, mut digest) = states.last().cloned().unwrap_or_default();
        match txn.op {
            TxnOp::CreateSession { .. } => _ = sessions.insert(txn.session),
            TxnOp::CloseSession { .. } => _ = sessions.remove(&txn.session),
            _ => {}
        }
        digest = txn.digest.or(digest);
        states.push((sessions, digest));
    }
    states
}
