//! Faults one by one, as a single connection sees them: order, timing, and what the record says.

mod delays;
mod drips;
mod endpoints;
mod freezing;
mod held;
mod losses;
mod matching;
mod mistakes;
mod random;
mod room;
mod story;
mod threads;
mod unchanged;
