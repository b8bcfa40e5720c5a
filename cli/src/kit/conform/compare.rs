//! `zoolet conform --reference A --candidate B`: compares two servers by random requests.

use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use zoolet_conformance::{Difference, Fuzz, Setting};

use super::report::{argument, progress, say_settings};
use super::{Conform, JUDGING, run_number};
use crate::failure::Failure;
use crate::json;
use crate::kit::interrupt::Interrupt;
use crate::output::Lines;

/// The arguments of the comparison.
#[derive(Debug, clap::Args)]
pub(super) struct Compare {
    /// Compare the answers of --candidate to random requests with those of this server; nobody else may use either
    #[arg(long, value_name = "HOST:PORT", requires = "candidate", conflicts_with_all = ["server", "list", "only", "cases", "junit"])]
    pub(super) reference: Option<String>,
    /// The server to compare with --reference
    #[arg(long, value_name = "HOST:PORT", requires = "reference")]
    pub(super) candidate: Option<String>,
    /// What random requests are drawn from; of several seeds the first
    #[arg(long, value_name = "N", default_value = "1", conflicts_with_all = ["server", "list", "matrix", "client"])]
    pub(super) seed: u64,
    /// How many seeds, one after the other
    #[arg(long, value_name = "COUNT", default_value = "7", requires = "reference", value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    /// About how many requests for each seed
    #[arg(long, value_name = "COUNT", default_value = "5000", requires = "reference", value_parser = clap::value_parser!(u32).range(1..))]
    ops: u32,
}

impl Compare {
    /// Compares two servers. The exit code is 1 if they differ.
    pub(super) async fn run(
        &self,
        conform: &Conform,
        (reference, candidate): (&str, &str),
        mut interrupt: Interrupt,
    ) -> Result<ExitCode, Failure> {
        let preparing = async {
            let one = conform.reach.server(reference, JUDGING).await?;
            let other = conform.reach.server(candidate, JUDGING).await?;
            let fuzz = Fuzz::new(&one, &other, run_number(), conform.timeout).await?;
            Ok(fuzz.with(&conform.with))
        };
        let mut fuzz = interrupt.during(preparing).await?;
        let credentials = conform.super_credentials.as_deref();
        let mut with = conform.reach.text();
        with.extend(conform.with.iter().map(argument));
        with.extend(credentials.map(|_| argument(&Setting::Super)));
        let finding = async {
            if let Some(credentials) = credentials {
                fuzz.set_super_credentials(credentials).await?;
            }
            Ok(fuzz.find_settings().await?)
        };
        let found = interrupt.during(finding).await;
        let comparing = async {
            let found = found?;
            if !conform.json {
                let mut lines = Lines::new();
                for (server, found) in [reference, candidate].into_iter().zip(&found) {
                    say_settings(server, found, &mut lines)?;
                }
                lines.flush()?;
            }
            self.compare(&fuzz, (reference, candidate), &with, conform.json).await
        };
        interrupt.then_clean_up(comparing, fuzz.finish()).await
    }

    async fn compare(
        &self,
        fuzz: &Fuzz,
        (reference, candidate): (&str, &str),
        with: &str,
        json: bool,
    ) -> Result<ExitCode, Failure> {
        let begun = Instant::now();
        let mut lines = Lines::new();
        let mut differing = 0;
        for at in 0..self.seeds {
            let seed = self.seed.wrapping_add(at.into());
            let difference = fuzz.run(seed, self.ops as usize).await?;
            differing += usize::from(difference.is_some());
            match difference {
                difference if json => lines.line(&object(seed, difference.as_ref()))?,
                Some(difference) => {
                    let again = format!(
                        "zoolet conform --reference {reference} --candidate {candidate}{with} --seed {seed} --seeds 1 --ops {}",
                        self.ops
                    );
                    lines.line(&text(&difference, &again))?;
                }
                None => {}
            }
            lines.flush()?;
            progress(at as usize + 1, self.seeds as usize, "seeds");
        }
        if !json {
            lines.line(&format!(
                "{candidate} and {reference}: {} seeds of {} requests, {differing} with a difference, in {:.1} s",
                self.seeds,
                self.ops,
                begun.elapsed().as_secs_f64()
            ))?;
        }
        lines.flush()?;
        Ok(if differing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn text(difference: &Difference, again: &str) -> String {
    let Difference { case, reference, candidate, repeats } = difference;
    let doubt = if *repeats {
        ""
    } else {
        "    they did not differ when all was sent once more: has somebody else used a server?\n"
    };
    format!(
        "{case}\n    the reference sent:\n      {}\n    the candidate sent:\n      {}\n{doubt}    again: {again}\n",
        reference.join("\n      "),
        candidate.join("\n      "),
    )
}

fn object(seed: u64, difference: Option<&Difference>) -> String {
    json::line(&match difference {
        None => json!({"seed": seed, "outcome": "equal"}),
        Some(Difference { case, reference, candidate, repeats }) => json!({
            "seed": seed,
            "outcome": "different",
            "case": case,
            "repeats": repeats.to_string(),
            "reference": reference,
            "candidate": candidate,
        }),
    })
}
