//! The recipes under faults, judged by the server's own list of transactions.
//!
//! - `requests`: every fault at every request of every recipe, with and without contenders before and after;
//! - `drops`: futures that are dropped after any number of turns, also together with a fault;
//! - `random`: seeded schedules with several contenders and faults; `run` runs many;
//! - `counts`: what each step costs in requests and events.
//!
//! In each of them `audit` goes through the transactions with the rules of `rules`: who held when, whether each write
//! under a lock was its holder's, whether each guard was given in its turn and with its token. And whenever nothing is left
//! to do, `quiescent` looks for leftovers and for contenders that wait in vain, before time moves.

mod audit;
mod contender;
mod counts;
mod drops;
mod quiescent;
mod random;
mod random_faults;
mod recipe;
mod requests;
mod rules;
mod schedules;
mod stage;
mod store;
mod sweep;
mod tally;
