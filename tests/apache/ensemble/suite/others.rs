//! The recipes that hold no lock: tickets, which are done once however often they are asked for, and barriers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::timeout;
use zoolet::Client;
use zoolet::client::ConnectOptions;
use zoolet::recipes::{
    Barrier, BarrierError, DoubleBarrier, TicketDecision, TicketError, TicketTxn, Tickets, WorkError,
};

use super::contender::Stage;
use super::trouble::{Trouble, again};
use super::{MORE, SESSION};

use crate::ensemble::line::Line;

const ACCOUNT: &str = "/account";
const SCOPE: &str = "/tickets";
const DOUBLE: &str = "/double";
const SINGLE: &str = "/single";

pub const TELLERS: usize = 4;
pub const MEMBERS: usize = 3;
/// How long a member waits for others that may have stopped for good.
const LIMIT: Duration = Duration::from_secs(1);

/// How a client reaches the ensemble.
pub struct Way {
    pub connect: String,
    pub line: Option<Line>,
    pub rng: StdRng,
    pub stage: watch::Receiver<Stage>,
}

impl Way {
    async fn client(&self) -> Client {
        let options = ConnectOptions::default().session_timeout(SESSION);
        let connecting = match &self.line {
            Some(line) => options.connect(line.connector()),
            None => options.connect(&self.connect),
        };
        connecting.await.expect("a session")
    }

    /// Makes trouble on the way there until the faults are over.
    fn trouble(&mut self) {
        let Some(line) = self.line.clone() else { return };
        let (mut stage, rng) = (self.stage.clone(), StdRng::from_rng(&mut self.rng));
        tokio::spawn(async move {
            tokio::select! {
                () = line.clone().trouble(rng) => {}
                _ = stage.wait_for(|stage| *stage != Stage::Faults) => line.mend(),
            }
        });
    }

    fn is_over(&self) -> bool {
        *self.stage.borrow() != Stage::Faults
    }
}

pub async fn prepare(zk: &Client) {
    zk.create(ACCOUNT, "0").await.expect("an account");
}

/// What is in the account.
pub async fn balance(zk: &Client) -> usize {
    let (data, _) = zk.get_data(ACCOUNT).await.expect("an account");
    String::from_utf8_lossy(&data).parse().expect("a number")
}

/// Pays one into the account again and again, with a ticket each, and asks for each until it knows that it is done; how
/// many there were.
pub async fn teller(mut way: Way) -> usize {
    way.trouble();
    let mut zk = way.client().await;
    let (mut done, mut left) = (0, MORE);
    while left > 0 {
        left -= usize::from(way.is_over());
        let ticket = Tickets::new(&zk, SCOPE).generate();
        let mut first = true;
        loop {
            let outcome = match Tickets::new(&zk, SCOPE).run(&ticket, "1", pay).await {
                Ok(outcome) => outcome,
                Err(TicketError::SessionOver { .. }) => {
                    zk = way.client().await;
                    continue;
                }
                Err(TicketError::Unknown { .. } | TicketError::Contended { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            assert!(first || !outcome.first_time, "{ticket} was done twice");
            // Sometimes it has forgotten that it knows.
            if !first || way.rng.random_bool(0.7) {
                break;
            }
            first = false;
        }
        done += 1;
    }
    done
}

async fn pay(mut txn: TicketTxn) -> Result<TicketDecision, WorkError> {
    let (data, _) = txn.get_data(ACCOUNT).await?.ok_or("no account")?;
    let balance: usize = std::str::from_utf8(&data)?.parse()?;
    Ok(txn.set_data(ACCOUNT, (balance + 1).to_string()).done("paid"))
}

/// What the members of a barrier have in common.
#[derive(Default)]
pub struct Round {
    /// The znodes of the members that have entered and not begun to leave.
    inside: Mutex<HashMap<usize, String>>,
    /// How many have had enough.
    content: AtomicUsize,
}

/// Enters and leaves a double barrier again and again; how often.
pub async fn member(number: usize, mut way: Way, round: Arc<Round>) -> usize {
    way.trouble();
    let mut zk = way.client().await;
    let (mut rounds, mut left) = (0, MORE);
    while round.content.load(Relaxed) < MEMBERS {
        let over = way.is_over();
        let outcome = step(number, &zk, &round).await;
        match outcome {
            Ok(true) => {
                rounds += 1;
                if over && left > 0 {
                    left -= 1;
                    round.content.fetch_add(usize::from(left == 0), Relaxed);
                }
            }
            Ok(false) => {}
            Err(BarrierError::SessionOver { .. }) => zk = way.client().await,
            Err(BarrierError::Client(error)) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
    rounds
}

/// Whether it was inside.
async fn step(number: usize, zk: &Client, round: &Round) -> Result<bool, BarrierError> {
    let Ok(entered) = timeout(LIMIT, DoubleBarrier::new(zk, DOUBLE, MEMBERS).enter()).await else {
        return Ok(false);
    };
    let inside = entered?;
    let entry = |inside: Option<String>| {
        let mut all = round.inside.lock().expect("no panic under it");
        match inside {
            Some(node) => all.insert(number, node),
            None => all.remove(&number),
        };
        all.clone()
    };
    entry(Some(inside.node().to_owned()));
    tokio::task::yield_now().await;
    let others = entry(None);
    inside.leave().await?;
    for (other, node) in others {
        match again(|| zk.exists(&node)).await {
            Ok(there) => assert!(there.is_none(), "{other} is inside still, which {number} has left"),
            Err(Trouble::Session) => {}
            Err(trouble) => panic!("{trouble:?}"),
        }
    }
    Ok(true)
}

/// What one of them does, and how often it has done it.
pub type Done = (&'static str, usize);

/// Raises a barrier, has others wait at it, and lowers it; how often.
pub async fn gate(mut way: Way) -> usize {
    way.trouble();
    let (mut keeper, mut waiter) = (way.client().await, way.client().await);
    let (mut rounds, mut left) = (0, MORE);
    while left > 0 {
        left -= usize::from(way.is_over());
        let (raised, waiting) = (Barrier::new(&keeper, SINGLE), Barrier::new(&waiter, SINGLE));
        let round = async {
            raised.raise().await?;
            // It is not lowered if the session of its raiser is over: then the other must not keep waiting.
            tokio::try_join!(waiting.wait(), raised.lower()).map(drop)
        };
        match round.await {
            Ok(()) => rounds += 1,
            Err(BarrierError::SessionOver { .. }) => {
                (keeper, waiter) = (way.client().await, way.client().await)
            }
            Err(BarrierError::Client(error)) if error.is_retryable() => {}
            Err(error) => panic!("{error}"),
        }
    }
    // It must not be found raised.
    while Barrier::new(&keeper, SINGLE).lower().await.is_err() {
        keeper = way.client().await;
    }
    rounds
}
