//! Seeded random schedules: several contenders, several faults, several endpoints, and impatience of every kind.
//!
//! `ZOOLET_SCHEDULES` sets how many run, `ZOOLET_SEED` the seed of the first; each has the next seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use zoolet::LockError;
use zoolet::recipes::SuspendPolicy;
use zoolet_test_support::Dice;

use crate::locks::contender::{End, Hold, Leave, Seat, Turn};
use crate::locks::random_faults::RandomFaults;
use crate::locks::recipe::{END, HALF, Recipe, Terms};
use crate::locks::stage::{Stage, TIMEOUT, locked, millis};
use crate::locks::tally::Tally;

/// How many schedules run by default.
const SCHEDULES: u64 = 200;

/// More moments than anything takes that comes to an end once nothing goes wrong any more.
const MOMENTS: usize = 2_000;

#[test]
fn random_schedules_of_every_recipe_keep_every_rule() {
    let given = number("ZOOLET_SEED");
    let first = given.unwrap_or(1);
    let count = number("ZOOLET_SCHEDULES").unwrap_or(if given.is_some() { 1 } else { SCHEDULES });
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let (began, tally) = (Instant::now(), Mutex::new(Tally::default()));
    let work = || {
        while !failed.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= first + count {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                Ok(one) => locked(&tally).add(&one),
                Err(_) => {
                    failed.store(true, SeqCst);
                    panic!("once more: ZOOLET_SEED={seed} cargo test --test it locks::random");
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().expect("a schedule that keeps every rule");
        }
    });
    locked(&tally).print(first, began.elapsed());
    assert!(given.is_some() || locked(&tally).is_worth_something(), "hardly anything happened: {tally:?}");
}

#[test]
fn a_schedule_repeats_from_its_seed() {
    for seed in 1..6 {
        assert_eq!(run(seed).story, run(seed).story, "seed {seed}");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn run(seed: u64) -> Tally {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(play(seed))
}

async fn play(seed: u64) -> Tally {
    let mut dice = Dice::new(seed);
    let recipe = dice.of(&Recipe::ALL);
    let endpoints = dice.of(&[1, 1, 2, 3]);
    let name = format!("a random one of {recipe:?}, seed {seed}");
    let stage = Stage::start(recipe, seed, name, endpoints).await;
    if dice.chance(40) {
        let counter = dice.of(&[None, None, Some(HALF), Some(END - 3), Some(END)]);
        stage.make_directories(counter).await;
    }
    let mut contenders: Vec<JoinHandle<()>> = Vec::new();
    for _ in 0..2 + dice.below(3) {
        let seat = stage.seat(dice.below(endpoints)).await;
        for _ in 0..if dice.chance(15) { 2 } else { 1 } {
            let seat = if contenders.len() < stage.seats().len() {
                Arc::clone(&seat)
            } else {
                stage.seat_of(seat.zk.clone())
            };
            contenders.push(tokio::spawn(live(Arc::clone(&stage), seat, dice.fork())));
        }
    }
    let mut faults = RandomFaults::new(Arc::clone(&stage), dice.fork(), endpoints);
    for _ in 0..4 + dice.below(12) {
        faults.inject().await;
        stage.zk.advance(millis(pause(&mut dice))).await.expect("time passes");
        stage.rest().await;
        if stage.is_quiescent() {
            stage.check_quiescent();
        }
    }
    faults.unfreeze().await;
    come_to_an_end(&stage, &contenders).await;
    for contender in contenders {
        contender.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    }
    stage.zk.advance(2 * TIMEOUT).await.expect("time passes");
    assert!(stage.is_quiescent(), "all clients are connected");
    stage.check_quiescent();
    stage.check_nothing_left();
    stage.judge();
    Tally::of(&stage)
}

fn pause(dice: &mut Dice) -> u64 {
    let most = dice.of(&[1, 200, 200, 200, 1_500, 1_500, 5_000]);
    dice.below(most) as u64
}

/// Lets everybody finish what they are about, now that nothing goes wrong any more.
async fn come_to_an_end(stage: &Stage, contenders: &[JoinHandle<()>]) {
    for _ in 0..MOMENTS {
        stage.rest().await;
        if stage.is_quiescent() {
            stage.check_quiescent();
        }
        if contenders.iter().all(JoinHandle::is_finished) {
            return;
        }
        assert!(stage.next_moment().await, "no timer is pending, but the contenders have not finished");
    }
    panic!("it does not come to an end");
}

/// Acquires a few times, with another session when one is over.
async fn live(stage: Arc<Stage>, mut seat: Arc<Seat>, mut dice: Dice) {
    for _ in 0..1 + dice.below(3) {
        if seat.zk.state().is_final() {
            let options = stage.zk.options().session_timeout(TIMEOUT);
            // It may be turned away for longer than it tries.
            let Ok(client) = options.connect(stage.zk.connector()).await else { continue };
            seat = stage.seat_of(client);
        }
        let turn = turn(&mut dice, stage.recipe);
        let end = Arc::clone(&seat).take(Arc::clone(&stage), turn).await;
        stage.tell(format_args!("seat {}: {}", seat.number, end.name()));
        let allowed = match &end {
            End::Released(_) | End::LeftAlone => true,
            End::GivenUp => turn.patience.is_some(),
            End::Busy => turn.terms.try_only,
            End::Failed(LockError::Timeout { .. }) => turn.terms.timeout.is_some(),
            End::Failed(LockError::SessionOver { .. }) => seat.zk.state().is_final(),
            End::Failed(LockError::NodeDeleted { .. }) => seat.evicted.load(SeqCst),
            End::Failed(_) => false,
        };
        assert!(allowed, "seat {} with {turn:?}: {end:?}", seat.number);
        if dice.chance(50) {
            stage.zk.clock().sleep(millis(dice.below(500) as u64)).await;
        }
    }
}

fn turn(dice: &mut Dice, recipe: Recipe) -> Turn {
    let some = |dice: &mut Dice, percent, most| dice.chance(percent).then(|| dice.below(most));
    let on_suspend = if dice.chance(15) { SuspendPolicy::Lost } else { SuspendPolicy::UntilLeaseEnd };
    let terms = Terms {
        part: dice.of(recipe.parts()),
        timeout: some(dice, 30, 3_000).map(|timeout| millis(timeout as u64)),
        confirmed: dice.chance(15),
        watch_own_node: dice.chance(30),
        strict: dice.chance(15),
        on_suspend,
        try_only: dice.chance(10),
    };
    let hold = match dice.below(8) {
        0 => Hold::NotAtAll,
        1 => Hold::For(Duration::ZERO),
        _ => Hold::For(millis(dice.below(1_000) as u64)),
    };
    let leave = match dice.below(8) {
        0 => Leave::Drop,
        1 => Leave::ReleaseFor(dice.below(12)),
        _ => Leave::Release,
    };
    Turn {
        terms,
        patience: some(dice, 20, 40),
        hold,
        stubborn: dice.chance(50),
        change: dice.chance(30),
        reenter: dice.chance(10),
        leave,
    }
}
