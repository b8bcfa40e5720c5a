//! The commands of the conformance kit: `conform`, `capture`, `show` and `replay`.

mod capture;
mod conform;
mod failure;
mod interrupt;
mod reach;
mod replay;
mod show;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use failure::KitFailure;

use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum KitCommand {
    /// Judge whether a server speaks the protocol as Apache ZooKeeper does
    Conform(Box<conform::Conform>),
    /// Record what clients and a server say to each other, as a proxy between them
    Capture(capture::CaptureArguments),
    /// Print a capture as text
    Show(show::Show),
    /// Send a capture again, and compare what comes
    Replay(replay::ReplayArguments),
}

impl KitCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Conform(conform) => conform.run(),
            Self::Capture(capture) => capture.run(),
            Self::Show(show) => show.run(),
            Self::Replay(replay) => replay.run(),
        }
    }
}
