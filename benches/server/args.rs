//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::echo::Flavor;
use crate::peer::Kind;

/// Compares our server with a bare echo server and with Apache ZooKeeper, on the same machine in the same run.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench server --")]
pub(crate) struct Args {
    /// Servers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Echo, Kind::EchoThread, Kind::Zoolet, Kind::InProcess, Kind::Apache])]
    pub(crate) peers: Vec<Kind>,
    /// Run only workloads and figures whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Run one short round.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds of each workload on each server; the median is reported.
    #[arg(long)]
    rounds: Option<usize>,
    /// Milliseconds per run of a workload.
    #[arg(long)]
    time: Option<u64>,
    /// Seconds of warm-up for Apache ZooKeeper, with the chosen workloads.
    #[arg(long)]
    warm_up: Option<u64>,
    /// Keep the cores from sleeping, so that wake-ups cost the same in every run.
    #[arg(long)]
    pub(crate) busy: bool,
    /// The runtime of the echo server; it should be that of our server.
    #[arg(long, value_enum, default_value_t = Flavor::CurrentThread)]
    pub(crate) runtime: Flavor,
    /// Nanoseconds of work that the echo server does for each change, as a server with a state does.
    #[arg(long, default_value_t = 0)]
    pub(crate) echo_work: u64,
    /// Our server's binary, if not the one in the target folder of this bench.
    #[arg(long)]
    pub(crate) zoolet: Option<PathBuf>,
    /// Print the names of workloads and figures.
    #[arg(long)]
    pub(crate) list: bool,
    /// Added by Cargo to distinguish a bench from a test.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

/// The role of the program if it starts itself as another process.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
pub(crate) enum Role {
    /// Keeps a core from sleeping.
    Spin,
    /// The echo server.
    Echo {
        #[arg(long, value_enum)]
        runtime: Flavor,
        #[arg(long)]
        port: u16,
        /// Write changes to this file, and sync it, before they are answered.
        #[arg(long)]
        journal: Option<PathBuf>,
        /// Do that on a thread of its own.
        #[arg(long)]
        on_thread: bool,
        /// Nanoseconds of work for each change.
        #[arg(long)]
        work: u64,
    },
}

impl Args {
    /// Whether a workload or figure of this name is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// Whether `--only` selects it: what takes long does not run otherwise.
    pub(crate) fn names(&self, name: &str) -> bool {
        !self.only.is_empty() && self.wants(name)
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.time.unwrap_or(if self.quick { 500 } else { 1200 }))
    }

    /// The warm-up of a server. Only a JVM needs a long one.
    pub(crate) fn warm_up(&self, kind: Kind) -> Duration {
        let seconds = match kind {
            Kind::Apache => self.warm_up.unwrap_or(20),
            Kind::Echo | Kind::EchoThread | Kind::Zoolet | Kind::Measured | Kind::InProcess => 1,
        };
        Duration::from_secs(seconds)
    }
}
