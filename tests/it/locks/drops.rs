//! Futures that are dropped after any number of turns.

use std::sync::Arc;

use zoolet::testing::Action;

use crate::locks::contender::{End, Leave, Turn};
use crate::locks::recipe::Recipe;
use crate::locks::requests::places;
use crate::locks::schedules::Schedules;
use crate::locks::stage::{Stage, TIMEOUT, millis};
use crate::locks::sweep::{ControlAction, Outcome, ReplyFault, Sweep};

/// More turns than anything takes that needs no time: a future that is pending after so many waits for another contender.
const TURNS: usize = 40;

/// The faults that may occur as well, at one of the first requests.
const MISHAPS: [ReplyFault; 7] = [
    ReplyFault::Fault(Action::DropRequest),
    ReplyFault::Fault(Action::LoseReply),
    ReplyFault::Behind(Action::LoseReply),
    ReplyFault::Applied(ControlAction::Expire),
    ReplyFault::Answered(ControlAction::EvictAhead),
    ReplyFault::Answered(ControlAction::Evict),
    ReplyFault::Retried(ControlAction::EvictOne),
];

/// Runs a sweep with longer and longer timeouts, until none elapses.
fn after_every_turn(sweep: Sweep, schedules: &mut Schedules) {
    for turns in 0..TURNS {
        let outcome = Sweep { patience: Some(turns), ..sweep }.run();
        schedules.count(&outcome);
        if !matches!(outcome.victim, End::GivenUp) {
            return;
        }
    }
}

#[test]
fn an_acquisition_that_is_dropped_after_any_number_of_turns_leaves_nothing() {
    let mut schedules = Schedules::new("an acquisition dropped after every turn");
    for recipe in Recipe::ALL {
        for sweep in places(recipe) {
            for hasty in [false, true] {
                if schedules.runs_next(3) {
                    after_every_turn(Sweep { hasty, ..sweep }, &mut schedules);
                }
            }
        }
    }
    assert!(schedules.fired == 0);
}

#[test]
fn an_acquisition_that_is_dropped_while_something_goes_wrong_leaves_nothing() {
    let mut schedules = Schedules::new("an acquisition dropped after every turn, and a fault");
    for recipe in Recipe::ALL {
        for sweep in places(recipe).into_iter().filter(|sweep| sweep.dir && sweep.ahead == sweep.behind) {
            for fault in MISHAPS {
                for at in 1..=4 {
                    if schedules.runs_next(31) {
                        after_every_turn(Sweep { fault, at, hasty: true, ..sweep }, &mut schedules);
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_create_without_a_reply_is_looked_for_after_a_sync_that_was_answered() {
    let stage = Stage::start(Recipe::Predecessor, 1, "a lost sync", 2).await;
    stage.make_directories(None).await;
    let seat = stage.seat(0).await;
    for number in 0..2 {
        stage.zk.endpoint(number).unwrap().lag().await.unwrap();
    }
    let taking = tokio::spawn(Arc::clone(&seat).take(Arc::clone(&stage), Turn::default()));
    stage.rest().await;
    taking.abort();
    // The create is executed, its answer waits, and so does that of the sync that is sent on the next connection. Each time
    // the session is taken up where nothing of it is to be seen.
    for _ in 0..4 {
        let _ = stage.zk.disconnect(seat.zk.session_id()).await;
        stage.zk.advance(millis(700)).await.unwrap();
    }
    for number in 0..2 {
        stage.zk.endpoint(number).unwrap().catch_up().await.unwrap();
    }
    stage.zk.advance(TIMEOUT).await.unwrap();
    stage.check_nothing_left();
}

#[test]
fn a_release_that_is_not_awaited_completes() {
    let mut schedules = Schedules::new("a release dropped after every turn, and a fault");
    let begin = |sweep: Sweep, schedules: &mut Schedules| -> Outcome {
        let outcome = sweep.run();
        schedules.count(&outcome);
        outcome
    };
    for recipe in Recipe::ALL {
        for sweep in places(recipe).into_iter().filter(|sweep| sweep.dir && sweep.ahead == sweep.behind) {
            begin(Sweep { leave: Leave::Drop, ..sweep }, &mut schedules);
            for fault in MISHAPS {
                // The release is the last of its requests.
                for at in 5..=10 {
                    if !schedules.runs_next(31) {
                        continue;
                    }
                    for turns in 0..TURNS {
                        let leave = Leave::ReleaseFor(turns);
                        let outcome = begin(Sweep { fault, at, leave, ..sweep }, &mut schedules);
                        if !matches!(outcome.victim, End::LeftAlone) {
                            break;
                        }
                    }
                }
            }
        }
    }
}
