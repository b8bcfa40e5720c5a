//! Faults at every request of every recipe.

use crate::locks::recipe::{END, Recipe, Terms};
use crate::locks::schedules::Schedules;
use crate::locks::sweep::{ReplyFault, Sweep};

/// The places in a queue that a victim may have.
pub fn places(recipe: Recipe) -> Vec<Sweep> {
    let mut places = Vec::new();
    for &part in recipe.parts() {
        let alone = Sweep { terms: Terms { part, ..Terms::default() }, ..Sweep::new(recipe) };
        places.push(alone);
        places.push(Sweep { dir: false, ..alone });
        places.push(Sweep { ahead: true, ..alone });
        places.push(Sweep { behind: true, ..alone });
        places.push(Sweep { ahead: true, behind: true, ..alone });
    }
    places
}

/// Runs a sweep at one request after another until there are no more.
pub fn at_every_request(sweep: Sweep, schedules: &mut Schedules) {
    for at in 0.. {
        let outcome = Sweep { at, ..sweep }.run();
        schedules.count(&outcome);
        if !outcome.fired {
            return;
        }
    }
}

#[test]
fn whatever_happens_at_whichever_request_nothing_is_left_and_everybody_gets_a_turn() {
    let mut schedules = Schedules::new("a fault at every request");
    for recipe in Recipe::ALL {
        for sweep in places(recipe) {
            // What all the others are made of is never left out.
            let plainest = recipe == Recipe::Predecessor && !sweep.ahead && !sweep.behind;
            for fault in ReplyFault::all() {
                if schedules.runs_next(17) || plainest {
                    at_every_request(Sweep { fault, ..sweep }, &mut schedules);
                }
            }
        }
    }
    assert!(schedules.fired > 500, "there is more to meet than that");
}

#[test]
fn a_guard_that_watches_its_znode_knows_when_it_is_evicted() {
    let mut schedules = Schedules::new("a fault at every request of a guard that watches its znode");
    for recipe in Recipe::ALL {
        for sweep in places(recipe).into_iter().filter(|sweep| sweep.ahead == sweep.behind && sweep.dir) {
            let terms = Terms { watch_own_node: true, ..sweep.terms };
            for fault in ReplyFault::all() {
                if schedules.runs_next(17) {
                    at_every_request(Sweep { fault, terms, ..sweep }, &mut schedules);
                }
            }
        }
    }
}

#[test]
fn at_the_end_of_a_counter_it_is_no_different() {
    let mut schedules = Schedules::new("a fault at every request where a counter ends");
    for recipe in Recipe::ALL {
        for sweep in places(recipe).into_iter().filter(|sweep| sweep.ahead && sweep.behind) {
            for fault in ReplyFault::all() {
                if schedules.runs_next(17) {
                    at_every_request(Sweep { fault, counter: Some(END - 2), ..sweep }, &mut schedules);
                }
            }
        }
    }
}
