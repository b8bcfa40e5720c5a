//! `grep`: the data of a tree that matches.

use regex::bytes::{Regex, RegexBuilder};

use super::walk;
use crate::failure::{ExitReason, ShellResult};
use crate::json;
use crate::shell::Shell;
use crate::text::shown;
use crate::walk::Reading;

/// The arguments of `grep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet grep -i 'timeout *=' /config")]
pub struct Grep {
    /// What to search for: a regular expression
    pattern: String,
    /// Where to begin
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// The pattern is text and not a regular expression
    #[arg(short = 'F', long)]
    fixed: bool,
    /// Upper and lower case are the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Print only the paths
    #[arg(short = 'l', long)]
    paths: bool,
    /// How many levels below
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
}

impl Grep {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let pattern = if self.fixed { regex::escape(&self.pattern) } else { self.pattern.clone() };
        let regex = RegexBuilder::new(&pattern).case_insensitive(self.ignore_case).multi_line(true).build();
        let regex = regex.map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default();
            shell.fail(
                ExitReason::Usage,
                format!("{pattern:?} is not a regular expression: {reason}; -F takes it as text"),
            )
        })?;
        let reading = Reading { data: true, depth: self.depth, ..Reading::default() };
        let mut is_found = false;
        walk(shell, &root, reading, &mut |shell, path, visit| {
            let Some(data) = visit.data.as_ref().filter(|data| regex.is_match(data)) else { return Ok(()) };
            is_found = true;
            if shell.json {
                return shell.json_line(&json::joined([json::visit(path, visit), json::data(data)]));
            }
            self.print(shell, path, data, &regex)
        })
        .await?;
        match is_found {
            true => Ok(()),
            false => Err(shell.fail(ExitReason::Absent, format!("nothing below {} matches", shown(&root)))),
        }
    }

    /// The lines that match, each after its path.
    fn print(&self, shell: &mut Shell<'_>, path: &str, data: &[u8], regex: &Regex) -> ShellResult {
        let path = shown(path);
        if self.paths {
            return shell.line(path);
        }
        let Ok(text) = std::str::from_utf8(data) else {
            return shell.line(format!("{path}: data that is not text matches"));
        };
        let matching: Vec<_> = text.lines().filter(|line| regex.is_match(line.as_bytes())).collect();
        if matching.is_empty() {
            return shell.line(format!("{path}: several lines together match"));
        }
        matching.iter().try_for_each(|line| shell.line(format!("{path}: {}", shown(line))))
    }
}
