//! `zoolet conform --client`: judges the ZooKeeper client in a command, in one run for each scenario.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use zoolet_conformance::{ClientCheck, ClientScenario, ClientVerdict, Mistake};
use zoolet_server::Server;

use crate::failure::Failure;
use crate::json;
use crate::kit::KitFailure;
use crate::output::Lines;

/// Short, so that a scenario in which nobody pings is over soon.
const MAX_SESSION_TIMEOUT: Duration = Duration::from_secs(6);
const TICK: Duration = Duration::from_millis(500);

/// The arguments of the judgement of clients.
#[derive(Debug, clap::Args)]
pub(super) struct Clients {
    /// Judge the ZooKeeper client in a command, which stands after `--`
    #[arg(long, conflicts_with_all = ["server", "cases", "junit", "reference", "check_history"])]
    pub(super) client: bool,
    /// How long the command may take in each scenario
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "client", conflicts_with = "server", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// The command, with `{}` where the addresses of the servers are to stand; they are also in the environment, as ZOOKEEPER
    #[arg(last = true, value_name = "COMMAND", requires = "client", conflicts_with = "server")]
    command: Vec<OsString>,
}

impl Clients {
    /// Runs the command in each scenario. The exit code is 1 if one shows a mistake, or could not take place.
    pub(super) async fn run(
        self,
        list: bool,
        only: &[glob::Pattern],
        json: bool,
    ) -> Result<ExitCode, Failure> {
        let all = ClientScenario::all().iter();
        if let Some(only) = only.iter().find(|only| !all.clone().any(|one| only.matches(one.name()))) {
            return Err(KitFailure::NoSuchScenario { only: only.to_string() }.into());
        }
        let is_chosen =
            |one: &&ClientScenario| only.is_empty() || only.iter().any(|only| only.matches(one.name()));
        let scenarios = all.filter(is_chosen);
        let mut lines = Lines::new();
        if list {
            for scenario in scenarios {
                lines.line(&format!("{:20} {}", scenario.name(), scenario.fact()))?;
            }
            return lines.end();
        }
        if self.command.is_empty() {
            return Err(KitFailure::NoCommand.into());
        }
        let (begun, mut verdicts) = (Instant::now(), Vec::new());
        for scenario in scenarios {
            let verdict = self.judge(scenario).await?;
            if json {
                lines.line(&to_json(scenario, &verdict))?;
            } else {
                report(scenario, &verdict, &mut lines)?;
            }
            // A run takes seconds: each is shown when it is over.
            lines.flush()?;
            verdicts.push(verdict);
        }
        let passed = verdicts.iter().filter(|verdict| verdict.has_passed()).count();
        if !json {
            lines.line(&format!(
                "{} scenarios, {passed} passed, {} not exercised, {} mistakes, in {:.1} s",
                verdicts.len(),
                verdicts.iter().filter(|verdict| verdict.not_exercised.is_some()).count(),
                verdicts.iter().map(|verdict| verdict.mistakes.len()).sum::<usize>(),
                begun.elapsed().as_secs_f64()
            ))?;
            lines.flush()?;
        }
        Ok(if passed == verdicts.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Runs the command once, with a server of its own.
    async fn judge(&self, scenario: &ClientScenario) -> Result<ClientVerdict, Failure> {
        let builder = Server::builder().bind("127.0.0.1:0").tick_time(TICK);
        let server = builder.max_session_timeout(MAX_SESSION_TIMEOUT).start().await?;
        let address = server.addrs().first().copied().ok_or_else(|| Failure::System {
            action: "start a server",
            source: io::Error::other("it has no address"),
        })?;
        let limit = Duration::from_secs(self.limit);
        let check = ClientCheck { server: address, command: self.command.clone(), limit };
        let verdict = check.run(scenario).await;
        server.shutdown().await;
        Ok(verdict?)
    }
}

/// A line for the scenario, and some for each mistake.
fn report(scenario: &ClientScenario, verdict: &ClientVerdict, lines: &mut Lines) -> Result<(), Failure> {
    let name = scenario.name();
    let count = match verdict.mistakes.len() {
        0 => "no mistake".to_owned(),
        1 => "1 MISTAKE".to_owned(),
        more => format!("{more} MISTAKES"),
    };
    let exercised = match &verdict.not_exercised {
        None => "exercised".to_owned(),
        Some(reason) => format!("NOT EXERCISED: {reason}"),
    };
    lines.line(&format!("{name:20} {count}, {exercised}"))?;
    for Mistake { rule, reason, frame, again } in &verdict.mistakes {
        let again = if *again > 0 { format!(" (and {again} more frames)") } else { String::new() };
        lines.line(&format!("    {rule}: {reason}{again}"))?;
        lines.line(&format!("      rule:  {}", rule.meaning()))?;
        lines.line(&format!("      frame: {frame}"))?;
        lines.line(&format!("      bytes: {}", frame.hex))?;
    }
    if let Some((what, last)) = &verdict.failure {
        lines.line(&format!("    {what}"))?;
        for line in last {
            lines.line(&format!("      stderr: {line}"))?;
        }
    }
    Ok(())
}

fn to_json(scenario: &ClientScenario, verdict: &ClientVerdict) -> String {
    let mistake = |mistake: &Mistake| {
        json!({
            "rule": mistake.rule.name(),
            "reason": mistake.reason,
            "connection": mistake.frame.connection,
            "seconds": mistake.frame.at.as_secs_f64().to_string(),
            "frame": mistake.frame.line,
            "bytes": mistake.frame.hex,
            "again": mistake.again,
        })
    };
    let failure = verdict.failure.as_ref().map(|(what, last)| json!({"failure": what, "stderr": last}));
    json::line(&json::joined([
        json!({
            "scenario": scenario.name(),
            "outcome": if verdict.has_passed() { "passed" } else { "failed" },
            "mistakes": verdict.mistakes.iter().map(mistake).collect::<Vec<_>>(),
        }),
        verdict.not_exercised.as_ref().map(|reason| json!({"not_exercised": reason})).unwrap_or_default(),
        failure.unwrap_or_default(),
    ]))
}
