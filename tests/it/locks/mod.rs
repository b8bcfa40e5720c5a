//! The recipes under faults, judged by the server's own list of transactions.
//!
//! - `requests`: everything that may go wrong, at every request of every recipe, whoever is in front and behind;
//! - `drops`: futures that are dropped after any number of turns, and with something going wrong besides;
//! - `random`: seeded schedules with several contenders and faults; `run` runs many;
//! - `counts`: what each step costs in requests and events.
//!
//! Whatever happens, `audit` goes through the transactions with the rules of `rules`: who held when, whether each write
//! under a lock was its holder's, whether each guard was given in its turn and with its token. And whenever nothing is left
//! to do `calm` looks for what is left behind and for who waits in vain, before time moves.

mod audit;
mod calm;
mod contender;
mod counts;
mod drops;
mod fate;
mod random;
mod recipe;
mod requests;
mod rules;
mod schedules;
mod stage;
mod store;
mod sweep;
mod tally;
