//! Keeps cores from sleeping.
//!
//! In a virtual machine, waking a sleeping core costs the waker up to 10 µs, more than a tokio server needs for a request, and
//! whether cores sleep depends on other load. With `--busy` a process of the lowest priority spins on each core, so that the
//! figures at depth 1 are those of the server and repeatable.

use std::env;
use std::fs;
use std::hint;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Processes that spin until this value is dropped or its process exits.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    /// Starts one per core.
    pub(crate) fn start(cores: usize) -> io::Result<Self> {
        let program = env::current_exe()?;
        let mut busy = Self(Vec::new());
        for _ in 0..cores {
            let mut command = Command::new("nice");
            command.args(["-n", "19"]).arg(&program).arg("spin").stdin(Stdio::piped());
            busy.0.push(command.spawn()?);
        }
        Ok(busy)
    }
}

/// How the kernel treats idle cores.
pub(crate) fn when_idle() -> String {
    const GOVERNOR: &str = "/sys/devices/system/cpu/cpuidle/current_governor";
    const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    match (&*read(GOVERNOR), read(POLL).parse::<u64>()) {
        ("haltpoll", Ok(0)) => "halted at once when idle (guest_halt_poll_ns is 0, by default 200000)".into(),
        ("haltpoll", Ok(nanos)) => format!("halted when idle for {} us (haltpoll)", nanos / 1000),
        ("", _) => "idle at times".into(),
        (governor, _) => format!("idle at times (cpuidle governor {governor})"),
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            drop(child.wait());
        }
    }
}

/// Spins until the end of standard input.
pub(crate) fn spin() -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ended);
    thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    seen.store(true, Ordering::Relaxed);
    Ok(())
}
