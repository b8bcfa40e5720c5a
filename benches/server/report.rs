//! Turns samples into medians, ratios and JSON lines.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::finding::{Bound, Finding};
use crate::goal::{Comparison, Goal};
use crate::peer::Kind;
use crate::workload::{Sample, Workload};

/// The figures of one run of a workload, or their medians over several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// The server's CPU time per operation, in microseconds.
    pub(crate) cpu: f64,
    /// The kernel's share of it.
    pub(crate) in_kernel: f64,
    /// Operations per second.
    pub(crate) rate: f64,
    /// Latencies in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// Operations per second of another session meanwhile; 0 if there is none.
    pub(crate) beside: f64,
}

impl Figures {
    pub(crate) fn of(sample: &Sample) -> Self {
        let ops = sample.ops.max(1) as f64;
        Self {
            cpu: sample.cpu.time.as_secs_f64() * 1e6 / ops,
            in_kernel: sample.cpu.in_kernel(),
            rate: ops / sample.elapsed.as_secs_f64(),
            p50: sample.latencies.micros(0.5),
            p99: sample.latencies.micros(0.99),
            p999: sample.latencies.micros(0.999),
            beside: sample.beside.0 as f64 / sample.beside.1.as_secs_f64().max(f64::MIN_POSITIVE),
        }
    }

    /// The median of each figure; `None` without samples.
    pub(crate) fn median(rounds: &[Self]) -> Option<Self> {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure).collect());
        Some(Self {
            cpu: of(|f| f.cpu)?,
            in_kernel: of(|f| f.in_kernel)?,
            rate: of(|f| f.rate)?,
            p50: of(|f| f.p50)?,
            p99: of(|f| f.p99)?,
            p999: of(|f| f.p999)?,
            beside: of(|f| f.beside)?,
        })
    }
}

/// The median.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let above = *values.get(values.len() / 2)?;
    let below = values[(values.len() - 1) / 2];
    Some(f64::midpoint(above, below))
}

/// The samples of each server.
pub(crate) struct Row {
    pub(crate) workload: &'static Workload,
    pub(crate) peers: Vec<(Kind, Vec<Figures>)>,
}

impl Row {
    /// The ratio of the figures of `above` and `below`: the median of the ratios of each round, as servers of one round ran
    /// closest together.
    fn ratio(&self, above: Kind, below: Kind, figure: fn(&Figures) -> f64) -> Option<f64> {
        let rounds = |kind| self.peers.iter().find(|(peer, _)| *peer == kind).map(|(_, rounds)| rounds);
        let pairs = rounds(above)?.iter().zip(rounds(below)?);
        median(pairs.map(|(above, below)| figure(above) / figure(below)).collect())
    }
}

/// Prints the figures as a table.
pub(crate) fn figures(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:<20} {:<12} {:>12} {:>9} {:>12} {:>9} {:>9} {:>9} {:>10}",
        "workload", "server", "CPU us/op", "in kernel", "ops/s", "p50 us", "p99 us", "p99.9 us", "writes/s"
    )?;
    for row in rows {
        for (kind, rounds) in &row.peers {
            let Some(f) = Figures::median(rounds) else { continue };
            let (p50, p99, p999) = (Short(f.p50), Short(f.p99), Short(f.p999));
            let beside = if f.beside > 0.0 { format!("{:.0}", f.beside) } else { String::new() };
            writeln!(
                out,
                "{:<20} {kind:<12} {:>12.2} {:>8.0}% {:>12.0} {p50:>9} {p99:>9} {p999:>9} {beside:>10}",
                row.workload.name,
                f.cpu,
                f.in_kernel * 100.0,
                f.rate
            )?;
        }
    }
    Ok(())
}

/// Prints the comparison of our server with the goals.
pub(crate) fn ratios(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nServer CPU per operation compared (goal in parentheses; `-` if there is nothing to compare)\n"
    )?;
    writeln!(
        out,
        "{:<15} {:<24} {:<24} {:<15} apache / in-process",
        "workload", "zoolet / echo", "apache / zoolet", "apache / echo"
    )?;
    for row in rows {
        let cpu = |above, below| row.ratio(above, below, |figures| figures.cpu);
        let goal = Goal::of(row.workload);
        writeln!(
            out,
            "{:<15} {:<24} {:<24} {:<15} {}",
            row.workload.name,
            judged(cpu(Kind::Zoolet, Kind::Echo), goal.of_echo.map(Bound::AtMost)),
            judged(cpu(Kind::Apache, Kind::Zoolet), goal.below_apache.map(Bound::AtLeast)),
            judged(cpu(Kind::Apache, Kind::Echo), None),
            judged(cpu(Kind::Apache, Kind::InProcess), None),
        )?;
        if let Some(ratio) = cpu(Kind::Measured, Kind::Zoolet) {
            writeln!(out, "{:<15} {}", "  its metrics", judged(Some(ratio), Some(Bound::AtMost(1.03))))?;
        }
        if let Some(wanted) = goal.faster_than_apache {
            let p50 = row.ratio(Kind::Apache, Kind::Zoolet, |figures| figures.p50);
            writeln!(out, "{:<15} {:<24} {}", "  its p50", "", judged(p50, Some(Bound::AtLeast(wanted))))?;
        }
    }
    Ok(())
}

/// Prints the comparison of servers on disk with the goals.
pub(crate) fn goals(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nServers on disk compared (goal in parentheses; `-` if there is nothing to compare)\n")?;
    for row in rows {
        for Comparison { about, figure, above, below, bound } in Comparison::of(row.workload) {
            let ratio = judged(row.ratio(above, below, figure), bound);
            writeln!(out, "{:<22} {about:<28} {ratio}", row.workload.name)?;
        }
    }
    Ok(())
}

/// A ratio with its goal.
fn judged(ratio: Option<f64>, goal: Option<Bound>) -> String {
    match (ratio, goal) {
        (None, _) => "-".into(),
        (Some(ratio), None) => format!("{ratio:.2}"),
        (Some(ratio), Some(goal)) => format!("{ratio:.2} {}", goal.judge(ratio)),
    }
}

/// A number with about three significant digits.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0 {
            x if x < 10.0 => 2,
            x if x < 100.0 => 1,
            _ => 0,
        };
        f.pad(&format!("{:.digits$}", self.0))
    }
}

/// A file with one line of JSON per sample.
pub(crate) struct Lines {
    pub(crate) path: PathBuf,
    file: File,
}

impl Lines {
    /// Creates an empty file in the folder.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join("server.jsonl");
        Ok(Self { file: File::create(&path)?, path })
    }

    /// Adds a line. No field here needs escaping.
    pub(crate) fn add(&mut self, workload: &str, kind: Kind, round: usize, f: Figures) -> io::Result<()> {
        let Figures { cpu, in_kernel, rate, p50, p99, p999, beside } = f;
        writeln!(
            self.file,
            r#"{{"workload":"{workload}","server":"{kind}","round":{round},"cpu_us_per_op":{cpu:.3},"in_kernel":{in_kernel:.2},"ops_per_s":{rate:.1},"p50_us":{p50:.2},"p99_us":{p99:.2},"p999_us":{p999:.2},"beside_per_s":{beside:.0}}}"#
        )
    }

    /// Adds a line for the CPU time of one operation on a tree of so many znodes.
    pub(crate) fn add_size(&mut self, figure: &str, znodes: u64, cpu: f64) -> io::Result<()> {
        writeln!(self.file, r#"{{"figure":"{figure}","znodes":{znodes},"cpu_us_per_op":{cpu:.3}}}"#)
    }

    /// Adds a line for a single figure.
    pub(crate) fn add_finding(&mut self, Finding { name, value, unit, .. }: &Finding) -> io::Result<()> {
        writeln!(self.file, r#"{{"figure":"{name}","value":{value:.3},"unit":"{unit}"}}"#)
    }
}
