//! Random schedules: three programs that keep one znode, an operator, and everything that can go wrong.
//!
//! `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.

use std::time::Duration;

use zoolet::recipes::KeepState;
use zoolet::server::TxnOp;
use zoolet::testing::{Action, TestServer, request};
use zoolet::{KeepNode, SessionId, Sessions};
use zoolet_test_support::Dice;

use super::{PATH, parts_of};
use crate::common::test_server;

const SCHEDULES: u64 = 60;
const STEPS: usize = 40;

/// A program: its sessions, and the znode while it keeps it.
struct Program {
    sessions: Sessions,
    keep: Option<KeepNode>,
}

struct Schedule {
    zk: TestServer,
    dice: Dice,
    programs: Vec<Program>,
    /// Counts the data, so that each is written once.
    written: usize,
}

#[allow(clippy::print_stdout, reason = "how much it has shown")]
#[tokio::test]
async fn random_schedules_never_touch_a_foreign_znode_and_end_with_ours() {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")),
        Err(_) => default,
    };
    let (first, schedules) = (number("ZOOLET_SEED", 1), number("ZOOLET_SCHEDULES", SCHEDULES));
    let (mut faults, mut writes) = (0, 0);
    for seed in first..first.wrapping_add(schedules) {
        // The report of a test server that is dropped in a panic prints its seed.
        let zk = test_server().seed(seed).start().await.unwrap();
        let programs = (0..3)
            .map(|_| Program { sessions: Sessions::open(zk.options(), zk.connector()).unwrap(), keep: None });
        let programs = programs.collect();
        let mut schedule = Schedule { zk, dice: Dice::new(seed), programs, written: 0 };
        schedule.run().await;
        schedule.end().await;
        faults += schedule.zk.faults().fired().iter().filter(|entry| entry.event.is_fault()).count();
        writes += schedule.check();
    }
    println!("{schedules} schedules from seed {first}: {faults} faults");
    assert!(faults as u64 > schedules && writes as u64 > schedules, "{faults} faults, {writes} writes");
}

impl Schedule {
    async fn run(&mut self) {
        for fault in [Action::DropRequest, Action::LoseReply, Action::CutReply(7)] {
            self.zk.faults().place(request().probability(0.02), fault).unwrap();
        }
        for _ in 0..STEPS {
            self.step().await;
            self.zk.wait_until_idle().await.unwrap();
        }
        self.zk.faults().clear();
        self.zk.accept_connections();
    }

    async fn step(&mut self) {
        let which = self.dice.below(self.programs.len());
        self.written += 1;
        let data = format!("{which}-{}", self.written);
        let program = &mut self.programs[which];
        match self.dice.below(12) {
            0..3 => match &program.keep {
                None => {
                    let keep = KeepNode::builder(&program.sessions, PATH).data(data);
                    program.keep = Some(keep.start().unwrap());
                }
                Some(keep) => drop(keep.update(data)),
            },
            3 => drop(program.keep.take()),
            4 | 5 => {
                let session = program.sessions.state().session;
                let _ = self.zk.disconnect(session).await;
            }
            6 => {
                let session = program.sessions.state().session;
                let _ = self.zk.expire_session(session).await;
            }
            // The operator.
            7 => _ = self.zk.delete(PATH).await,
            8 if self.zk.get(PATH).is_some() => self.zk.set(PATH, "operator").await.unwrap(),
            9 => self.zk.refuse_connections(),
            10 => self.zk.accept_connections(),
            _ => {
                let millis = self.dice.below(4_000) as u64;
                self.zk.advance(Duration::from_millis(millis)).await.unwrap();
            }
        }
    }

    /// Once nothing goes wrong any more, one program that keeps it has it.
    async fn end(&mut self) {
        for program in &mut self.programs[1..] {
            if let Some(keep) = program.keep.take() {
                self.zk.pass_time_until(keep.close()).await.unwrap().unwrap();
            }
        }
        let first = &mut self.programs[0];
        let keep = first.keep.take();
        let keep = keep.unwrap_or_else(|| KeepNode::builder(&first.sessions, PATH).start().unwrap());
        self.zk.pass_time_until(keep.update("last")).await.unwrap().unwrap();
        self.zk.pass_time_until(keep.present()).await.unwrap().unwrap();
        let node = self.zk.get(PATH).unwrap();
        let session = first.sessions.state().session;
        assert_eq!((node.text(), node.stat.ephemeral_owner), ("last", session));
        assert!(matches!(keep.state(), KeepState::Present { czxid, .. } if czxid == node.stat.czxid));
        self.zk.pass_time_until(keep.close()).await.unwrap().unwrap();
        assert!(self.zk.get(PATH).is_none());
    }

    /// Only its owner has changed and deleted a znode, besides the operator. Returns the number of writes.
    fn check(&self) -> usize {
        let operator = self.zk.transactions().iter().find_map(|txn| match &txn.op {
            TxnOp::SetData { data, .. } if data.as_deref() == Some(b"operator") => Some(txn.session),
            _ => None,
        });
        let (mut owner, mut writes) = (SessionId(0), 0);
        for txn in self.zk.transactions() {
            let by = txn.session;
            for part in parts_of(txn.op) {
                match part {
                    TxnOp::Create { path, owner: created, .. } if &*path == PATH => {
                        owner = created.as_session().unwrap_or_default();
                        assert_eq!(owner, by);
                    }
                    TxnOp::SetData { path, data, .. } if &*path == PATH => {
                        let is_operator = data.as_deref() == Some(b"operator") || Some(by) == operator;
                        assert!(by == owner || is_operator, "{by} has set the data of {owner}");
                    }
                    TxnOp::Delete { path } if &*path == PATH => {
                        assert!(by == owner || self.is_operator(by), "{by} has deleted the znode of {owner}");
                    }
                    _ => continue,
                }
                writes += 1;
            }
        }
        writes
    }

    /// Whether a session is not one of the programs'.
    fn is_operator(&self, session: SessionId) -> bool {
        !self.zk.transactions().iter().any(|txn| {
            txn.session == session
                && parts_of(txn.op.clone())
                    .iter()
                    .any(|part| matches!(part, TxnOp::Create { path, .. } if path.starts_with("/services")))
        })
    }
}
