//! How much CPU time another process has used, read from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Ticks per second in `/proc/PID/stat`. The kernel fixes it at 100 for user space, whatever its own rate.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time of every thread of a process, user and system together, at one moment.
///
/// Threads are kept apart because the finer of the two sources tells only of threads that live: had one ended in
/// between, a sum would run backwards.
pub(crate) struct CpuTime(HashMap<u32, Duration>);

impl CpuTime {
    /// The time used so far: by the scheduler's own account, in nanoseconds, or in ticks of 10 ms where the kernel
    /// keeps no such account.
    ///
    /// The account of a running thread is a few milliseconds behind, that of a waiting one is exact, so a span
    /// should end when the server has nothing to do.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        threads(pid).or_else(|_| whole_process(pid)).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("CPU time of process {pid}, which needs Linux's /proc: {error}"),
            )
        })
    }

    /// What was used since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let used = |(thread, now): (&u32, &Duration)| {
            now.saturating_sub(earlier.0.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(used).sum()
    }
}

fn threads(pid: u32) -> io::Result<CpuTime> {
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
    Ok(CpuTime(times))
}

fn whole_process(pid: u32) -> io::Result<CpuTime> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let (user, system) = (number(fields, 11)?, number(fields, 12)?);
    let used = Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND);
    Ok(CpuTime(HashMap::from([(pid, used)])))
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
