//! [`SpareThread`]: makes the next log file ready while the log writes to this one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{Builder, JoinHandle};

use zoolet_storage::{SpareLog, Storage};

/// A thread for one file at a time.
#[derive(Default)]
pub(crate) struct SpareThread {
    running: Option<JoinHandle<Option<SpareLog>>>,
}

impl SpareThread {
    /// Gives the storage the file that is ready, and begins the next one when it is time for that. A file that is cancelled is given
    /// up.
    pub(crate) fn work(&mut self, storage: &mut Storage, is_cancelled: &Arc<AtomicBool>) {
        if let Some(thread) = self.running.take_if(|thread| thread.is_finished()) {
            if let Ok(Some(spare)) = thread.join() {
                storage.put_spare(spare);
            }
        }
        if self.running.is_some() {
            return;
        }
        let Some(job) = storage.spare_job() else { return };
        if storage.disk().blocks() {
            let is_cancelled = Arc::clone(is_cancelled);
            let thread =
                Builder::new().name("zoolet-log-next".to_owned()).spawn(move || job.run(&is_cancelled));
            // Without a thread there is no spare file.
            self.running = thread.ok();
        } else if let Some(spare) = job.run(is_cancelled) {
            storage.put_spare(spare);
        }
    }

    /// Waits for the end of the file that was cancelled. To be called before the directory is unlocked: the thread removes its file.
    pub(crate) fn end(&mut self) {
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}
