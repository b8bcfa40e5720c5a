//! A reader beside a writer that saturates the server. They have nothing to do with each other's znodes.

use std::io;
use std::time::{Duration, Instant};

use super::{Sample, Span, Target, ensure};
use crate::exchange::{Repeat, get, set};
use crate::load::{self, Lane};
use crate::wire::Wire;

const READ: &str = "/bench/read";
const WRITTEN: &str = "/bench/written";
/// The writer begins before the reader and ends after it.
const HEAD_START: Duration = Duration::from_millis(50);

/// Runs both and measures the reader. The CPU time is that for reads and writes, per read.
pub(super) async fn run(target: &Target, depth: usize, time: Duration) -> io::Result<Sample> {
    let mut wires = Wire::open_many(&target.door, 2).await?;
    for path in ["/bench", READ, WRITTEN] {
        ensure(&mut wires[0], path).await?;
    }
    let (Some(writer), Some(reader)) = (wires.pop(), wires.pop()) else { return Ok(Sample::empty()) };
    let begun = Instant::now();
    let end = begun + HEAD_START + time;
    let writing = vec![Lane::new(writer, Repeat::same(&set(WRITTEN)))];
    let writing = tokio::spawn(load::run(writing, depth, end + HEAD_START));
    tokio::time::sleep(HEAD_START).await;
    let span = Span::begin(target)?;
    let reading = vec![Lane::new(reader, Repeat::same(&get(READ, false)))];
    let (readers, latencies) = load::run(reading, 1, end).await?;
    let mut sample = span.end(latencies.count(), latencies)?;
    let (writers, writes) = writing.await??;
    sample.beside = (writes.count(), begun.elapsed());
    Wire::close_many(readers.into_iter().chain(writers).map(|lane| lane.wire).collect()).await?;
    Ok(sample)
}
