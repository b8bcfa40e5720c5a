//! The closed loop: connections that each keep the same number of operations on the way.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use zoolet_proto::Xid;

use crate::exchange::{Exchange, Step};
use crate::wire::{Head, Wire};

/// How long each of a number of operations took.
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

    /// The time within which this share of them was done, in microseconds.
    pub(crate) fn micros(&self, quantile: f64) -> f64 {
        self.nanos.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// A connection and what is done on it.
pub(crate) struct Lane<E> {
    pub(crate) wire: Wire,
    exchange: E,
    /// Operations it may begin.
    quota: u64,
    /// Operations it has begun.
    pub(crate) begun: u64,
    /// For each request that has no reply yet: its number, and when its operation began.
    waiting: VecDeque<(Xid, Instant)>,
    latencies: Latencies,
}

/// Runs the lanes beside each other until `end`; operations that are on the way by then are finished.
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
    /// A lane without a limit but time.
    pub(crate) fn new(wire: Wire, exchange: E) -> Self {
        let waiting = VecDeque::new();
        Self { wire, exchange, quota: u64::MAX, begun: 0, waiting, latencies: Latencies::new() }
    }

    /// Limits the number of operations as well.
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
            // One reading of the clock serves every frame a read has brought, and one write every answer to them, as
            // it would with a client that pipelines.
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

    /// Takes one reply out of the inbox and goes on with the next request; false if no reply is whole.
    fn take_reply(&mut self, now: Instant, end: Instant) -> io::Result<bool> {
        let Some(len) = self.wire.peek()?.map(<[u8]>::len) else { return Ok(false) };
        let next = self.wire.next_xid();
        let (frame, out) = self.wire.halves(len);
        let head = Head::of(frame)?;
        head.succeeded()?;
        let Some((_, began)) = self.waiting.pop_front().filter(|(xid, _)| *xid == head.xid) else {
            return Err(io::Error::other(format!("a reply to request {} out of turn", head.xid)));
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
