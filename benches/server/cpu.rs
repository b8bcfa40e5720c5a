//! How much CPU time another process has used, read from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`. The kernel fixes it at 100 for user space, whatever its own rate.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time of a process at one moment.
pub(crate) struct CpuTime {
    /// Of every thread, user and system together. Threads are kept apart because the finer of the two sources tells only
    /// of threads that live: had one ended in between, a sum would run backwards.
    threads: HashMap<u32, Duration>,
    ticks: Ticks,
}

/// What the kernel's timer saw of a process: how often it ran its own code, and how often the kernel's.
#[derive(Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
}

/// The CPU time that a process has used in some span, or in several.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    /// User and system together.
    pub(crate) time: Duration,
    ticks: Ticks,
}

impl Used {
    /// Takes another span in.
    pub(crate) fn add(&mut self, other: Self) {
        self.time += other.time;
        self.ticks.user += other.ticks.user;
        self.ticks.system += other.ticks.system;
    }

    /// The share of the kernel. From a hundred samples a second, so that it takes a second to tell it to a tenth.
    pub(crate) fn in_kernel(&self) -> f64 {
        self.ticks.system as f64 / (self.ticks.user + self.ticks.system).max(1) as f64
    }
}

impl CpuTime {
    /// The time used so far: by the scheduler's own account, in nanoseconds, or in ticks of 10 ms where the kernel
    /// keeps no such account.
    ///
    /// The account of a running thread is a few milliseconds behind, that of a waiting one is exact, so a span
    /// should end when the server has nothing to do.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        Self::read(pid).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("CPU time of process {pid}, which needs Linux's /proc: {error}"),
            )
        })
    }

    fn read(pid: u32) -> io::Result<Self> {
        let ticks = ticks(pid)?;
        let whole = || {
            HashMap::from([(
                pid,
                Duration::from_millis((ticks.user + ticks.system) * 1000 / TICKS_PER_SECOND),
            )])
        };
        Ok(Self { threads: threads(pid).unwrap_or_else(|_| whole()), ticks })
    }

    /// What was used since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Used {
        let used = |(thread, now): (&u32, &Duration)| {
            now.saturating_sub(earlier.threads.get(thread).copied().unwrap_or_default())
        };
        Used {
            time: self.threads.iter().map(used).sum(),
            ticks: Ticks {
                user: self.ticks.user.saturating_sub(earlier.ticks.user),
                system: self.ticks.system.saturating_sub(earlier.ticks.system),
            },
        }
    }
}

fn threads(pid: u32) -> io::Result<HashMap<u32, Duration>> {
    let mut times = HashMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match fs::read_to_string(entry.path().join("schedstat")) {
            Ok(text) => drop(times.insert(thread, Duration::from_nanos(number(&text, 0)?))),
            // A thread that ended since the directory was read; its first thread lives as long as the process.
            Err(_) if thread != pid => {}
            Err(error) => return Err(error),
        }
    }
    Ok(times)
}

fn ticks(pid: u32) -> io::Result<Ticks> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    Ok(Ticks { user: number(fields, 11)?, system: number(fields, 12)? })
}

fn number(text: &str, field: usize) -> io::Result<u64> {
    let field = text.split_whitespace().nth(field).and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not the expected numbers"))
}

/// The memory of a process that is in RAM, in bytes.
pub(crate) fn resident(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    Ok(number(line, 0)? * 1024)
}
