//! Watches: one session told by another, and many told at once.

use std::io;
use std::time::{Duration, Instant};

use zoolet_proto::Request;

use super::{Sample, Span, Target, ensure};
use crate::exchange::{get, set};
use crate::load::Latencies;
use crate::wire::Wire;

/// In each pair one session sets a znode; the other, which watches it, gets the event and sets its watch again by
/// reading. The next round begins when both are done. The latency is that from the request to the event.
pub(super) async fn hand_off(target: Target, pairs: usize, time: Duration) -> io::Result<Sample> {
    let mut ready = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let mut writer = Wire::open(target.addr).await?;
        let mut watcher = Wire::open(target.addr).await?;
        let path = format!("/bench/watched-{pair:02}");
        ensure(&mut writer, "/bench").await?;
        ensure(&mut writer, &path).await?;
        watcher.call(&get(&*path, true)).await?;
        ready.push(Pair { writer, watcher, set: set(&*path), get: get(path, true) });
    }
    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let tasks: Vec<_> = ready.into_iter().map(|pair| tokio::spawn(pair.run(end))).collect();
    let mut latencies = Latencies::new();
    let mut wires = Vec::with_capacity(2 * pairs);
    for task in tasks {
        let (pair, told) = task.await??;
        latencies.add(&told);
        wires.extend([pair.writer, pair.watcher]);
    }
    let sample = span.end(latencies.count(), latencies)?;
    Wire::close_many(wires).await?;
    Ok(sample)
}

struct Pair {
    writer: Wire,
    watcher: Wire,
    set: Request,
    get: Request,
}

impl Pair {
    async fn run(mut self, end: Instant) -> io::Result<(Self, Latencies)> {
        let mut latencies = Latencies::new();
        while Instant::now() < end {
            let began = Instant::now();
            let told = async {
                self.watcher.event().await?;
                let told = began.elapsed();
                self.watcher.call(&self.get).await?;
                io::Result::Ok(told)
            };
            let (_, told) = tokio::try_join!(self.writer.call(&self.set), told)?;
            latencies.record(told);
        }
        Ok((self, latencies))
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
