//! A snapshot of a million znodes: how long it takes, how long a writer waits meanwhile, and how much memory it needs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Filled;
use super::standstill::StandstillWatch;
use crate::cpu::{peak, reset_peak, resident};
use crate::exchange::set;
use crate::finding::{Bound, Finding};
use crate::home::Settings;
use crate::peer::{Kind, Starter};
use crate::wire::Wire;

pub(super) const SNAPSHOT: &str = "durable-snapshot";
pub(super) const STALL: &str = "durable-stall";
pub(super) const STALL_SYNCED: &str = "durable-stall-synced";
pub(super) const MEMORY: &str = "durable-memory";

/// The snapshot is due after so many writes, or from half as many on.
const SYNCED: Settings<'static> = &[("snapCount", "10000")];
const UNSYNCED: Settings<'static> = &[("snapCount", "200000"), ("forceSync", "no")];

/// The server prepares a snapshot before its file is there: it may have to sync the log.
const BEFORE: Duration = Duration::from_millis(100);
/// How long the writer goes on after a snapshot: then old files are removed.
const AFTER: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(1);

/// What one snapshot has shown.
struct Saved {
    took: Duration,
    /// The longest wait of the writer from a little before the snapshot on, and before that.
    longest: Duration,
    otherwise: Duration,
    /// For how long of the first a thread that only sleeps was held up as well.
    standstill: Duration,
    /// Resident memory before, and the most meanwhile.
    resident: u64,
    peak: u64,
}

pub(super) async fn run(starter: &Starter, filled: &Filled) -> io::Result<Vec<Finding>> {
    let znodes = filled.znodes;
    let synced = save(starter, filled, SYNCED).await?;
    let unsynced = save(starter, filled, UNSYNCED).await?;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let stall = |name, saved: &Saved, what, goal| Finding {
        name,
        about: format!(
            "longest setData during a snapshot, {what}; for {:.2} ms of it a thread that only sleeps was held up as well ({:.2} ms otherwise)",
            millis(saved.standstill),
            millis(saved.otherwise)
        ),
        value: millis(saved.longest),
        unit: "ms",
        goal,
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(vec![
        Finding {
            name: SNAPSHOT,
            about: format!(
                "a snapshot of {znodes} znodes beside a writer ({:.2} s without syncs of the log)",
                unsynced.took.as_secs_f64()
            ),
            value: synced.took.as_secs_f64(),
            unit: "s",
            goal: None,
        },
        // Without syncs it is the server that makes the writer wait, and not the disk.
        stall(STALL, &unsynced, "forceSync=no", Some(Bound::AtMost(5.0))),
        stall(STALL_SYNCED, &synced, "synced", None),
        Finding {
            name: MEMORY,
            about: format!(
                "a znode of {znodes} after the start: {:.0} MiB; {:.0} MiB more at most during a snapshot",
                mib(synced.resident),
                mib(synced.peak.saturating_sub(synced.resident))
            ),
            value: synced.resident as f64 / znodes as f64,
            unit: "bytes",
            goal: None,
        },
    ])
}

/// Writes until a snapshot is written.
async fn save(starter: &Starter, filled: &Filled, settings: Settings<'_>) -> io::Result<Saved> {
    let server = starter.start_in(Kind::Zoolet, filled.copy()?, settings).await?;
    let pid = server.target.pid;
    let resident = resident(pid)?;
    // Without it, the peak is that of the start if that was higher.
    drop(reset_peak(pid));
    let watch = SnapshotWatch::start(server.home()?.files())?;
    let standstills = StandstillWatch::start();
    let mut wire = Wire::open(&server.target.door).await?;
    let request = set("/lane-00-0000000000");
    let (began, mut waits) = (Instant::now(), Vec::new());
    let (from, to) = loop {
        let sent = Instant::now();
        wire.call(&request).await?;
        waits.push((sent, sent.elapsed()));
        match watch.seen() {
            (Some(from), Some(to)) if to.elapsed() > AFTER => break (from, to),
            _ if began.elapsed() > LIMIT => {
                return Err(server.explain(io::Error::other("no snapshot in the time allowed")));
            }
            _ => {}
        }
    };
    let peak = peak(pid)?;
    server.kill()?;
    let meanwhile = |(sent, took): &(Instant, Duration)| *sent + *took > from - BEFORE;
    let (during, otherwise): (Vec<_>, Vec<_>) = waits.into_iter().partition(meanwhile);
    let longest = |waits: Vec<(Instant, Duration)>| waits.into_iter().max_by_key(|(_, took)| *took);
    let (sent, longest_during) = longest(during).unwrap_or((from, Duration::ZERO));
    let end = sent + longest_during;
    let overlap = |(from, to): (Instant, Instant)| to.min(end).saturating_duration_since(from.max(sent));
    Ok(Saved {
        took: to - from,
        longest: longest_during,
        otherwise: longest(otherwise).map_or(Duration::ZERO, |(_, took)| took),
        standstill: standstills.end().into_iter().map(overlap).sum(),
        resident,
        peak,
    })
}

/// Looks at the directory until a snapshot appears: first the file in which it is written, then its own name.
struct SnapshotWatch {
    seen: Arc<Mutex<(Option<Instant>, Option<Instant>)>>,
    ended: Arc<AtomicBool>,
}

impl SnapshotWatch {
    fn start(dir: PathBuf) -> io::Result<Self> {
        let known = names(&dir)?;
        let watch = Self { seen: Arc::default(), ended: Arc::default() };
        let (seen, ended) = (Arc::clone(&watch.seen), Arc::clone(&watch.ended));
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let now = names(&dir).unwrap_or_default();
                let new = |part: &str| now.difference(&known).any(|name| name.contains(part));
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if seen.0.is_none() && new("snapshot") {
                    seen.0 = Some(Instant::now());
                }
                if seen.1.is_none() && now.difference(&known).any(|name| name.starts_with("snapshot.")) {
                    seen.1 = Some(Instant::now());
                }
                drop(seen);
                thread::sleep(LOOK);
            }
        });
        Ok(watch)
    }

    fn seen(&self) -> (Option<Instant>, Option<Instant>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SnapshotWatch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn names(dir: &PathBuf) -> io::Result<BTreeSet<String>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
