//! The closed loop: connections that each keep the same number of operations in flight.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use zoolet_proto::Xid;

use crate::exchange::{Exchange, Step};
use crate::wire::{Head, Wire};

/// The latencies of operations.
pub(crate) struct Latencies {
    nanos: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        const MINUTE: u64 = 60_000_000_000;
        Self { nanos: Histogram::new_with_max(MINUTE, 3).expect("bounds a histogram can have") }
    }

    pub(crate) fn record(&mut self, took: Duration) {
        self.nanos.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.nanos.add(&other.nanos).expect("histograms of the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// The latency at this quantile, in microseconds.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.nanos.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// A connection and its operations.
pub(crate) struct Lane<E> {
    pub(crate) wire: Wire,
    exchange: E,
    /// The limit of operations.
    quota: u64,
    /// Operations begun so far.
    pub(crate) begun: u64,
    /// The xid of each request in flight, and when its operation began.
    waiting: VecDeque<(Xid, Instant)>,
    latencies: Latencies,
}

/// Runs the lanes concurrently until `end`, and finishes operations in flight.
pub(crate) async fn run<E: Exchange>(
    lanes: Vec<Lane<E>>,
    depth: usize,
    end: Instant,
) -> io::Result<(Vec<Lane<E>>, Latencies)> {
    let tasks: Vec<_> = lanes.into_iter().map(|lane| tokio::spawn(lane.run(depth, end))).collect();
    let mut lanes = Vec::with_capacity(tasks.len());
    let mut latencies = Latencies::new();
    for task in tasks {
        let lane = task.await??;
        latencies.add(&lane.latencies);
        lanes.push(lane);
    }
    Ok((lanes, latencies))
}

impl<E: Exchange> Lane<E> {
    /// A lane that is limited only by time.
    pub(crate) fn new(wire: Wire, exchange: E) -> Self {
        let waiting = VecDeque::new();
        Self { wire, exchange, quota: u64::MAX, begun: 0, waiting, latencies: Latencies::new() }
    }

    /// Also limits the number of operations.
    pub(crate) fn at_most(self, quota: u64) -> Self {
        Self { quota, ..self }
    }

    async fn run(mut self, depth: usize, end: Instant) -> io::Result<Self> {
        for _ in 0..depth {
            self.begin(Instant::now(), end);
        }
        self.wire.flush().await?;
        while !self.waiting.is_empty() {
            self.wire.read().await?;
            // All frames of one read share a clock reading, and their next requests one write, as in a pipelining client.
            let now = Instant::now();
            while self.take_reply(now, end)? {}
            self.wire.flush().await?;
        }
        Ok(self)
    }

    fn begin(&mut self, now: Instant, end: Instant) {
        if now < end && self.begun < self.quota {
            let xid = self.wire.next_xid();
            self.exchange.begin(xid, &mut self.wire.outbox);
            self.waiting.push_back((xid, now));
            self.begun += 1;
        }
    }

    /// Handles one reply of the inbox and appends the next request; returns false if no reply is complete.
    fn take_reply(&mut self, now: Instant, end: Instant) -> io::Result<bool> {
        let Some(len) = self.wire.peek()?.map(<[u8]>::len) else { return Ok(false) };
        let next = self.wire.next_xid();
        let (frame, out) = self.wire.halves(len);
        let head = Head::of(frame)?;
        head.succeeded()?;
        let Some((_, began)) = self.waiting.pop_front().filter(|(xid, _)| *xid == head.xid) else {
            return Err(io::Error::other(format!("a reply to request {} out of order", head.xid)));
        };
        let step = self.exchange.reply(frame, next, out)?;
        self.wire.consume(len);
        match step {
            Step::More => self.waiting.push_back((next, began)),
            Step::Done => {
                self.latencies.record(now - began);
                self.begin(now, end);
            }
        }
        Ok(true)
    }
}
