//! What `zoolet conform` reports: cases as they end, and at the end for people and in the format of JUnit.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde_json::json;
use zoolet_conformance::{Case, CaseOutcome, Failure as CaseFailure, Profile, Setting};

use super::{Conform, Judged};
use crate::failure::Failure;
use crate::json;
use crate::output::Lines;

impl Conform {
    /// Shows a case that was run: a failure with all that belongs to it, and as JSON a success as well.
    pub(super) fn show(&self, server: &str, judged: &Judged, lines: &mut Lines) -> Result<(), Failure> {
        match &judged.outcome {
            _ if self.json => lines.line(&to_json(judged))?,
            CaseOutcome::Passed => return Ok(()),
            CaseOutcome::Failed(failure) => {
                lines.line(&format!("{} failed: {}", judged.case.name(), failure.reason))?;
                lines.line(&self.details(server, &judged.case, failure))?;
            }
        }
        lines.flush()
    }

    /// What was sent, what was expected and what came, and how to see it again.
    fn details(&self, server: &str, case: &Case, failure: &CaseFailure) -> String {
        let mut text = format!("    what it shows: {}", case.fact());
        // Where the cases of a file are from, nobody knows.
        if self.cases.is_none() {
            let releases: Vec<_> = case.recorded_on().collect();
            text.push_str(&format!(" (Apache ZooKeeper {})", releases.join(", ")));
        }
        text.push('\n');
        text.push_str(&failure.to_string());
        if let Some(row) = case.deviates() {
            text.push_str(&format!("    Zoolet does so by decision: {row}\n"));
        }
        let mut again = format!("zoolet conform {server}{}", self.reach.text());
        if self.profile != Profile::V3_9 {
            again.push_str(&format!(" --profile {}", self.profile));
        }
        again.extend(case.with().iter().map(argument));
        if let Some(file) = &self.cases {
            again.push_str(&format!(" --cases {}", file.display()));
        }
        text.push_str(&format!("    again: {again} --only {}", case.name()));
        text
    }

    pub(super) fn junit(&self, server: &str, judged: &[Judged]) -> Report {
        let mut report = Report::new("zoolet conform");
        let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
        for Judged { case, outcome, took } in judged {
            let status = match outcome {
                CaseOutcome::Passed => TestCaseStatus::success(),
                CaseOutcome::Failed(failure) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(&failure.reason).set_description(self.details(server, case, failure));
                    status
                }
            };
            let mut test = TestCase::new(case.name(), status);
            test.set_time(*took);
            let suite = suites.entry(case.group()).or_insert_with(|| TestSuite::new(case.group()));
            suite.add_test_case(test);
        }
        report.add_test_suites(suites.into_values());
        report
    }
}

/// A line for each group, and one for all.
pub(super) fn summary(
    server: &str,
    judged: &[Judged],
    left_out: usize,
    took: Duration,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let count_failed = |judged: &[Judged]| judged.iter().filter(|judged| judged.has_failed()).count();
    for group in judged.chunk_by(|one, next| one.case.group() == next.case.group()) {
        let failed = count_failed(group);
        let passed = group.len() - failed;
        let failed = if failed > 0 { format!(", {failed} FAILED") } else { String::new() };
        let name = group.first().map_or("", |judged| judged.case.group());
        lines.line(&format!("{name:10} {passed:4} passed{failed}"))?;
    }
    let failed = count_failed(judged);
    let left_out = if left_out > 0 { format!(", {left_out} not run") } else { String::new() };
    lines.line(&format!(
        "{server}: {} cases, {} passed, {failed} failed{left_out}, in {:.1} s",
        judged.len(),
        judged.len() - failed,
        took.as_secs_f64()
    ))?;
    lines.flush()
}

/// Shows how many of `what` are done, if somebody is looking.
pub(super) fn progress(done: usize, total: usize, what: &str) {
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let end = if done == total { "\r\x1b[K" } else { "" };
        let _ = write!(stderr, "\r{done} of {total} {what}{end}");
    }
}

/// Says which settings were found, if any were.
pub(super) fn say_settings(server: &str, found: &[Setting], lines: &mut Lines) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    lines.line(&format!("{server} has {}", found.join(", ")))
}

/// The argument for a server that has a setting.
pub(super) fn argument(setting: &Setting) -> String {
    match setting {
        Setting::Super => " --super USER:PASSWORD".to_owned(),
        setting => format!(" --with {setting}"),
    }
}

fn to_json(Judged { case, outcome, took }: &Judged) -> String {
    let outcome = match outcome {
        CaseOutcome::Passed => json!({"outcome": "passed"}),
        CaseOutcome::Failed(failure) => json::joined([
            json!({"outcome": "failed", "reason": failure.reason, "steps": failure.steps}),
            case.deviates().map(|row| json!({"deviates": row})).unwrap_or_default(),
            failure.came.as_ref().map(|came| json!({"came": came})).unwrap_or_default(),
        ]),
    };
    json::line(&json::joined([
        json!({
            "case": case.name(),
            "fact": case.fact(),
            "recorded_on": case.recorded_on().collect::<Vec<_>>(),
            "milliseconds": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }),
        outcome,
    ]))
}
