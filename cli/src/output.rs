//! What commands print on stdout.

use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::process::ExitCode;

use crate::failure::Failure;

/// Stdout, line by line.
pub(crate) struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        self.0.write_all(line.as_bytes()).and_then(|()| self.0.write_all(b"\n")).map_err(Failure::Output)
    }

    /// Shows what was printed so far. Must be called at the end.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(Failure::Output)
    }

    /// Ends a command that has succeeded.
    pub(crate) fn end(mut self) -> Result<ExitCode, Failure> {
        self.flush().map(|()| ExitCode::SUCCESS)
    }
}

/// Makes it a success that the reader of the output has seen enough, such as `head`.
pub(crate) fn until_reader_leaves(outcome: Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    match outcome {
        Err(failure) if failure.is_reader_gone() => Ok(ExitCode::SUCCESS),
        outcome => outcome,
    }
}

/// Prints a warning on stderr.
pub(crate) fn warn(warning: &str) {
    // If stderr is closed, there is nowhere left to warn.
    let _ = writeln!(io::stderr(), "zoolet: warning: {warning}");
}
