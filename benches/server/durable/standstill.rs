//! Whether the machine itself stood still: a virtual machine does when its host withholds its processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread that sleeps so long at a time, and takes a longer pause for a standstill.
const SLEEP: Duration = Duration::from_micros(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Looks for standstills of the machine. One of a single processor is not always seen.
pub(super) struct StandstillWatch {
    thread: JoinHandle<Vec<(Instant, Instant)>>,
    ended: Arc<AtomicBool>,
}

impl StandstillWatch {
    pub(super) fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let (mut seen, mut last) = (Vec::new(), Instant::now());
            while !until.load(Ordering::Relaxed) {
                thread::sleep(SLEEP);
                let now = Instant::now();
                if now - last > PAUSE {
                    seen.push((last, now));
                }
                last = now;
            }
            seen
        });
        Self { thread, ended }
    }

    /// Those that it has seen, from when to when.
    pub(super) fn end(self) -> Vec<(Instant, Instant)> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}
