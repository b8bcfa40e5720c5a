//! Completion of commands, flags and paths.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use clap::CommandFactory as _;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;
use tokio::time::timeout;
use zoolet_client::Client;

use crate::line::Line;
use crate::shell::resolve;
use crate::split;

/// How long the terminal waits for the names of znodes.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most names that are offered.
const MAX_NAMES: usize = 1_000;

/// Where relative paths begin.
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) current: String,
}

/// Completes what is before the cursor.
pub(super) struct Completion {
    runtime: Handle,
    place: Rc<RefCell<Place>>,
    command: clap::Command,
}

impl Completion {
    pub(super) fn new(runtime: Handle, place: Rc<RefCell<Place>>) -> Self {
        let mut command = Line::command();
        command.build();
        Self { runtime, place, command }
    }

    fn commands(&self) -> Vec<String> {
        let names = self.command.get_subcommands().map(|command| command.get_name().to_owned());
        names.chain(["quit".to_owned()]).collect()
    }

    fn flags(&self, command: &str) -> Vec<String> {
        let Some(command) = self.command.find_subcommand(command) else { return Vec::new() };
        command.get_arguments().filter_map(|flag| flag.get_long()).map(|flag| format!("--{flag}")).collect()
    }

    /// The children of the znode that a word names up to its last slash, each as a whole word.
    fn paths(&self, word: &str) -> Vec<String> {
        let written = word.rfind('/').map_or("", |at| &word[..=at]);
        let place = self.place.borrow();
        let path = resolve(&place.current, written);
        let listing = async { timeout(PATIENCE, place.client.get_children(path)).await };
        let Ok(Ok((mut names, _))) = self.runtime.block_on(listing) else { return Vec::new() };
        names.sort_unstable();
        names.into_iter().map(|name| format!("{written}{name}")).collect()
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let begin = split::last_begins(before);
        let word =
            split::words(&before[begin..]).and_then(|words| words.into_iter().next()).unwrap_or_default();
        let command = before.split_whitespace().next().unwrap_or_default();
        let all = match (before[..begin].trim().is_empty(), word.starts_with('-')) {
            (true, _) => self.commands(),
            (_, true) => self.flags(command),
            _ => self.paths(&word),
        };
        let matching = all.into_iter().filter(|candidate| candidate.starts_with(&word)).take(MAX_NAMES);
        let pairs = matching.map(|candidate| Pair {
            display: crate::text::shown(candidate.rsplit('/').next().unwrap_or_default()),
            replacement: split::escape(&candidate),
        });
        Ok((begin, pairs.collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
