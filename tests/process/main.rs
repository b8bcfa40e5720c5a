//! What is counted or logged by the whole process: these tests run one after the other in a process of their own. Besides, what
//! survives the end of a server's process.

mod counts;
mod kills;
mod leftovers;
mod secrets;

use std::sync::{Mutex, PoisonError};

use tokio::runtime::Builder;

/// Runs a test while no other test of this binary runs.
fn alone(paused: bool, test: impl Future<Output = ()>) {
    static ALONE: Mutex<usize> = Mutex::new(0);
    let mut alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    zoolet_test_support::limit();
    // For the counts of threads: what this one starts inherits the name at first, and no other test has it.
    *alone += 1;
    let _ = std::fs::write("/proc/thread-self/comm", format!("alone {alone}"));
    let runtime = Builder::new_current_thread().enable_all().start_paused(paused).build();
    runtime.expect("a runtime").block_on(test);
}
