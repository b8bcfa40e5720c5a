//! The `process_*` families, which Prometheus clients of every language have.

use std::fs::read_to_string;

use zoolet_server::metrics::{MetricKind, ServerMetrics};

/// Of `/proc/self/stat`. The same on every machine that Rust's standard library runs Linux on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A family of this process.
pub(crate) struct ProcessFamily {
    pub(crate) name: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) value: f64,
}

/// Those that the system reports: all on Linux, and none elsewhere. Names and texts are those of simpleclient.
pub(crate) fn process_families(metrics: &ServerMetrics) -> impl Iterator<Item = ProcessFamily> {
    use MetricKind::{Counter, Gauge};
    let (cpu, start) = cpu_and_start().unzip();
    let (open, max) = metrics.descriptors.unzip();
    let (open, max) = (open.map(|open| open as f64), max.map(|max| max as f64));
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let memory = |name| kilobytes(&status, name);
    let family =
        |name, kind, help, value: Option<f64>| value.map(|value| ProcessFamily { name, kind, help, value });
    let started = "Start time of the process since unix epoch in seconds.";
    let families = [
        family("process_cpu_seconds_total", Counter, "Total user and system CPU time spent in seconds.", cpu),
        family("process_start_time_seconds", Gauge, started, start),
        family("process_open_fds", Gauge, "Number of open file descriptors.", open),
        family("process_max_fds", Gauge, "Maximum number of open file descriptors.", max),
        family("process_virtual_memory_bytes", Gauge, "Virtual memory size in bytes.", memory("VmSize:")),
        family("process_resident_memory_bytes", Gauge, "Resident memory size in bytes.", memory("VmRSS:")),
    ];
    families.into_iter().flatten()
}

/// The processor time of this process and the time of its start, in seconds, by what `/proc` says of it and of the machine's start.
fn cpu_and_start() -> Option<(f64, f64)> {
    let stat = read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
    let (user, system) = (ticks()?, ticks()?);
    let since_boot = fields.nth(6)?.parse::<f64>().ok()? / TICKS_PER_SECOND;
    let machine = read_to_string("/proc/stat").ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()?;
    Some((user + system, boot + since_boot))
}

/// A line of `/proc/self/status`, in bytes.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_figures_are_those_of_this_process() {
        let metrics = ServerMetrics::default();
        let families: Vec<_> = process_families(&metrics).map(|family| (family.name, family.value)).collect();
        let value = |name| families.iter().find(|(of, _)| *of == name).expect("a family").1;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
        let age = now - value("process_start_time_seconds");
        assert!((-2.0..86_400.0).contains(&age), "it began {age} seconds ago");
        assert!((0.0..86_400.0).contains(&value("process_cpu_seconds_total")));
        let (resident, all) = (value("process_resident_memory_bytes"), value("process_virtual_memory_bytes"));
        assert!(resident > 100_000.0 && resident < all, "{resident} of {all}");
        assert_eq!(families.len(), 4, "descriptors are the server's to count");
    }
}
