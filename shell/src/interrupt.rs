//! Ctrl-C: ends a command, and not the shell around it.

use crate::failure::{ShellError, ShellResult};

/// Does something until Ctrl-C comes.
pub(crate) async fn until_interrupted<T>(work: impl Future<Output = ShellResult<T>>) -> ShellResult<T> {
    tokio::select! {
        outcome = work => outcome,
        Ok(()) = tokio::signal::ctrl_c() => Err(ShellError::interrupted()),
    }
}
