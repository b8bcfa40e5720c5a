//! The lock recipe at the level of the protocol: each contender has an ephemeral sequential znode and watches its
//! predecessor; the lowest one holds the lock.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zoolet_proto::records::GetChildren;
use zoolet_proto::{CreateMode, ErrorCode, OpCode, Reply, Request, Xid};

use super::{Sample, Span, Target, ensure};
use crate::exchange::{create, delete, get};
use crate::load::Latencies;
use crate::wire::{Head, Wire};

const LOCK: &str = "/bench/lock";

/// Sessions acquire and release the lock repeatedly. The latency is the time from the request that releases it to the reply
/// that shows the next holder that it holds.
pub(super) async fn run(target: &Target, contenders: usize, time: Duration) -> io::Result<Sample> {
    let mut wires = Wire::open_many(&target.door, contenders).await?;
    ensure(&mut wires[0], "/bench").await?;
    ensure(&mut wires[0], LOCK).await?;
    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let passed_on = Arc::new(Mutex::new(PassedOn { released: None, latencies: Latencies::new() }));
    let contend = |wire| tokio::spawn(Contender { wire, passed_on: Arc::clone(&passed_on) }.run(end));
    let tasks: Vec<_> = wires.into_iter().map(contend).collect();
    let mut wires = Vec::with_capacity(contenders);
    for task in tasks {
        wires.push(task.await??);
    }
    let mut latencies = Latencies::new();
    latencies.add(&passed_on.lock().unwrap_or_else(PoisonError::into_inner).latencies);
    let sample = span.end(latencies.count(), latencies)?;
    Wire::close_many(wires).await?;
    Ok(sample)
}

struct PassedOn {
    released: Option<Instant>,
    latencies: Latencies,
}

struct Contender {
    wire: Wire,
    passed_on: Arc<Mutex<PassedOn>>,
}

impl Contender {
    async fn run(mut self, end: Instant) -> io::Result<Wire> {
        while Instant::now() < end {
            let path = self.acquire().await?;
            self.note(|passed_on| {
                if let Some(released) = passed_on.released.take() {
                    passed_on.latencies.record(released.elapsed());
                }
            });
            self.note(|passed_on| passed_on.released = Some(Instant::now()));
            self.wire.call(&delete(path)).await?;
        }
        Ok(self.wire)
    }

    fn note(&self, what: impl FnOnce(&mut PassedOn)) {
        what(&mut self.passed_on.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for the lock and returns the path of its znode.
    async fn acquire(&mut self) -> io::Result<String> {
        let body = self.wire.call(&create(format!("{LOCK}/n-"), CreateMode::EphemeralSequential)).await?;
        let Ok(Reply::Created(path)) = Reply::parse(OpCode::Create, &body) else { return Err(undecodable()) };
        let own = &path[LOCK.len() + 1..];
        loop {
            let Some(predecessor) = self.predecessor(own).await? else { return Ok(path) };
            self.deleted(format!("{LOCK}/{predecessor}")).await?;
        }
    }

    /// The predecessor of `own`, if any.
    async fn predecessor(&mut self, own: &str) -> io::Result<Option<String>> {
        let list = Request::GetChildren(GetChildren { path: LOCK.into(), watch: false });
        let body = self.wire.call(&list).await?;
        let Ok(Reply::Children(names)) = Reply::parse(OpCode::GetChildren, &body) else {
            return Err(undecodable());
        };
        Ok(names.iter().filter(|name| name.as_str() < own).max())
    }

    /// Returns when the znode is gone.
    async fn deleted(&mut self, path: String) -> io::Result<()> {
        self.wire.send(&get(path, true));
        self.wire.flush().await?;
        let frame = self.wire.frame().await?;
        let head = Head::of(&frame)?;
        match head.error() {
            _ if head.xid == Xid::EVENT => {
                Err(io::Error::other("an event before the reply that set its watch"))
            }
            None => self.wire.event().await,
            // Already deleted. Unlike exists, getData sets no watch then.
            Some(ErrorCode::NoNode) => Ok(()),
            Some(code) => Err(io::Error::other(format!("getData: {code}"))),
        }
    }
}

fn undecodable() -> io::Error {
    io::Error::other("a reply that does not decode")
}
