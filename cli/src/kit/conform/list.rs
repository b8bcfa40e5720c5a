//! `zoolet conform --list` and `--matrix`: what the catalogue has, without a server.

use std::process::ExitCode;

use zoolet_conformance::{Case, Catalogue, Matrix};

use crate::failure::Failure;
use crate::output::Lines;

/// A line for each case.
pub(super) fn list(cases: &[Case]) -> Result<ExitCode, Failure> {
    let mut lines = Lines::new();
    for case in cases {
        let settings: Vec<_> = case.with().iter().map(ToString::to_string).collect();
        let needs =
            if settings.is_empty() { String::new() } else { format!(" [with {}]", settings.join(", ")) };
        lines.line(&format!("{:40} {}{needs}", case.name(), case.fact()))?;
    }
    lines.end()
}

/// A line for each operation, and for each order of checks that no case shows.
pub(super) fn matrix(catalogue: &Catalogue) -> Result<ExitCode, Failure> {
    let matrix = Matrix::of(catalogue);
    let mut lines = Lines::new();
    let (mut shown, mut holes) = (0, 0);
    for (operation, answers) in &matrix.answers {
        let counted = answers.iter().map(|(answer, count)| match count {
            0 => format!("{answer} MISSING"),
            count => format!("{answer} {count}"),
        });
        let counted: Vec<_> = counted.collect();
        holes += answers.iter().filter(|(_, count)| *count == 0).count();
        shown += answers.iter().filter(|(_, count)| *count > 0).count();
        lines.line(&format!("{operation:22} {}", counted.join(", ")))?;
    }
    for (operation, order, case) in &matrix.orders {
        if case.is_none() {
            lines.line(&format!("{operation:22} MISSING: {order}"))?;
        }
    }
    for (operation, answer) in &matrix.unknown {
        lines.line(&format!("{operation:22} {answer} is in no table"))?;
    }
    let orders = matrix.orders.iter().filter(|(.., case)| case.is_some()).count();
    lines.line(&format!(
        "{shown} of {} answers and {orders} of {} orders of checks are shown",
        shown + holes,
        matrix.orders.len()
    ))?;
    lines.end()
}
