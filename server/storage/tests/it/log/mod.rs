//! The files of the log.

mod file;
mod spare;
