//! Watches: a session told of what it did itself, one told of what another did, and many told at once.

use std::io;
use std::time::{Duration, Instant};

use zoolet_proto::Request;

use super::{Sample, Span, Target, ensure};
use crate::exchange::{get, set};
use crate::load::Latencies;
use crate::wire::Wire;

/// Who sets a znode that is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setter {
    /// The session that watches it.
    Itself,
    /// A session of its own for each that watches.
    Another,
}

/// A znode is set, its watcher gets the event and sets its watch again by reading; then the next round begins. The
/// latency is that from the request to the event.
pub(super) async fn hand_off(
    target: Target,
    watchers: usize,
    setter: Setter,
    time: Duration,
) -> io::Result<Sample> {
    let mut teams = Vec::with_capacity(watchers);
    for number in 0..watchers {
        let mut watcher = Wire::open(target.addr).await?;
        let path = format!("/bench/watched-{number:02}");
        ensure(&mut watcher, "/bench").await?;
        ensure(&mut watcher, &path).await?;
        watcher.call(&get(&*path, true)).await?;
        let setter = match setter {
            Setter::Itself => None,
            Setter::Another => Some(Wire::open(target.addr).await?),
        };
        teams.push(Team { watcher, setter, set: set(&*path), get: get(path, true) });
    }
    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let tasks: Vec<_> = teams.into_iter().map(|team| tokio::spawn(team.run(end))).collect();
    let mut latencies = Latencies::new();
    let mut wires = Vec::with_capacity(2 * watchers);
    for task in tasks {
        let (team, told) = task.await??;
        latencies.add(&told);
        wires.push(team.watcher);
        wires.extend(team.setter);
    }
    let sample = span.end(latencies.count(), latencies)?;
    Wire::close_many(wires).await?;
    Ok(sample)
}

struct Team {
    watcher: Wire,
    /// `None` where the watcher sets the znode itself.
    setter: Option<Wire>,
    set: Request,
    get: Request,
}

impl Team {
    async fn run(mut self, end: Instant) -> io::Result<(Self, Latencies)> {
        let mut latencies = Latencies::new();
        while Instant::now() < end {
            latencies.record(self.round().await?);
        }
        Ok((self, latencies))
    }

    async fn round(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        let Some(setter) = &mut self.setter else {
            self.watcher.send(&self.set);
            self.watcher.flush().await?;
            self.watcher.event().await?;
            let told = began.elapsed();
            self.watcher.reply().await?;
            self.watcher.call(&self.get).await?;
            return Ok(told);
        };
        let told = async {
            self.watcher.event().await?;
            let told = began.elapsed();
            self.watcher.call(&self.get).await?;
            Ok(told)
        };
        let (_, told) = tokio::try_join!(setter.call(&self.set), told)?;
        Ok(told)
    }
}

/// Many sessions watch one znode. It is set, all get the event, then all set their watch again by reading. The
/// latency is that from the request until the last has the event.
pub(super) async fn fan_out(target: Target, watchers: usize, time: Duration) -> io::Result<Sample> {
    const PATH: &str = "/bench/watched-by-all";
    let mut writer = Wire::open(target.addr).await?;
    ensure(&mut writer, "/bench").await?;
    ensure(&mut writer, PATH).await?;
    let mut watching = Wire::open_many(target.addr, watchers).await?;
    watch_all(&mut watching, PATH).await?;

    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let mut latencies = Latencies::new();
    while Instant::now() < end {
        let began = Instant::now();
        writer.call(&set(PATH)).await?;
        for wire in &mut watching {
            wire.event().await?;
        }
        latencies.record(began.elapsed());
        watch_all(&mut watching, PATH).await?;
    }
    let sample = span.end(latencies.count() * watchers as u64, latencies)?;
    watching.push(writer);
    Wire::close_many(watching).await?;
    Ok(sample)
}

async fn watch_all(wires: &mut [Wire], path: &str) -> io::Result<()> {
    for wire in wires.iter_mut() {
        wire.send(&get(path, true));
        wire.flush().await?;
    }
    for wire in wires {
        wire.reply().await?;
    }
    Ok(())
}
