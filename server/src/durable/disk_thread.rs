//! Where work on a disk runs: on another thread if the disk blocks, so that no worker of the runtime waits for it. A simulated disk
//! does not; there everything is a task, so that a run repeats with its seed.

use std::io;
use std::panic::resume_unwind;
use std::thread::Builder;

use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};
use tracing::Instrument;
use zoolet_storage::disk::Disk;

use crate::shared::BoxedFuture;

/// Runs a long job beside the server, on a thread of its own or as a task. Its outcome is lost if it panics, or if the runtime of a
/// task is dropped.
pub(super) fn spawn<T: Send + 'static>(
    disk: &dyn Disk,
    name: &str,
    job: impl Future<Output = T> + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (report, outcome) = oneshot::channel();
    let job = Box::pin(async move {
        // Nobody may want to know.
        let _ = report.send(job.await);
    });
    let job = (job as BoxedFuture<'_, ()>).in_current_span();
    if disk.blocks() {
        // Not by the runtime, which may be shut down before the job has ended.
        Builder::new().name(name.to_owned()).spawn(|| pollster::block_on(job))?;
    } else {
        tokio::spawn(job);
    }
    Ok(outcome)
}

/// Does something short, on a thread of the runtime that may block or in this task.
pub(crate) async fn run<T: Send + 'static>(disk: &dyn Disk, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !disk.blocks() {
        yield_now().await;
        return work();
    }
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => resume_unwind(panicked.into_panic()),
    }
}
