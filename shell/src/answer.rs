//! [`Answer`]: where the answer of a command goes, its questions, and the messages of its errors.

use std::fmt;
use std::io::{self, Write};

use anstyle::Style;
use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use zoolet_client::{Error, ErrorCode, Stat};

use crate::colour;
use crate::dial::Dial;
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::json;
use crate::text::shown;
use crate::walk::Unreadable;

/// Asks a question and returns the answer; an error if there is nobody to ask.
type Ask<'io> = Box<dyn FnMut(&str) -> io::Result<String> + 'io>;

/// Where the input of commands comes from, and their output goes.
pub struct ShellIo<'io> {
    out: &'io mut dyn Write,
    notes: &'io mut dyn Write,
    input: Option<Box<dyn AsyncRead + Unpin + 'io>>,
    is_input_read: bool,
    ask: Ask<'io>,
    pub(crate) is_terminal: bool,
    pub(crate) is_coloured: bool,
}

impl<'io> ShellIo<'io> {
    /// Answers go to `out`; questions, progress and warnings to `notes`. There is no input, and nobody to ask.
    pub fn new(out: &'io mut dyn Write, notes: &'io mut dyn Write) -> Self {
        let ask = Box::new(|_: &str| Err(io::ErrorKind::Unsupported.into()));
        Self { out, notes, input: None, is_input_read: false, ask, is_terminal: false, is_coloured: false }
    }

    /// What `-` reads as data, once.
    pub fn input(mut self, input: impl AsyncRead + Unpin + 'io) -> Self {
        self.input = Some(Box::new(input));
        self
    }

    /// Who answers questions, such as whether to delete a tree.
    pub fn ask(mut self, ask: impl FnMut(&str) -> io::Result<String> + 'io) -> Self {
        self.ask = Box::new(ask);
        self
    }
}

impl fmt::Debug for ShellIo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellIo").finish_non_exhaustive()
    }
}

/// The answer of the command that runs.
pub struct Answer<'io> {
    pub(crate) io: ShellIo<'io>,
    /// For messages, and for four-letter words.
    pub(crate) server: String,
    /// How four-letter words reach it.
    pub(crate) dial: Dial,
    /// The command that runs, for messages.
    pub(crate) command: &'static str,
    pub(crate) json: bool,
}

impl Answer<'_> {
    /// What a request of the command that runs has come to.
    pub(crate) fn answered<T>(&self, outcome: Result<T, Error>) -> ShellResult<T> {
        outcome.map_err(|error| self.failed(&error))
    }

    /// As [`answered`](Self::answered), with what to do about one code.
    pub(crate) fn answered_unless<T>(
        &self,
        outcome: Result<T, Error>,
        code: ErrorCode,
        hint: &str,
    ) -> ShellResult<T> {
        outcome.map_err(|error| self.failed_with(&error, if error.code() == Some(code) { hint } else { "" }))
    }

    /// An error of a request of the command that runs.
    pub(crate) fn failed(&self, error: &Error) -> ShellError {
        ShellError::request(self.command, &self.server, error, None)
    }

    /// As [`failed`](Self::failed), with more about this case; empty for nothing.
    pub(crate) fn failed_with(&self, error: &Error, more: &str) -> ShellError {
        ShellError::request(self.command, &self.server, error, Some(more).filter(|more| !more.is_empty()))
    }

    /// A failure without a request.
    pub(crate) fn fail(&self, reason: ExitReason, message: impl fmt::Display) -> ShellError {
        ShellError::new(reason, format!("{}: {message} (server {})", self.command, self.server))
    }

    /// The end of a command that has left out what it could not read.
    pub(crate) fn complete(&self, unreadable: Unreadable) -> ShellResult {
        let Some((count, first)) = unreadable.into_first() else { return Ok(()) };
        let error = self.failed(&first);
        let message = match count {
            1 => format!("a znode could not be read: {error}"),
            more => format!("{more} znodes could not be read; the first: {error}"),
        };
        Err(ShellError::new(error.reason(), message))
    }

    pub(crate) fn print(&mut self, bytes: &[u8]) -> ShellResult {
        self.io.out.write_all(bytes).map_err(ShellError::output)
    }

    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> ShellResult {
        self.print(line.as_ref().as_bytes())?;
        self.print(b"\n")
    }

    /// A line for people, or the object in its place.
    pub(crate) fn line_or_json(&mut self, line: impl AsRef<str>, object: &Value) -> ShellResult {
        if self.json { self.json_line(object) } else { self.line(line) }
    }

    /// A line in a style, if there are colours.
    pub(crate) fn styled_line(&mut self, style: Style, line: impl AsRef<str>) -> ShellResult {
        let line = self.styled(style, line.as_ref());
        self.line(line)
    }

    /// What changed in data.
    pub(crate) fn difference(&mut self, difference: &str) -> ShellResult {
        difference.lines().try_for_each(|line| self.styled_line(colour::of_difference(line), line))
    }

    /// The name of a znode, which shows whether it has children if there are colours.
    pub(crate) fn znode_name(&self, name: &str, stat: Option<Stat>) -> String {
        let has_children = stat.is_some_and(|stat| stat.num_children > 0);
        self.styled(if has_children { colour::PARENT } else { Style::new() }, &shown(name))
    }

    fn styled(&self, style: Style, text: &str) -> String {
        match self.is_coloured() {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }

    pub(crate) fn is_coloured(&self) -> bool {
        self.io.is_coloured && !self.json
    }

    pub(crate) fn json_line(&mut self, value: &Value) -> ShellResult {
        self.line(json::line(value))
    }

    /// The Stat after a write, which people do not ask for.
    pub(crate) fn written(&mut self, path: &str, stat: &Stat) -> ShellResult {
        if self.json { self.json_line(&json::znode(path, stat)) } else { Ok(()) }
    }

    pub(crate) fn flush(&mut self) -> ShellResult {
        self.io.out.flush().map_err(ShellError::output)
    }

    /// Says something that is not part of the answer.
    pub(crate) fn note(&mut self, note: impl fmt::Display) {
        // If stderr is closed, nobody wants to know.
        let _ = writeln!(self.io.notes, "{note}");
    }

    /// Whether to go on. Fails if there is nobody to ask.
    pub(crate) fn confirm(&mut self, question: &str) -> ShellResult {
        match (self.io.ask)(&format!("{question} [y/N] ")) {
            Ok(answer) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
            Ok(_) => Err(ShellError::interrupted()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                Err(self.fail(ExitReason::Usage, format!("{question} There is nobody to ask: add --yes")))
            }
            Err(_) => Err(ShellError::interrupted()),
        }
    }

    /// Everything that the input has, which is read once. `instead` is what to do where there is none.
    pub(crate) async fn read_input(&mut self, instead: &str) -> ShellResult<Bytes> {
        let Some(mut input) = self.io.input.take() else {
            let why = match self.io.is_input_read {
                true => "standard input has been read, and has no more data",
                false => "in a shell, standard input has the commands and no data",
            };
            return Err(self.fail(ExitReason::Usage, format!("{why}: {instead}")));
        };
        self.io.is_input_read = true;
        let mut data = Vec::new();
        input.read_to_end(&mut data).await.map_err(|error| ShellError::local("read the input", &error))?;
        Ok(data.into())
    }
}
