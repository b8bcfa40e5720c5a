//! Single figures with their goals.

use std::io::{self, Write};

/// The goal of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Bound {
    /// The goal as text, and whether the value meets it.
    pub(crate) fn judge(self, value: f64) -> String {
        let (sign, bound, met) = match self {
            Self::AtMost(bound) => ("<=", bound, value <= bound),
            Self::AtLeast(bound) => (">=", bound, value >= bound),
        };
        format!("({sign} {bound}) {}", if met { "met" } else { "MISSED" })
    }
}

/// A measured figure.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    /// Its name in reports and on the command line.
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) about: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) goal: Option<Bound>,
}

/// Prints figures as a table.
pub(crate) fn table(findings: &[Finding], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{:<22} {:>12} {:<9} {:<20} measured", "figure", "value", "unit", "goal")?;
    for Finding { name, about, value, unit, goal } in findings {
        let goal = goal.map_or("-".into(), |goal| goal.judge(*value));
        writeln!(out, "{name:<22} {value:>12.2} {unit:<9} {goal:<20} {about}")?;
    }
    Ok(())
}
