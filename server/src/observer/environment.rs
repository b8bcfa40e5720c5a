//! The process and the machine that the server runs in.

use crate::four_letter_words::java_format::build_date;

/// The release whose behaviour the server has, its own, and when it was built, in the form that clients parse. The date is that
/// of `SOURCE_DATE_EPOCH` at the time of the build, or the epoch itself: the same source gives the same binary.
pub(crate) fn version() -> String {
    let built = option_env!("SOURCE_DATE_EPOCH").and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    format!("3.9.5-zoolet-{}, built on {}", env!("CARGO_PKG_VERSION"), build_date(built))
}

/// The environment, with the keys of a real server: clients look for them. There is no Java, and they say so.
pub(crate) fn variables() -> Vec<(&'static str, String)> {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let kernel = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let host = Some(kernel("hostname")).filter(|name| !name.is_empty()).unwrap_or_else(|| var("HOSTNAME"));
    let os = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    };
    let total = format!("{}MB", memory("MemTotal"));
    vec![
        ("zookeeper.version", version()),
        ("host.name", host),
        ("java.version", "none".to_owned()),
        ("java.vendor", "zoolet".to_owned()),
        ("java.home", String::new()),
        ("java.class.path", String::new()),
        ("java.library.path", String::new()),
        ("java.io.tmpdir", std::env::temp_dir().display().to_string()),
        ("java.compiler", "<NA>".to_owned()),
        ("os.name", os.to_owned()),
        ("os.arch", arch.to_owned()),
        ("os.version", kernel("osrelease")),
        ("user.name", var("USER")),
        ("user.home", var("HOME")),
        ("user.dir", std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default()),
        ("os.memory.free", format!("{}MB", memory("MemAvailable"))),
        ("os.memory.max", total.clone()),
        ("os.memory.total", total),
    ]
}

/// A figure of the machine's memory in megabytes; 0 if the system does not report it.
fn memory(name: &str) -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return 0 };
    let line = text.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}

/// How many descriptors this process has open, and how many it may have, if the system reports that.
pub(crate) fn descriptors() -> Option<(usize, u64)> {
    let dir = "/proc/self/fd";
    // Since Linux 6.2 its size is their number. To list tens of thousands of them takes tens of milliseconds.
    let open = match std::fs::metadata(dir).ok()?.len() {
        0 => std::fs::read_dir(dir).ok()?.count(),
        open => usize::try_from(open).ok()?,
    };
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let max = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((open, max))
}
