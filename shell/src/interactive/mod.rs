//! `zoolet sh`: lines that are edited, remembered and completed.

mod complete;

use std::cell::RefCell;
use std::env;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::rc::Rc;

use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, DefaultEditor, Editor};
use tokio::runtime::Runtime;
use zoolet_client::SessionState;

use crate::answer::ShellIo;
use crate::colour;
use crate::failure::ShellError;
use crate::interrupt::until_interrupted;
use crate::invocation::{ProcessArguments, start_runtime};
use crate::shell::Shell;
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
    let connect = &mut arguments.process.connect;
    let address = arguments.address.take().unwrap_or_else(|| connect.server.clone());
    *connect = connect.at(&address)?;
    let runtime = start_runtime()?;
    let outcome = converse(&runtime, &arguments.process);
    runtime.shutdown_background();
    outcome
}

fn converse(runtime: &Runtime, arguments: &ProcessArguments) -> Result<(), ShellError> {
    let connect = &arguments.connect;
    // Before anything listens for Ctrl-C: it takes the signal for itself, and whoever listens later passes it on.
    let mut editor = editor()?;
    let client = runtime.block_on(until_interrupted(connect.connect("sh")))?;
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    // The notes lose their colours where they are not wanted.
    let (mut out, mut notes) = (io::stdout(), anstream::stderr());
    let mut io = ShellIo::new(&mut out, &mut notes);
    io.is_terminal = is_terminal;
    io.is_coloured = colour::is_wanted(&io::stdout());
    if is_terminal {
        io = io.ask(ask_at_terminal);
    }
    let mut shell = Shell::new(client, io).server(&connect.server).json(arguments.output.json);
    shell.set_read_only(connect.read_only);
    shell.is_many = true;
    shell = shell.sessions(|servers| connect.sessions(servers));
    let place = Rc::new(RefCell::new(Place { client: shell.client.clone(), current: "/".to_owned() }));
    editor.set_helper(Some(Completion::new(runtime.handle().clone(), Rc::clone(&place))));
    let history = history_file();
    if let Some(file) = history.as_ref().filter(|_| is_terminal) {
        // There is none at first.
        let _ = editor.load_history(file);
    }
    let outcome = loop {
        let line = match editor.readline(&prompt(&shell, connect.read_only)) {
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
        let outcome = runtime.block_on(until_interrupted(async {
            if shell.client.state().is_final() {
                let state = shell.client.state();
                shell.note(format!("the session is over ({state:?}), with its ephemerals and what addauth has added: opening another"));
                shell.client = connect.connect("sh").await?;
            }
            shell.run_line(line).await
        }));
        *place.borrow_mut() = Place { client: shell.client.clone(), current: shell.current().to_owned() };
        match outcome {
            Err(error) if is_terminal => shell.note(format!("{0}zoolet: {error}{0:#}", colour::ERROR)),
            Err(error) => break Err(error),
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

fn editor() -> Result<Editor<Completion, FileHistory>, ShellError> {
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
fn prompt(shell: &Shell<'_>, read_only: bool) -> String {
    let state = match shell.client.state() {
        SessionState::Connected if read_only => " (read-only)".to_owned(),
        SessionState::Connected => String::new(),
        SessionState::ConnectedReadOnly => " (cut off from its ensemble)".to_owned(),
        state => format!(" ({state:?})").to_lowercase(),
    };
    format!("{}{state} {}> ", shell.server_name(), shell.current())
}

fn history_file() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("zoolet/history"))
}
