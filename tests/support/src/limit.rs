//! A time limit for each test, so that a hang is a failure that names the test.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Seconds of real time, if the environment does not set `ZOOLET_TEST_LIMIT`.
const LIMIT: f64 = 300.0;

struct Running {
    test: String,
    deadline: Instant,
}

/// The tests that are being watched, by their threads.
static RUNNING: LazyLock<Mutex<HashMap<ThreadId, Running>>> = LazyLock::new(|| {
    thread::Builder::new().name("time limit".into()).spawn(watch).unwrap();
    Mutex::default()
});

thread_local! {
    static DISARM: RefCell<Option<Disarm>> = const { RefCell::new(None) };
}

/// Ends with the thread of a test.
struct Disarm(ThreadId);

impl Drop for Disarm {
    fn drop(&mut self) {
        running().remove(&self.0);
    }
}

/// Ends the process with a message if the calling thread, which runs a test, exists for more than five minutes from now. Each
/// call restarts the time, so a test of many schedules may take longer. The helpers that start servers call it.
pub fn limit() {
    let thread = thread::current();
    // Other threads outlive what they run.
    let is_test = |name: &&str| *name != "main" && !name.starts_with("tokio");
    let Some(test) = thread.name().filter(is_test) else { return };
    let running_until = Running { test: test.to_owned(), deadline: Instant::now() + allowed() };
    running().insert(thread.id(), running_until);
    DISARM.with_borrow_mut(|disarm| _ = disarm.get_or_insert_with(|| Disarm(thread.id())));
}

fn allowed() -> Duration {
    let limit = std::env::var("ZOOLET_TEST_LIMIT").ok().map(|text| text.parse().expect("seconds"));
    Duration::from_secs_f64(limit.unwrap_or(LIMIT))
}

fn running() -> MutexGuard<'static, HashMap<ThreadId, Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    loop {
        thread::sleep(Duration::from_millis(100));
        let now = Instant::now();
        let hangs: Vec<_> =
            running().values().filter(|test| test.deadline < now).map(|test| test.test.clone()).collect();
        if !hangs.is_empty() {
            let text = format!("time limit of {:?} exceeded by {}\n", allowed(), hangs.join(", "));
            // Not `eprintln`: the test that started this thread captures what that prints.
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::exit(101);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "hangs; the next test runs it"]
    fn hangs() {
        limit();
        loop {
            thread::park();
        }
    }

    #[test]
    fn a_test_that_hangs_fails_and_is_named() {
        let binary = std::env::current_exe().unwrap();
        let hangs = ["--ignored", "--exact", "limit::tests::hangs"];
        let output = Command::new(binary).args(hangs).env("ZOOLET_TEST_LIMIT", "0.1").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(101), "{stderr}");
        assert_eq!(stderr, "time limit of 100ms exceeded by limit::tests::hangs\n");
    }
}
