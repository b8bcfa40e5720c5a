//! The async runtime of a command.

use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// A runtime with one thread: handing work to another one costs more than what is done with it.
pub(crate) fn start() -> Result<Runtime, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| Failure::System { action: "start the async runtime", source })
}
