//! A bank under seeded random faults: its balances are always those of the transfers executed one by one.

use std::time::Duration;
use zoolet::testing::FixtureExt as _;

use zoolet::recipes::{Ticket, TicketDecision, TicketError, TicketOutcome, TicketTxn, Tickets, WorkError};
use zoolet::testing::{TestServer, connection, request};
use zoolet::{Client, SessionState};
use zoolet_test_support::Dice;

use crate::common::test_server;
use crate::tickets::drawn_ago;

const SCOPE: &str = "/idem/transfers";
const ACCOUNTS: [&str; 3] = ["/accounts/ann", "/accounts/bob", "/accounts/cay"];
const OPENING: u64 = 100;

/// What is older is collected.
const AGE: Duration = Duration::from_secs(900);

/// How many schedules run by default.
const SCHEDULES: u64 = 200;

#[derive(Debug, Clone, Copy)]
struct Transfer {
    ticket: Ticket,
    from: usize,
    to: usize,
    amount: u64,
}

impl Transfer {
    fn params(&self) -> String {
        format!("{} from {} to {}", self.amount, ACCOUNTS[self.from], ACCOUNTS[self.to])
    }

    async fn work(self, mut txn: TicketTxn) -> Result<TicketDecision, WorkError> {
        let (from, to) = (ACCOUNTS[self.from], ACCOUNTS[self.to]);
        let mut balances = [0; 2];
        for (balance, account) in balances.iter_mut().zip([from, to]) {
            let (data, _) = txn.get_data(account).await?.ok_or("no account")?;
            *balance = std::str::from_utf8(&data)?.parse::<u64>()?;
        }
        let Some(left) = balances[0].checked_sub(self.amount) else {
            return Ok(txn.refuse(format!("{} is too little", balances[0])));
        };
        let added = (balances[1] + self.amount).to_string();
        Ok(txn.set_data(from, left.to_string()).set_data(to, added).done(format!("{left} left")))
    }

    /// What it comes to if it is done now.
    fn replay(&self, balances: &mut [u64; 3]) -> Result<String, String> {
        match balances[self.from].checked_sub(self.amount) {
            None => Err(format!("{} is too little", balances[self.from])),
            Some(left) => {
                balances[self.from] = left;
                balances[self.to] += self.amount;
                Ok(format!("{left} left"))
            }
        }
    }
}

/// A program that asks for transfers until each is settled, with a new session whenever one is over.
struct Teller<'z> {
    zk: &'z TestServer,
    client: Client,
    dice: Dice,
}

impl Teller<'_> {
    async fn reconnect(&mut self) {
        while self.client.state() != SessionState::Connected {
            let options = self.zk.options().seed(self.dice.below(1 << 30) as u64);
            match options.connect(self.zk.connector()).await {
                Ok(client) => self.client = client,
                Err(_) => continue,
            }
        }
    }

    async fn settle(&mut self, transfer: Transfer) -> Result<TicketOutcome, TicketError> {
        for _ in 0..100 {
            let tickets = Tickets::new(&self.client, SCOPE);
            let run = tickets.run(&transfer.ticket, transfer.params(), |txn| transfer.work(txn));
            if self.dice.chance(10) {
                // Gives up and tries again.
                let limit = Duration::from_millis(self.dice.below(40) as u64);
                if let Ok(Ok(outcome)) = self.zk.clock().timeout(limit, run).await {
                    return Ok(outcome);
                }
            } else {
                match run.await {
                    Ok(outcome) => return Ok(outcome),
                    Err(error @ TicketError::Collected { .. }) => return Err(error),
                    Err(TicketError::SessionOver { .. }) => self.reconnect().await,
                    Err(
                        TicketError::Unknown { .. } | TicketError::Contended { .. } | TicketError::Client(_),
                    ) => {}
                    Err(error) => panic!("{transfer:?}: {error}"),
                }
            }
            if self.dice.chance(5) {
                let _ = self.zk.server().fixture().expire_session(self.client.session_id()).await;
                self.client.ended().await;
                self.reconnect().await;
            }
        }
        panic!("{transfer:?}: it does not come to an end");
    }

    async fn settle_all(&mut self, transfers: &[Transfer]) -> Vec<(Transfer, TicketOutcome)> {
        let mut told = Vec::new();
        for transfer in transfers {
            match self.settle(*transfer).await {
                Ok(outcome) => told.push((*transfer, outcome)),
                Err(error) => panic!("{transfer:?}: {error}"),
            }
        }
        told
    }
}

fn balances(zk: &TestServer) -> [u64; 3] {
    ACCOUNTS.map(|account| zk.get(account).unwrap().text().parse().unwrap())
}

fn place_faults(zk: &TestServer, dice: &mut Dice) {
    let faults = zk.faults();
    faults.seed(dice.below(1 << 30) as u64);
    let share = |dice: &mut Dice| dice.below(12) as f64 / 100.0;
    faults.on(request().probability(share(dice))).lose_reply().unwrap();
    faults.on(request().probability(share(dice))).drop_request().unwrap();
    faults.on(request().probability(share(dice) / 2.0)).cut_reply(dice.below(40)).unwrap();
    faults.on(request().probability(share(dice) / 2.0)).delay_reply(Duration::from_millis(30)).unwrap();
    faults.on(connection().probability(share(dice))).refuse().unwrap();
}

/// Runs one schedule, and returns how many faults fired.
async fn schedule(seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let mut zk = test_server().seed(seed);
    for account in ACCOUNTS {
        zk = zk.znode(account, OPENING.to_string());
    }
    let zk = zk.start().await.unwrap();
    let drawer = Tickets::new(&zk.client().await, SCOPE);
    let transfers: Vec<Transfer> = (0..6)
        .map(|_| {
            let from = dice.below(3);
            let (to, amount) = ((from + 1 + dice.below(2)) % 3, 1 + dice.below(90) as u64);
            Transfer { ticket: drawn_ago(drawer.generate(), 2 * AGE), from, to, amount }
        })
        .collect();
    let mut tellers = Vec::new();
    for _ in 0..3 {
        tellers.push(Teller { zk: &zk, client: zk.client().await, dice: dice.fork() });
    }
    place_faults(&zk, &mut dice);

    // Each transfer is asked for by two or three, in an order of their own.
    let mut asked: Vec<Vec<Transfer>> = vec![transfers.clone(), transfers.clone(), Vec::new()];
    asked[2].extend(transfers.iter().filter(|_| dice.chance(50)));
    for list in &mut asked {
        (1..list.len()).rev().for_each(|at| list.swap(at, dice.below(at + 1)));
    }
    let [one, two, three] = &mut tellers[..] else { panic!("three of them") };
    let all = async {
        tokio::join!(one.settle_all(&asked[0]), two.settle_all(&asked[1]), three.settle_all(&asked[2]))
    };
    let (a, b, c) = zk.pass_time_until(all).await.unwrap();
    zk.faults().clear();
    zk.wait_until_idle().await.unwrap();

    // The order is that of the records.
    let tree = zk.tree();
    let mut order: Vec<_> = transfers
        .iter()
        .map(|transfer| {
            let name = transfer.ticket.to_string();
            let record = tree.iter().find(|node| node.path.ends_with(&name)).expect("a record");
            (record.stat.czxid, *transfer)
        })
        .collect();
    order.sort_by_key(|(czxid, _)| *czxid);
    let mut serial = [OPENING; 3];
    let told: Vec<_> = a.into_iter().chain(b).chain(c).collect();
    for (_, transfer) in order {
        let outcome = transfer.replay(&mut serial);
        let mut first_times = 0;
        for (_, told) in told.iter().filter(|(asked, _)| asked.ticket == transfer.ticket) {
            let said = told.value.clone().map(text).map_err(text);
            assert_eq!(said, outcome, "{transfer:?}");
            first_times += usize::from(told.first_time);
        }
        assert!(first_times <= 1, "{transfer:?}: {first_times} believe that they have done it");
    }
    assert_eq!(balances(&zk), serial);
    collect(&zk, &mut tellers[0], &transfers, &mut dice).await;
    zk.faults().fired().len()
}

/// In the end all of it is collected, and asked for again.
async fn collect(zk: &TestServer, teller: &mut Teller<'_>, transfers: &[Transfer], dice: &mut Dice) {
    let before = balances(zk);
    place_faults(zk, dice);
    let late = async {
        loop {
            match Tickets::new(&teller.client, SCOPE).collect(AGE).await {
                Ok(_) => break,
                Err(_) => teller.reconnect().await,
            }
        }
        for transfer in transfers {
            let error = teller.settle(*transfer).await.expect_err("it was collected");
            assert!(matches!(error, TicketError::Collected { .. }), "{error}");
        }
    };
    zk.pass_time_until(late).await.unwrap();
    zk.faults().clear();
    assert_eq!(balances(zk), before);
    assert_eq!(zk.children(SCOPE), ["pending"]);
}

fn text(bytes: bytes::Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.
#[tokio::test]
async fn balances_are_those_of_the_transfers_one_after_the_other_whatever_happens() {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")),
        Err(_) => default,
    };
    let (first, schedules) = (number("ZOOLET_SEED", 1), number("ZOOLET_SCHEDULES", SCHEDULES));
    let mut faults = 0;
    for seed in first..first.wrapping_add(schedules) {
        // The report of a test server that is dropped in a panic prints its seed.
        faults += schedule(seed).await;
    }
    assert!(faults as u64 >= schedules, "{faults}");
}
