//! Opening and closing sessions.

use std::io;
use std::time::{Duration, Instant};

use super::{Sample, Span, Target};
use crate::load::Latencies;
use crate::wire::{Door, Wire};

/// Opens and closes sessions, each on a new connection, with a fixed number at a time.
pub(super) async fn run(target: &Target, at_once: usize, time: Duration) -> io::Result<Sample> {
    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let tasks: Vec<_> =
        (0..at_once).map(|_| tokio::spawn(one_after_another(target.door.clone(), end))).collect();
    let mut latencies = Latencies::new();
    for task in tasks {
        latencies.add(&task.await??);
    }
    span.end(latencies.count(), latencies)
}

async fn one_after_another(door: Door, end: Instant) -> io::Result<Latencies> {
    let mut latencies = Latencies::new();
    let mut now = Instant::now();
    while now < end {
        let began = now;
        Wire::open(&door).await?.close().await?;
        now = Instant::now();
        latencies.record(now - began);
    }
    Ok(latencies)
}
