//! `zoolet conform --check-history`: checks what concurrent clients see whose connections are cut.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use zoolet_conformance::{CheckError, HistoryCheck, HistoryReport, Runner};

use super::{Conform, JUDGING, finish, run_number};
use crate::failure::Failure;
use crate::json;
use crate::kit::KitFailure;
use crate::kit::interrupt::Interrupt;
use crate::output::Lines;

/// The arguments of the check.
#[derive(Debug, clap::Args)]
pub(super) struct Histories {
    /// Check what concurrent clients see, whose connections are cut; several servers, with commas between them, are an ensemble
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', conflicts_with_all = ["server", "list", "only", "cases", "junit", "reference"])]
    pub(super) check_history: Vec<String>,
    /// How many clients
    #[arg(long, value_name = "COUNT", default_value = "8", requires = "check_history", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// For how long
    #[arg(long, value_name = "SECONDS", default_value = "10", requires = "check_history", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

impl Histories {
    /// Runs the clients. The exit code is 1 if what they saw breaks a rule, and 2 if they did too little to tell.
    pub(super) async fn run(&self, conform: &Conform, mut interrupt: Interrupt) -> Result<ExitCode, Failure> {
        let seed = conform.compare.seed;
        let mut check = HistoryCheck {
            servers: self.check_history.clone(),
            clients: self.clients as usize,
            duration: Duration::from_secs(self.seconds),
            seed,
        };
        let preparing = async {
            for server in &mut check.servers {
                *server = conform.reach.server(server, JUDGING).await?;
            }
            let first = check.servers.first().map_or("", String::as_str);
            Ok(Runner::new(first, run_number(), conform.timeout).await?)
        };
        let runner = interrupt.during(preparing).await?;
        let checking = async {
            let report = check.run(&runner).await?;
            self.report(&report, seed, conform.json)
        };
        interrupt.then_clean_up(checking, finish(&runner)).await
    }

    fn report(&self, report: &HistoryReport, seed: u64, as_json: bool) -> Result<ExitCode, Failure> {
        let servers = self.check_history.join(",");
        let mut lines = Lines::new();
        if as_json {
            let outcome = match &report.checked {
                Err(CheckError::Violation(broken)) => {
                    json!({"outcome": "failed", "violation": broken.to_string()})
                }
                Err(CheckError::Undecided(why)) => json!({"outcome": "undecided", "reason": why.to_string()}),
                Ok(()) => json!({"outcome": "passed"}),
            };
            let run = json!({
                "servers": servers,
                "seed": seed,
                "answered": report.answered,
                "unanswered": report.unanswered,
                "cuts": report.cuts,
            });
            lines.line(&json::line(&json::joined([run, outcome])))?;
        } else {
            lines.line(&format!(
                "{servers}: {} operations of {} clients in {} s, {} without an answer, {} connections cut, seed {seed}",
                report.answered + report.unanswered,
                self.clients,
                self.seconds,
                report.unanswered,
                report.cuts
            ))?;
            lines.line(&match &report.checked {
                Err(CheckError::Violation(broken)) => format!("BROKEN: {broken}"),
                Err(CheckError::Undecided(_)) => "undecided".to_owned(),
                Ok(()) => "no rule is broken".to_owned(),
            })?;
        }
        lines.flush()?;
        match &report.checked {
            Err(CheckError::Violation(_)) => Ok(ExitCode::FAILURE),
            Err(CheckError::Undecided(why)) => Err(KitFailure::Undecided(why.to_string()).into()),
            Ok(()) => Ok(ExitCode::SUCCESS),
        }
    }
}
