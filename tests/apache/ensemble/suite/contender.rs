//! One of those who want a lock, with a session of its own: takes it in every way there is, and gives it up in every
//! way too.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use zoolet::{Client, ErrorCode, Guard, LockError};

use super::place::{self, Account, Place};
use super::recipe::{Held, Recipe};
use super::room::{self, Inside, Role};
use super::trouble::Trouble;

use crate::ensemble::line::Line;

/// Some work under a lock, so that faults meet it there too.
const WORK: Duration = Duration::from_millis(2);

/// How far a test has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Faults,
    /// The faults are over.
    Finishing,
    /// So are the contenders.
    Over,
}

/// What all contenders of a recipe have in common.
pub struct Site {
    pub recipe: Recipe,
    pub places: Vec<Place>,
    pub connect: String,
    pub session_timeout: Duration,
    /// Whether contenders put each other out of the queue. Counting without a fence is not safe from that.
    pub evictions: bool,
    pub stage: watch::Sender<Stage>,
    pub rounds: AtomicUsize,
}

/// What happened to a contender.
#[derive(Debug, Default)]
pub struct Tally {
    pub acquired: usize,
    pub late: usize,
    pub busy: usize,
    pub dropped: usize,
    /// Locks and places in the queue that were lost, but for those that went with their session.
    pub lost: usize,
    pub evicted: usize,
    /// Readers that became writers, and writers that became readers.
    pub turned: usize,
    /// Writes whose outcome is unknown.
    pub unknown: usize,
    pub sessions: usize,
    /// Sessions that ended against their contender's will.
    pub expired: usize,
    /// Calls that failed with the connection.
    pub losses: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.acquired += other.acquired;
        self.late += other.late;
        self.busy += other.busy;
        self.dropped += other.dropped;
        self.lost += other.lost;
        self.evicted += other.evicted;
        self.turned += other.turned;
        self.unknown += other.unknown;
        self.sessions += other.sessions;
        self.expired += other.expired;
        self.losses += other.losses;
    }
}

pub struct Contender {
    site: Arc<Site>,
    name: String,
    rng: StdRng,
    pub zk: Client,
    /// The way to the ensemble, if it is a bad one.
    line: Option<Line>,
    writes: usize,
    pub tally: Tally,
    /// One for each place.
    pub accounts: Vec<Account>,
}

impl Contender {
    pub async fn new(site: Arc<Site>, name: String, seed: u64, line: Option<Line>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let zk = connect(&site, line.as_ref(), &mut rng).await;
        let accounts = site.places.iter().map(|_| Account::default()).collect();
        let tally = Tally { sessions: 1, ..Tally::default() };
        Self { site, name, rng, zk, line, writes: 0, tally, accounts }
    }

    /// Goes on until the faults are over, and then for some rounds more, in which it must get the lock.
    pub async fn run(mut self, more: usize) -> Self {
        let site = Arc::clone(&self.site);
        let trouble =
            self.line.clone().map(|line| tokio::spawn(line.trouble(StdRng::from_rng(&mut self.rng))));
        let mut left = more;
        let mut over = false;
        while left > 0 {
            let finishing = *site.stage.borrow() != Stage::Faults;
            if finishing && !std::mem::replace(&mut over, finishing) {
                trouble.iter().for_each(|trouble| trouble.abort());
                self.line.iter().for_each(Line::mend);
            }
            let before = self.tally.acquired;
            if let Err(trouble) = self.round().await {
                match trouble {
                    Trouble::Session => {
                        self.tally.expired += 1;
                        self.reconnect().await;
                    }
                    Trouble::NotHeld => self.tally.lost += 1,
                    Trouble::Late => self.tally.late += 1,
                    Trouble::Connection => self.tally.losses += 1,
                    Trouble::Refused(code) => panic!("{}: {code}", self.name),
                }
            }
            site.rounds.fetch_add(1, Relaxed);
            if finishing && self.tally.acquired > before {
                left -= 1;
            }
        }
        self
    }

    async fn reconnect(&mut self) {
        self.zk = connect(&self.site, self.line.as_ref(), &mut self.rng).await;
        self.tally.sessions += 1;
    }

    async fn round(&mut self) -> Result<(), Trouble> {
        let site = Arc::clone(&self.site);
        let role = site.recipe.role(&mut self.rng);
        let chosen = site.recipe.choose(&mut self.rng);
        let places: Vec<_> = chosen.iter().map(|at| &site.places[*at]).collect();
        match self.rng.random_range(0..100) {
            0..62 => {
                let held = site.recipe.acquire(&self.zk, &places, role, None).await?;
                self.section(held, &chosen, role).await
            }
            62..72 => {
                let limit = Duration::from_millis(self.rng.random_range(1..40));
                let held = site.recipe.acquire(&self.zk, &places, role, Some(limit)).await?;
                self.section(held, &chosen, role).await
            }
            72..82 => match site.recipe.try_acquire(&self.zk, &places, role).await? {
                Some(held) => self.section(held, &chosen, role).await,
                None => {
                    self.tally.busy += 1;
                    Ok(())
                }
            },
            82..92 => self.drop_it(&places, role).await,
            92..96 => self.close_with_it(&places, role).await,
            _ if self.site.evictions => self.evict(places[0]).await,
            _ => Ok(()),
        }
    }

    /// Holds the lock: enters what it protects, works there, leaves, releases. Sometimes it makes another lock of it on the
    /// way.
    async fn section(&mut self, mut held: Held, chosen: &[usize], role: Role) -> Result<(), Trouble> {
        self.tally.acquired += 1;
        let mut outcome = self.visit(&held, chosen, role).await;
        if outcome.is_ok() && self.rng.random_bool(0.3) {
            match &held {
                Held::Reader(_) | Held::Writer(_) => (held, outcome) = self.turn(held, chosen, role).await,
                Held::Guard(guard) => {
                    let again = Held::Guard(guard.reenter());
                    outcome = self.visit(&again, chosen, role).await;
                }
                _ => {}
            }
        }
        // Whatever happened inside; a lock that is lost is released without a word.
        let released = held.release().await.map_err(Trouble::from);
        outcome.and(released)
    }

    /// Makes a reader of a writer, or a writer of a reader that is alone, and goes in again.
    async fn turn(&mut self, held: Held, chosen: &[usize], role: Role) -> (Held, Result<(), Trouble>) {
        let site = Arc::clone(&self.site);
        let place = &site.places[chosen[0]];
        let before = match place.entries(&self.zk).await {
            Ok(before) => before,
            Err(trouble) => return (held, Err(trouble)),
        };
        let (held, turned) = held.turn().await;
        let role = match (turned, role) {
            (Err(LockError::NotAlone { .. }), _) => return (held, Ok(())),
            (Err(error), _) => return (held, Err(error.into())),
            (Ok(()), Role::Shared) => Role::Alone,
            (Ok(()), _) => Role::Shared,
        };
        self.tally.turned += 1;
        let unchanged = async {
            // No other contender came in between, if it still has the lock.
            let after = place.entries(&self.zk).await?;
            held.guard().verify().await?;
            assert_eq!(after, before, "{}: another client wrote while {:?} changed", self.name, held.guard());
            Ok(())
        };
        let outcome = match unchanged.await {
            Ok(()) => self.visit(&held, chosen, role).await,
            trouble => trouble,
        };
        (held, outcome)
    }

    async fn visit(&mut self, held: &Held, chosen: &[usize], role: Role) -> Result<(), Trouble> {
        let site = Arc::clone(&self.site);
        let places: Vec<_> = chosen.iter().map(|at| &site.places[*at]).collect();
        let inside: Inside = room::enter(&places, &self.zk, held.guard(), role).await?;
        let outcome = match role {
            Role::Alone => self.write(held.guard(), &places, chosen).await,
            Role::Shared => self.read(held.guard(), &places).await,
            Role::Some(_) => Ok(()),
        };
        if self.rng.random_bool(0.3) {
            sleep(WORK).await;
        }
        let left = room::leave(&self.zk, &inside).await;
        outcome.and(left)
    }

    async fn write(&mut self, guard: &Guard, places: &[&Place], chosen: &[usize]) -> Result<(), Trouble> {
        self.writes += 1;
        let id = format!("{}#{}", self.name, self.writes);
        let mut account = Account::default();
        let written = async {
            if !self.site.evictions {
                for place in places {
                    place.count(&self.zk, guard, &mut account).await?;
                }
            }
            place::write(places, &self.zk, guard, &id, &mut account).await
        };
        let written = written.await;
        let (counted, perhaps_counted) = (account.counted, account.perhaps_counted);
        self.tally.unknown += account.unknown.len();
        for at in chosen {
            let (acknowledged, unknown) = (account.acknowledged.clone(), account.unknown.clone());
            self.accounts[*at].add(Account { acknowledged, unknown, counted, perhaps_counted });
        }
        written
    }

    /// Asserts that no client writes while there is a reader.
    async fn read(&self, guard: &Guard, places: &[&Place]) -> Result<(), Trouble> {
        for place in places {
            let before = place.entries(&self.zk).await?;
            sleep(WORK).await;
            let after = place.entries(&self.zk).await?;
            guard.verify().await?;
            assert_eq!(after, before, "{}: another client wrote beside {guard:?}", self.name);
        }
        Ok(())
    }

    /// Changes its mind at any moment.
    async fn drop_it(&mut self, places: &[&Place], role: Role) -> Result<(), Trouble> {
        let limit = Duration::from_micros(self.rng.random_range(0..20_000));
        let recipe = self.site.recipe;
        let zk = self.zk.clone();
        let acquiring = pin!(recipe.acquire(&zk, places, role, None));
        match timeout(limit, acquiring).await {
            // The guard is dropped, too.
            Ok(held) => drop(held?),
            Err(_) => self.tally.dropped += 1,
        }
        Ok(())
    }

    /// Ends its session with the lock in its hands, or while it waits.
    async fn close_with_it(&mut self, places: &[&Place], role: Role) -> Result<(), Trouble> {
        let limit = Duration::from_millis(self.rng.random_range(0..50));
        let recipe = self.site.recipe;
        let zk = self.zk.clone();
        let acquiring = pin!(recipe.acquire(&zk, places, role, None));
        let held = timeout(limit, acquiring).await;
        // A session that cannot be closed expires.
        let _ = self.zk.close().await;
        drop(held);
        self.reconnect().await;
        Ok(())
    }

    /// Deletes the znode of another, or its own that is being released.
    async fn evict(&mut self, place: &Place) -> Result<(), Trouble> {
        let contenders = self.site.recipe.contenders(&self.zk, place).await?;
        if let Some(contender) = contenders.choose(&mut self.rng) {
            match self.zk.delete(&contender.path).await.map_err(Trouble::from) {
                Ok(()) => self.tally.evicted += 1,
                Err(Trouble::Refused(ErrorCode::NoNode)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }
}

async fn connect(site: &Site, line: Option<&Line>, rng: &mut StdRng) -> Client {
    let options = Client::options().session_timeout(site.session_timeout).seed(rng.random());
    let connecting = match line {
        Some(line) => options.connect(line.connector()),
        None => options.connect(&site.connect),
    };
    connecting.await.expect("a session")
}
