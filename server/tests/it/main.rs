//! The server and its fixture, by raw frames.

mod common;
mod faults;
mod fixture;
mod four_letter_words;
