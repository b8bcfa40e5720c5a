//! [`SpareThread`]: makes the next log file ready while the log writes to this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use zoolet_storage::{SpareJob, SpareLog, Storage};

/// A thread for one file at a time.
#[derive(Default)]
pub(crate) struct SpareThread {
    running: Option<JoinHandle<Option<SpareLog>>>,
    is_cancelled: Arc<AtomicBool>,
}

impl SpareThread {
    /// Gives the storage the file that is ready, and begins the next one when it is time for that.
    pub(crate) fn work(&mut self, storage: &mut Storage) {
        if let Some(thread) = self.running.take_if(|thread| thread.is_finished()) {
            if let Ok(Some(spare)) = thread.join() {
                storage.put_spare(spare);
            }
        }
        if self.running.is_none() {
            if let Some(job) = storage.spare_job() {
                self.begin(job, storage);
            }
        }
    }

    fn begin(&mut self, job: SpareJob, storage: &mut Storage) {
        let is_cancelled = Arc::clone(&self.is_cancelled);
        if !storage.disk().blocks() {
            // It does not block.
            if let Some(spare) = job.run(&is_cancelled) {
                storage.put_spare(spare);
            }
            return;
        }
        // Without a thread there is no spare file.
        self.running =
            Builder::new().name("zoolet-log-next".to_owned()).spawn(move || job.run(&is_cancelled)).ok();
    }

    /// Gives up the file that is not ready. To be called before the directory is unlocked.
    pub(crate) fn end(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        if let Some(thread) = self.running.take() {
            // It removes its file.
            let _ = thread.join();
        }
    }
}
