//! `zoolet conform`: judges a server by the catalogue of `zoolet-conformance`.

mod clients;
mod compare;
mod histories;
mod list;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use zoolet_conformance::{Case, CaseOutcome, Catalogue, Profile, RunError, Runner, Setting};

use crate::duration;
use crate::failure::Failure;
use crate::kit::KitFailure;
use crate::kit::interrupt::Interrupt;
use crate::kit::reach::Reach;
use crate::output::{Lines, until_reader_leaves};
use crate::runtime;

use clients::Clients;
use compare::Compare;
use histories::Histories;
use list::{list, matrix};
use report::{progress, say_settings, summary};

/// The arguments of `zoolet conform`.
#[derive(Debug, clap::Args)]
pub(crate) struct Conform {
    /// The server to judge
    #[arg(value_name = "HOST:PORT", required_unless_present_any = ["list", "matrix", "reference", "check_history", "client"])]
    server: Option<String>,
    /// List the cases and what they show, and judge nothing
    #[arg(long)]
    list: bool,
    /// Count which answers of which operations the cases show, and judge nothing
    #[arg(long, conflicts_with = "list")]
    matrix: bool,
    /// Only cases whose name matches, such as 'delete/*'; can be given several times
    #[arg(long, value_name = "GLOB")]
    only: Vec<glob::Pattern>,
    /// The version of ZooKeeper that the server is to be like
    #[arg(long, value_name = "VERSION", default_value = "3.9")]
    profile: Profile,
    /// A setting that the server must have, of extended-types, enforce-quota and reconfig; can be given several times. Without it, they are found out
    #[arg(long, value_name = "SETTING", value_parser = switch)]
    with: Vec<Setting>,
    /// Credentials of the super user of the server, for the cases that need one; likewise of both servers that are compared
    #[arg(long = "super", value_name = "USER:PASSWORD", value_parser = credentials)]
    super_credentials: Option<String>,
    /// Take the cases from this file instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// How many cases run at the same time
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: u32,
    /// How long the server may take for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", conflicts_with = "client", value_parser = duration::interval)]
    timeout: Duration,
    #[command(flatten)]
    reach: Reach,
    /// Stop after this many failures: an answer that does not come costs --timeout
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_failures: Option<u32>,
    /// Print one JSON object for each case instead of the report
    #[arg(long)]
    json: bool,
    /// Also write a report in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    compare: Compare,
    #[command(flatten)]
    histories: Histories,
    #[command(flatten)]
    clients: Clients,
}

/// What begins a message about a server that does not serve.
const JUDGING: &str = "cannot judge ";

/// A case, its outcome, and how long that took.
struct Judged {
    case: Case,
    outcome: CaseOutcome,
    took: Duration,
}

impl Judged {
    fn has_failed(&self) -> bool {
        self.outcome != CaseOutcome::Passed
    }
}

impl Conform {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.matrix {
            return until_reader_leaves(matrix(&self.catalogue()?));
        }
        if self.list && !self.clients.client {
            return until_reader_leaves(list(&self.chosen()?));
        }
        let cases = if self.server.is_some() { self.chosen()? } else { Vec::new() };
        runtime::run(async {
            // In the context of the runtime, as signals come by way of it.
            let mut interrupt = Interrupt::listen(self.timeout)?;
            if let (Some(reference), Some(candidate)) = (&self.compare.reference, &self.compare.candidate) {
                return self.compare.run(&self, (reference, candidate), interrupt).await;
            }
            if !self.histories.check_history.is_empty() {
                return self.histories.run(&self, interrupt).await;
            }
            if self.clients.client {
                return interrupt.during(self.clients.run(self.list, &self.only, self.json)).await;
            }
            // Otherwise the arguments were refused.
            let server = self.server.as_deref().unwrap_or_default();
            self.judge(server, cases, interrupt).await
        })
    }

    fn catalogue(&self) -> Result<Catalogue, Failure> {
        let Some(file) = &self.cases else { return Ok(Catalogue::builtin()) };
        let text = fs::read_to_string(file).map_err(Failure::file("read", file))?;
        Ok(Catalogue::parse(&file.display().to_string(), &text)?)
    }

    /// The cases that match, for the version, whatever the settings of the server.
    fn chosen(&self) -> Result<Vec<Case>, Failure> {
        let catalogue = self.catalogue()?;
        for only in &self.only {
            if !catalogue.cases().iter().any(|case| only.matches(case.name())) {
                return Err(KitFailure::NoSuchCase { only: only.to_string() }.into());
            }
        }
        let is_chosen = |case: &&Case| {
            let matches = self.only.is_empty() || self.only.iter().any(|only| only.matches(case.name()));
            matches && case.is_for(self.profile) && (self.list || self.can_be_run(case))
        };
        let chosen: Vec<_> = catalogue.cases().iter().filter(is_chosen).cloned().collect();
        // That nothing was judged is not a pass.
        if chosen.is_empty() { Err(KitFailure::NoCaseLeft.into()) } else { Ok(chosen) }
    }

    /// Whether the settings that are given do not rule a case out. The other ones are found out, but for a super user.
    fn can_be_run(&self, case: &Case) -> bool {
        let has_super = self.super_credentials.is_some();
        let given = |setting: Setting| {
            if setting == Setting::Super { has_super } else { self.with.contains(&setting) }
        };
        case.with().iter().all(|setting| *setting != Setting::Super || has_super)
            && !case.without().iter().any(|setting| given(*setting))
    }

    /// Finds out the settings of the server that cases depend on and that were not given, and leaves out the cases that are not for it.
    async fn fitting(
        &self,
        server: &str,
        runner: &Runner,
        mut cases: Vec<Case>,
    ) -> Result<Vec<Case>, Failure> {
        let mut settings = self.with.clone();
        settings.extend(self.super_credentials.is_some().then_some(Setting::Super));
        let is_asked = |setting: &Setting| {
            !settings.contains(setting) && cases.iter().any(|case| case.settings().any(|one| one == *setting))
        };
        let asked: Vec<_> = Setting::ALL.into_iter().filter(is_asked).collect();
        let found = runner.find_settings(&asked).await?;
        if !self.json {
            let mut lines = Lines::new();
            say_settings(server, &found, &mut lines)?;
            lines.flush()?;
        }
        settings.extend(found);
        cases.retain(|case| case.is_with(&settings));
        if cases.is_empty() { Err(KitFailure::NoCaseLeft.into()) } else { Ok(cases) }
    }

    /// Runs cases, and removes what they have left, however that ends.
    async fn judge(
        &self,
        server: &str,
        cases: Vec<Case>,
        mut interrupt: Interrupt,
    ) -> Result<ExitCode, Failure> {
        let preparing = async {
            let reached = self.reach.server(server, JUDGING).await?;
            Ok(Runner::new(&reached, run_number(), self.timeout).await?)
        };
        let mut runner = interrupt.during(preparing).await?;
        let accepted = interrupt
            .during(async {
                match &self.super_credentials {
                    Some(credentials) => Ok(runner.set_super_credentials(credentials).await?),
                    None => Ok(()),
                }
            })
            .await;
        let runner = Arc::new(runner);
        let judging = async {
            accepted?;
            let cases = self.fitting(server, &runner, cases).await?;
            self.judge_all(server, &runner, cases).await
        };
        interrupt.then_clean_up(judging, finish(&runner)).await
    }

    /// Runs all cases, or until there are too many failures, and reports them.
    async fn judge_all(
        &self,
        server: &str,
        runner: &Arc<Runner>,
        cases: Vec<Case>,
    ) -> Result<ExitCode, Failure> {
        let (begun, total) = (Instant::now(), cases.len());
        let room = Arc::new(Semaphore::new(self.jobs as usize));
        let mut running = JoinSet::new();
        for (at, case) in cases.into_iter().enumerate() {
            let (runner, room) = (Arc::clone(runner), Arc::clone(&room));
            running.spawn(async move {
                let _permit = room.acquire().await;
                let begun = Instant::now();
                let outcome = runner.run(&case).await;
                (at, outcome.map(|outcome| Judged { case, outcome, took: begun.elapsed() }))
            });
        }
        let judged = self.collect(server, &mut running, total).await;
        // What is given up must not hold connections, nor create anything, while it is cleaned up.
        running.shutdown().await;
        let judged = judged?;
        let mut lines = Lines::new();
        if !self.json {
            summary(server, &judged, total - judged.len(), begun.elapsed(), &mut lines)?;
        }
        if let Some(file) = &self.junit {
            let report = self.junit(server, &judged).to_string().map_err(io::Error::other);
            let written = report.and_then(|report| fs::write(file, report));
            written.map_err(Failure::file("write", file))?;
        }
        Ok(if judged.iter().any(Judged::has_failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Shows cases as they end, and returns them in their order.
    async fn collect(
        &self,
        server: &str,
        running: &mut JoinSet<(usize, Result<Judged, RunError>)>,
        total: usize,
    ) -> Result<Vec<Judged>, Failure> {
        let mut judged = BTreeMap::new();
        let mut failures = 0;
        let mut lines = Lines::new();
        while let Some(done) = running.join_next().await {
            let (at, one) = done
                .map_err(|error| Failure::System { action: "run a case", source: io::Error::other(error) })?;
            let one = one?;
            failures += u32::from(one.has_failed());
            // What comes later may take long.
            self.show(server, &one, &mut lines)?;
            judged.insert(at, one);
            progress(judged.len(), total, "cases");
            if self.max_failures.is_some_and(|max| failures >= max) {
                running.shutdown().await;
            }
        }
        Ok(judged.into_values().collect())
    }
}

/// Removes what is left of a run.
async fn finish(runner: &Runner) -> Vec<RunError> {
    runner.finish().await.err().into_iter().collect()
}

/// Tells the znodes of this run from those of others on the same server.
fn run_number() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A setting that has no value.
fn switch(text: &str) -> Result<Setting, String> {
    match text.parse()? {
        Setting::Super => Err("give the credentials with --super USER:PASSWORD".to_owned()),
        setting => Ok(setting),
    }
}

/// User and password.
fn credentials(text: &str) -> Result<String, String> {
    if text.contains(':') { Ok(text.to_owned()) } else { Err("it has no `:`".to_owned()) }
}
