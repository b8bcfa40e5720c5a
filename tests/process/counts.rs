//! What the process of the tests holds, according to /proc.

/// Open descriptors.
pub fn descriptors() -> Option<usize> {
    // One of them is the directory that is being read.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() - 1)
}

/// How many descriptors there may be.
pub fn max_descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// How many threads run the tokio runtime of the calling test, which runs [`alone`](crate::alone).
pub fn threads() -> Option<usize> {
    let own = std::fs::read_to_string("/proc/thread-self/comm").ok()?;
    loop {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?;
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        let names: Vec<_> = names.filter(|name| *name == own || name.starts_with("tokio")).collect();
        // The listing may leave some out while threads of other tests end: it is whole only if we are in it.
        if names.contains(&own) {
            return Some(names.len());
        }
    }
}

/// How many threads servers have started: of their own, and for their logs.
pub fn server_threads() -> Option<usize> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    Some(names.filter(|name| name.starts_with("zoolet-")).count())
}

/// The signals that this process has handlers for, as a mask.
pub fn handled_signals() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(status.lines().find(|line| line.starts_with("SigCgt:"))?.to_owned())
}

/// Resident memory in bytes.
pub fn resident() -> Option<usize> {
    status("VmRSS:")
}

/// The most memory that was ever resident, in bytes.
pub fn most_resident() -> Option<usize> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}
