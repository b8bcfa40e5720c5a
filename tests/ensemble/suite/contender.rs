//! One of those who want a lock, with a session of its own: takes it in every way there is, and gives it up in every
//! way too.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::time::{sleep, timeout};
use zoolet::Client;

use super::place::{self, Account, Place, Role};
use super::recipe::{Held, Recipe};
use super::trouble::Trouble;

/// Some work under a lock, so that faults meet it there too.
const WORK: Duration = Duration::from_millis(2);

/// What all contenders of a recipe have in common.
pub struct Site {
    pub recipe: Recipe,
    pub places: Vec<Place>,
    pub connect: String,
    pub session_timeout: Duration,
    /// Whether contenders put each other out of the queue. Who counts without a fence is not safe from that.
    pub evictions: bool,
    /// Set when the faults are over.
    pub finish: AtomicBool,
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
    writes: usize,
    pub tally: Tally,
    /// One for each place.
    pub accounts: Vec<Account>,
}

impl Contender {
    pub async fn new(site: Arc<Site>, name: String, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let zk = connect(&site, &mut rng).await;
        let accounts = site.places.iter().map(|_| Account::default()).collect();
        let tally = Tally { sessions: 1, ..Tally::default() };
        Self { site, name, rng, zk, writes: 0, tally, accounts }
    }

    /// Goes on until the faults are over, and then for some rounds more, in which it must get the lock.
    pub async fn run(mut self, more: usize) -> Self {
        let mut left = more;
        while left > 0 {
            let finishing = self.site.finish.load(Relaxed);
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
            self.site.rounds.fetch_add(1, Relaxed);
            if finishing && self.tally.acquired > before {
                left -= 1;
            }
        }
        self
    }

    async fn reconnect(&mut self) {
        self.zk = connect(&self.site, &mut self.rng).await;
        self.tally.sessions += 1;
    }

    async fn round(&mut self) -> Result<(), Trouble> {
        let site = Arc::clone(&self.site);
        let role = site.recipe.role(&mut self.rng);
        let chosen = site.recipe.choose(site.places.len(), &mut self.rng);
        let places: Vec<_> = chosen.iter().map(|at| &site.places[*at]).collect();
        match self.rng.random_range(0..100) {
            0..62 => {
                let held = site.recipe.acquire(&self.zk, &places, role, None).await?;
                self.section(held, &chosen, role).await
            }
            62..72 => {
                let patience = Duration::from_millis(self.rng.random_range(1..40));
                let held = site.recipe.acquire(&self.zk, &places, role, Some(patience)).await?;
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

    /// Holds the lock: enters what it protects, writes, leaves, releases.
    async fn section(&mut self, held: Held, chosen: &[usize], role: Role) -> Result<(), Trouble> {
        self.tally.acquired += 1;
        let inside = self.inside(&held, chosen, role).await;
        let left = self.leave(&held, chosen, role).await;
        // Whatever happened inside; a lock that is lost is released without a word.
        let released = held.release().await.map_err(Trouble::from);
        inside.and(left).and(released)
    }

    async fn inside(&mut self, held: &Held, chosen: &[usize], role: Role) -> Result<(), Trouble> {
        let site = Arc::clone(&self.site);
        let guard = held.guard();
        let places: Vec<_> = chosen.iter().map(|at| &site.places[*at]).collect();
        place::enter(&places, &self.zk, guard, role).await?;
        if role == Role::Shared {
            return self.read(&places).await;
        }
        self.writes += 1;
        let id = format!("{}#{}", self.name, self.writes);
        let mut account = Account::default();
        let written = async {
            if !site.evictions {
                for place in &places {
                    place.count(&self.zk, guard, &mut account).await?;
                }
            }
            place::write(&places, &self.zk, guard, &id, &mut account).await
        };
        let written = written.await;
        let (counted, perhaps_counted) = (account.counted, account.perhaps_counted);
        for at in chosen {
            let (acknowledged, unknown) = (account.acknowledged.clone(), account.unknown.clone());
            self.accounts[*at].add(Account { acknowledged, unknown, counted, perhaps_counted });
        }
        if self.rng.random_bool(0.3) {
            sleep(WORK).await;
        }
        written
    }

    /// Nobody writes while there is a reader.
    async fn read(&self, places: &[&Place]) -> Result<(), Trouble> {
        for place in places {
            let before = place.entries(&self.zk).await?;
            sleep(WORK).await;
            assert_eq!(
                place.entries(&self.zk).await?,
                before,
                "{}: somebody wrote beside a reader",
                self.name
            );
        }
        Ok(())
    }

    async fn leave(&self, held: &Held, chosen: &[usize], role: Role) -> Result<(), Trouble> {
        for at in chosen {
            self.site.places[*at].leave(&self.zk, held.guard(), role).await?;
        }
        Ok(())
    }

    /// Changes its mind at any moment.
    async fn drop_it(&mut self, places: &[&Place], role: Role) -> Result<(), Trouble> {
        let patience = Duration::from_micros(self.rng.random_range(0..20_000));
        let recipe = self.site.recipe;
        let zk = self.zk.clone();
        let acquiring = pin!(recipe.acquire(&zk, places, role, None));
        match timeout(patience, acquiring).await {
            // The guard is dropped, too.
            Ok(held) => drop(held?),
            Err(_) => self.tally.dropped += 1,
        }
        Ok(())
    }

    /// Ends its session with the lock in its hands, or while it waits.
    async fn close_with_it(&mut self, places: &[&Place], role: Role) -> Result<(), Trouble> {
        let patience = Duration::from_millis(self.rng.random_range(0..50));
        let recipe = self.site.recipe;
        let zk = self.zk.clone();
        let acquiring = pin!(recipe.acquire(&zk, places, role, None));
        let held = timeout(patience, acquiring).await;
        // A session that cannot be closed expires.
        let _ = self.zk.close().await;
        drop(held);
        self.reconnect().await;
        Ok(())
    }

    /// Deletes the znode of another, or its own that is on its way out.
    async fn evict(&mut self, place: &Place) -> Result<(), Trouble> {
        let contenders = self.site.recipe.contenders(&self.zk, place).await?;
        if let Some(node) = contenders.choose(&mut self.rng) {
            match self.zk.delete(node).await.map_err(Trouble::from) {
                Ok(()) => self.tally.evicted += 1,
                Err(Trouble::Refused(zoolet::ErrorCode::NoNode)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }
}

async fn connect(site: &Site, rng: &mut StdRng) -> Client {
    let options = Client::options().session_timeout(site.session_timeout).seed(rng.random());
    options.connect(&site.connect).await.expect("a session")
}
