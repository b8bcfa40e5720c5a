//! The CPU time of another process, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`. For user space it is always 100, whatever the kernel's own rate.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time of a process at one moment.
pub(crate) struct CpuTime {
    /// User and system time per thread. They are kept apart because the more precise source has only live threads: a sum
    /// would decrease when a thread ends.
    threads: HashMap<u32, Duration>,
    ticks: Ticks,
}

/// Samples of the kernel's timer: how often the process ran its own code and the kernel's.
#[derive(Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
}

/// The CPU time of a process in one or more intervals.
#[derive(Clone, Copy, Default)]
pub(crate) struct Used {
    /// User and system time.
    pub(crate) time: Duration,
    ticks: Ticks,
}

impl Used {
    /// Adds another interval.
    pub(crate) fn add(&mut self, other: Self) {
        self.time += other.time;
        self.ticks.user += other.ticks.user;
        self.ticks.system += other.ticks.system;
    }

    /// The share of the kernel, from a hundred samples per second: one second gives it with a precision of a tenth.
    pub(crate) fn in_kernel(&self) -> f64 {
        self.ticks.system as f64 / (self.ticks.user + self.ticks.system).max(1) as f64
    }
}

impl CpuTime {
    /// The CPU time so far: in nanoseconds from the scheduler's statistics or, without these, in ticks of 10 ms.
    ///
    /// The statistics lag by a few milliseconds for a running thread and are exact for a waiting one, so an interval should
    /// end when the server is idle.
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

    /// The time since an earlier reading.
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
            // A thread that ended after the directory was read. The main thread exists as long as the process.
            Err(_) if thread != pid => {}
            Err(error) => return Err(error),
        }
    }
    Ok(times)
}

fn ticks(pid: u32) -> io::Result<Ticks> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, which may contain spaces and parentheses itself.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    Ok(Ticks { user: number(fields, 11)?, system: number(fields, 12)? })
}

fn number(text: &str, field: usize) -> io::Result<u64> {
    let field = text.split_whitespace().nth(field).and_then(|field| field.parse().ok());
    field.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not the expected numbers"))
}

/// The resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> io::Result<u64> {
    status(pid, "VmRSS:")
}

/// The most memory that was resident since [`reset_peak`], in bytes.
pub(crate) fn peak(pid: u32) -> io::Result<u64> {
    status(pid, "VmHWM:")
}

/// Makes the most memory that was resident count anew.
pub(crate) fn reset_peak(pid: u32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

fn status(pid: u32, field: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    Ok(number(line, 0)? * 1024)
}
