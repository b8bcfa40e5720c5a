//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::echo::Flavor;
use crate::peer::Kind;

/// Measures our server beside a bare echo and beside Apache ZooKeeper, on the same machine in the same run.
#[derive(Debug, Parser)]
#[command(name = "cargo bench --bench server --")]
pub(crate) struct Args {
    /// Servers to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Kind::Echo, Kind::Zoolet, Kind::InProcess, Kind::Apache])]
    pub(crate) peers: Vec<Kind>,
    /// Workloads and figures whose name begins with one of these; all if not given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// One short round, for a look.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How often each workload is run on each server; the median counts.
    #[arg(long)]
    rounds: Option<usize>,
    /// Milliseconds that a workload is run at a time.
    #[arg(long)]
    time: Option<u64>,
    /// Seconds that Apache ZooKeeper is warmed up with the chosen workloads.
    #[arg(long)]
    warm_up: Option<u64>,
    /// Keeps the cores from sleeping, so that wake-ups cost the same in every run.
    #[arg(long)]
    pub(crate) busy: bool,
    /// The runtime of the echo; it should be that of the server.
    #[arg(long, value_enum, default_value_t = Flavor::CurrentThread)]
    pub(crate) runtime: Flavor,
    /// The server's binary, if not the one that lies beside this bench.
    #[arg(long)]
    pub(crate) zoolet: Option<PathBuf>,
    /// Prints the names of workloads and figures.
    #[arg(long)]
    pub(crate) list: bool,
    /// What Cargo adds to tell a bench from a test.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

/// What the program is when it starts itself again as another process.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
pub(crate) enum Role {
    /// What keeps a core from sleeping.
    Spin,
    /// The echo server.
    Echo {
        #[arg(long, value_enum)]
        runtime: Flavor,
        #[arg(long)]
        port: u16,
    },
}

impl Args {
    /// Whether a workload or figure of this name was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.time.unwrap_or(if self.quick { 500 } else { 1200 }))
    }

    /// How long a server is used before it is measured. Only a JVM needs long.
    pub(crate) fn warm_up(&self, kind: Kind) -> Duration {
        let seconds = match kind {
            Kind::Apache => self.warm_up.unwrap_or(20),
            Kind::Echo | Kind::Zoolet | Kind::InProcess => 1,
        };
        Duration::from_secs(seconds)
    }
}
