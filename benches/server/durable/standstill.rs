//! Whether the machine itself stood still: a virtual machine does when its host withholds its processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread sleeps for so long at a time.
const SLEEP: Duration = Duration::from_micros(500);
/// If it runs again after more than this, it was held up. Either the whole machine was, or it had no processor to run on.
const HELD_UP: Duration = Duration::from_millis(2);

/// Looks for times in which a thread that only sleeps was held up. One on a single processor is not always seen.
pub(super) struct StandstillWatch {
    thread: Option<JoinHandle<Vec<(Instant, Instant)>>>,
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
                if now - last > HELD_UP {
                    seen.push((last, now));
                }
                last = now;
            }
            seen
        });
        Self { thread: Some(thread), ended }
    }

    /// Those that it has seen, from when to when.
    pub(super) fn end(mut self) -> Vec<(Instant, Instant)> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for StandstillWatch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
