//! The async runtime of a command.

use tokio::runtime::Builder;

use crate::failure::Failure;

/// Runs a command on a runtime with one thread: handing work to another one costs more than what is done with it.
pub(crate) fn run<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Failure::System { action: "start the async runtime", source })?;
    let outcome = runtime.block_on(command);
    // Not waited for is a name lookup that takes longer than the command may, and what a second signal has cut short.
    runtime.shutdown_background();
    outcome
}
