//! `zoolet sh`: lines that are edited, remembered and completed.

mod complete;

use std::cell::RefCell;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::rc::Rc;

use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::history::{FileHistory, History as _};
use rustyline::{CompletionType, DefaultEditor, Editor};
use tokio::runtime::Runtime;
use zoolet_client::SessionState;

use crate::answer::ShellIo;
use crate::clusters::user_file;
use crate::colour;
use crate::connect::ConnectArguments;
use crate::failure::{ShellError, ShellResult};
use crate::invocation::{OutputArguments, ProcessArguments, start_runtime, until_interrupted};
use crate::line::DEFAULT_HISTORY;
use crate::shell::{Connected, Shell};
use crate::text::shown;
use complete::{Completion, Place};

/// Most lines that are remembered.
const HISTORY: usize = 10_000;

/// The arguments of `sh`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without a terminal, it runs the lines of its input and ends at the first that fails, with its exit code.\n\
    Example: zoolet sh zk1:2181,zk2:2181/app"
)]
pub struct ShellArguments {
    /// As --server
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
    #[command(flatten)]
    process: ProcessArguments,
}

/// Runs a shell until its input ends.
///
/// # Errors
/// If there is no session to begin with, or if a line fails and nobody is at the terminal.
pub fn run_shell(mut arguments: ShellArguments) -> Result<(), ShellError> {
    let ProcessArguments { output, connect } = arguments.process;
    let address = arguments.address.take().unwrap_or_else(|| connect.server.clone());
    let place = Rc::new(RefCell::new(connect.at(&address)?));
    let runtime = start_runtime()?;
    let outcome = converse(&runtime, &output, &connect, &place);
    runtime.shutdown_background();
    outcome
}

/// `flags` are those of any cluster, and `servers` is where the shell is.
fn converse(
    runtime: &Runtime,
    output: &OutputArguments,
    flags: &ConnectArguments,
    servers: &Rc<RefCell<ConnectArguments>>,
) -> ShellResult {
    // Before anything listens for Ctrl-C: it takes the signal for itself, and whoever listens later passes it on.
    let mut editor = editor()?;
    let first = servers.borrow().clone();
    let connected = runtime.block_on(until_interrupted(first.connect("sh")))?;
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    // The notes lose their colours where they are not wanted.
    let (mut out, mut notes) = (io::stdout(), anstream::stderr());
    let mut io = ShellIo::new(&mut out, &mut notes);
    io.is_terminal = is_terminal;
    io.is_coloured = colour::is_wanted(&io::stdout());
    if is_terminal {
        io = io.ask(ask_at_terminal);
    }
    let mut shell = Shell::connected(connected, io)
        .json(output.json)
        .timeout(first.timeout)
        .sessions(|others| flags.sessions(&servers.borrow(), others))
        .connects(|address| Box::pin(connect(flags, servers, address)));
    shell.is_many = true;
    let place = Rc::new(RefCell::new(Place { client: shell.client.clone(), current: "/".to_owned() }));
    editor.set_helper(Some(Completion::new(runtime.handle().clone(), Rc::clone(&place))));
    let history = user_file("XDG_STATE_HOME", ".local/state", "zoolet/history");
    if let Some(file) = history.as_ref().filter(|_| is_terminal) {
        // There is none at first.
        let _ = editor.load_history(file);
    }
    let mut number = 0;
    let outcome = loop {
        number += 1;
        let line = match editor.readline(&prompt(&shell)) {
            Ok(line) => line,
            // Ctrl-C begins another line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break Ok(()),
            Err(error) => break Err(ShellError::local("read a line", &io::Error::other(error))),
        };
        let line = line.trim();
        match line.split_whitespace().next() {
            None => continue,
            Some(comment) if comment.starts_with('#') => continue,
            Some("quit" | "exit") => break Ok(()),
            // A line with a secret is not remembered.
            Some("addauth") => {}
            Some(_) => drop(editor.add_history_entry(line)),
        }
        if let Some(lines) = history_lines(line).filter(|_| is_terminal) {
            print_history(&mut shell, editor.history(), lines)?;
            continue;
        }
        let outcome = runtime.block_on(until_interrupted(async {
            shell.reopen().await?;
            shell.run_line(line).await
        }));
        *place.borrow_mut() = Place { client: shell.client.clone(), current: shell.current.clone() };
        match outcome {
            Err(error) if is_terminal => shell.note(format!("{0}zoolet: {error}{0:#}", colour::ERROR)),
            Err(error) => break Err(error.in_line(number)),
            Ok(()) => {}
        }
    };
    if let Some(file) = history.filter(|_| is_terminal) {
        // A shell without a home directory remembers nothing.
        let _ = file.parent().map(fs::create_dir_all);
        let _ = editor.save_history(&file);
    }
    runtime.block_on(shell.close());
    outcome
}

/// Opens a session, and remembers where. Another cluster gets the flags, and not what the file of clusters has for the last one.
async fn connect(
    flags: &ConnectArguments,
    servers: &RefCell<ConnectArguments>,
    address: Option<String>,
) -> ShellResult<Connected> {
    let there = match address {
        Some(address) => flags.elsewhere(&address)?,
        None => servers.borrow().clone(),
    };
    let connected = there.connect("connect").await?;
    servers.replace(there);
    Ok(connected)
}

/// How many lines are to be shown, if a line is `history`.
fn history_lines(line: &str) -> Option<usize> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("history"), None, None) => Some(DEFAULT_HISTORY),
        (Some("history"), Some(lines), None) => lines.parse().ok(),
        _ => None,
    }
}

fn print_history(shell: &mut Shell<'_>, history: &FileHistory, lines: usize) -> ShellResult {
    let first = history.len().saturating_sub(lines);
    for (at, line) in history.iter().enumerate().skip(first) {
        shell.line(format!("{:>5}  {}", at + 1, shown(line)))?;
    }
    shell.flush()
}

fn editor() -> ShellResult<Editor<Completion, FileHistory>> {
    let failed = |error| ShellError::local("use the terminal", &io::Error::other(error));
    let mut editor = Editor::new().map_err(failed)?;
    editor.set_completion_type(CompletionType::List);
    editor.set_max_history_size(HISTORY).map_err(failed)?;
    Ok(editor)
}

/// Asks at the terminal. Ctrl-C is no answer.
pub(crate) fn ask_at_terminal(question: &str) -> io::Result<String> {
    let mut editor = DefaultEditor::new().map_err(io::Error::other)?;
    editor.readline(question).map_err(io::Error::other)
}

/// The server, the state of the connection, and the current znode.
fn prompt(shell: &Shell<'_>) -> String {
    let state = match shell.client.state() {
        SessionState::Connected if shell.read_only => " (read-only)".to_owned(),
        SessionState::Connected => String::new(),
        SessionState::ConnectedReadOnly => " (cut off from its ensemble)".to_owned(),
        state => format!(" ({state:?})").to_lowercase(),
    };
    format!("{}{state} {}> ", shell.server, shell.current)
}
