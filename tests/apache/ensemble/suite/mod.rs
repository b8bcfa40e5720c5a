//! The recipe suite: every recipe at once, each with contenders of its own at something of its own, before, during and
//! after whatever happens to the ensemble.

mod contender;

mod observer;
mod others;
mod place;
mod recipe;
mod room;
mod trouble;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zoolet::Client;
use zoolet::recipes::Markers;

pub use contender::Tally;
use contender::{Contender, Site, Stage};
use others::{Done, Round, Way};
use place::{Account, Place};
use recipe::Recipe;

use crate::ensemble::line::Line;
use crate::ensemble::members::{Ensemble, SYNC_LIMIT, TICK};
use crate::ensemble::words::wait_for;

/// The session timeout of every contender: more than a follower may be out of touch with its leader and not know it
/// (`syncLimit` ticks, and half a tick until the leader knows the session).
pub const SESSION: Duration = Duration::from_millis(3000);
const _: () = assert!(SESSION.as_millis() >= TICK.as_millis() * SYNC_LIMIT as u128 + TICK.as_millis() / 2);

/// How often everybody must get its lock once the faults are over, and in what time all of them.
const MORE: usize = 3;
const DEADLINE: Duration = Duration::from_secs(60);

/// What is tried: the recipe, how many contenders, whether they put each other out.
const SITES: &[(&str, Recipe, usize, bool)] = &[
    ("predecessor", Recipe::Predecessor, 5, false),
    ("evicted", Recipe::Predecessor, 5, true),
    ("careful", Recipe::Careful, 4, true),
    ("children-watch", Recipe::ChildrenWatch, 4, true),
    ("single-node", Recipe::SingleNode, 4, false),
    ("single-node-evicted", Recipe::SingleNode, 4, true),
    ("dual-kazoo", Recipe::DualKazoo, 4, true),
    ("rw", Recipe::RwLock(Markers::Curator), 6, false),
    ("rw-kazoo", Recipe::RwLock(Markers::Kazoo), 5, true),
    ("semaphore", Recipe::Semaphore, 6, true),
    ("multi", Recipe::MultiLock, 6, true),
    ("election", Recipe::Election, 4, false),
];

pub struct Suite {
    sites: Vec<Arc<Site>>,
    contenders: JoinSet<(usize, Contender)>,
    observers: JoinSet<usize>,
    others: JoinSet<Done>,
    stage: watch::Sender<Stage>,
    observer: Client,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Facts {
    pub sites: Vec<(&'static str, Tally, usize)>,
    /// The leaders that observers of elections saw.
    pub leaders: usize,
    /// What was done without a lock.
    pub others: BTreeMap<&'static str, usize>,
}

impl Suite {
    /// Everybody at work. With `trouble` every other one has a bad connection.
    pub async fn start(ensemble: &Ensemble, rng: &mut StdRng, trouble: bool) -> Self {
        let connect = ensemble.connect_string();
        let observer = Client::options().session_timeout(SESSION).connect(&connect).await.expect("a session");
        let (mut sites, mut contenders, mut observers) = (Vec::new(), JoinSet::new(), JoinSet::new());
        for (at, (name, recipe, count, evictions)) in SITES.iter().enumerate() {
            let mut places = Vec::new();
            for place in 0..recipe.places() {
                let place = Place::create(&observer, &connect, format!("/{name}-{place}")).await;
                places.push(place.expect("a place"));
            }
            let site = Arc::new(Site {
                recipe: *recipe,
                places,
                connect: connect.clone(),
                session_timeout: SESSION,
                evictions: *evictions,
                stage: watch::Sender::default(),
                rounds: AtomicUsize::new(0),
            });
            for number in 0..*count {
                let line = (trouble && number % 2 == 1).then(|| Line::new(ensemble.addresses(), number));
                let name = format!("{name}-{number}");
                let contender = Contender::new(Arc::clone(&site), name, rng.random(), line).await;
                contenders.spawn(async move { (at, contender.run(MORE).await) });
            }
            if *recipe == Recipe::Election {
                observers.spawn(observer::observe(Arc::clone(&site)));
            }
            sites.push(site);
        }
        let stage = watch::Sender::default();
        others::prepare(&observer).await;
        let others = Self::others(ensemble, rng, trouble, &stage);
        Self { sites, contenders, observers, others, stage, observer }
    }

    /// The clients of recipes without a lock.
    fn others(
        ensemble: &Ensemble,
        rng: &mut StdRng,
        trouble: bool,
        stage: &watch::Sender<Stage>,
    ) -> JoinSet<Done> {
        let mut others = JoinSet::new();
        let mut way = |number: usize| Way {
            connect: ensemble.connect_string(),
            line: (trouble && number % 2 == 1).then(|| Line::new(ensemble.addresses(), number)),
            rng: StdRng::from_rng(rng),
            stage: stage.subscribe(),
        };
        for number in 0..others::TELLERS {
            let way = way(number);
            others.spawn(async { ("tickets", others::teller(way).await) });
        }
        let round = Arc::<Round>::default();
        for number in 0..others::MEMBERS {
            let (way, round) = (way(number), Arc::clone(&round));
            others.spawn(async move { ("double barrier", others::member(number, way, round).await) });
        }
        let way = way(1);
        others.spawn(async { ("barrier", others::gate(way).await) });
        others
    }

    /// Waits until every recipe has had so many rounds more, whatever came of them.
    pub async fn rounds(&mut self, more: usize) {
        let rounds = |site: &Arc<Site>| site.rounds.load(Relaxed);
        let goals: Vec<_> = self.sites.iter().map(|site| rounds(site) + more).collect();
        wait_for("rounds of every recipe", DEADLINE, async || {
            self.no_panic();
            let mut sites = self.sites.iter().zip(&goals);
            sites.all(|(site, goal)| rounds(site) >= *goal).then_some(())
        })
        .await;
    }

    fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
        self.sites.iter().for_each(|site| _ = site.stage.send_replace(stage));
    }

    /// A contender that found something wrong ends the test.
    fn no_panic(&mut self) {
        if let Some(ended) = self.contenders.try_join_next() {
            ended.expect("a contender that goes on");
            panic!("a contender ended too early");
        }
        if let Some(ended) = self.others.try_join_next() {
            panic!("it ended too early: {ended:?}");
        }
    }

    /// After the faults every contender must get its lock, and nothing may be left over.
    pub async fn finish(mut self, ensemble: &Ensemble) -> Facts {
        self.enter(Stage::Finishing);
        let mut ended = Vec::new();
        let all = async {
            while let Some(contender) = self.contenders.join_next().await {
                ended.push(contender.expect("a contender that comes to its end"));
            }
        };
        timeout(DEADLINE, all).await.expect("everybody gets its lock once the faults are over");
        self.enter(Stage::Over);
        let mut facts = Facts::default();
        let all = async {
            while let Some(done) = self.others.join_next().await {
                let (what, times) = done.expect("one that comes to its end");
                *facts.others.entry(what).or_default() += times;
            }
        };
        let others_ended = timeout(DEADLINE, all).await;
        assert!(others_ended.is_ok(), "of all others, only these have come to an end: {:?}", facts.others);
        self.observer.sync("/").await.expect("an answer");
        assert_eq!(others::balance(&self.observer).await, facts.others["tickets"], "each ticket once");
        let all = async {
            while let Some(leaders) = self.observers.join_next().await {
                facts.leaders += leaders.expect("an observer that comes to its end");
            }
        };
        timeout(DEADLINE, all).await.expect("a notification that there is no leader");

        // Their sessions still exist, so that leftovers would be seen.
        for (statistic, what) in
            [("zk_ephemerals_count", "no ephemeral is left"), ("zk_watch_count", "no watch is left")]
        {
            wait_for(what, DEADLINE, async || (ensemble.sum(statistic).await == 0).then_some(())).await;
        }
        for (at, (site, (name, ..))) in self.sites.iter().zip(SITES).enumerate() {
            let mut tally = Tally::default();
            let mut accounts: Vec<_> = site.places.iter().map(|_| Account::default()).collect();
            for (_, contender) in ended.iter_mut().filter(|(of, _)| *of == at) {
                tally.add(&contender.tally);
                for (all, own) in accounts.iter_mut().zip(contender.accounts.drain(..)) {
                    all.add(own);
                }
            }
            let mut entries = 0;
            for (place, account) in site.places.iter().zip(&accounts) {
                entries += place.judge(&self.observer, account).await.expect("an answer");
            }
            facts.sites.push((*name, tally, entries));
        }
        for (_, contender) in ended {
            let _ = contender.zk.close().await;
        }
        facts
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Tally::default();
        for (name, tally, entries) in &self.sites {
            writeln!(f, "{name}: {entries} writes, {tally:?}")?;
            all.add(tally);
        }
        writeln!(f, "{:?}, and observers saw {} leaders", self.others, self.leaders)?;
        writeln!(f, "in all {all:?}")
    }
}
