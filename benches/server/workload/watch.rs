//! Watches: events of another session's changes or of one's own, and events to many sessions at once.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use zoolet_proto::{Request, Xid};

use super::{Sample, Span, Target, ensure};
use crate::exchange::{get, set};
use crate::load::Latencies;
use crate::wire::{Head, Wire};

/// Which session sets the watched znodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setter {
    /// The session that watches.
    Itself,
    /// Another session for each watcher.
    Another,
}

/// Each watcher has `depth` znodes. A znode is set, and its watcher gets the event and reads it with a new watch. After both
/// replies its next round begins. The latency is the time from the request to the event.
pub(super) async fn hand_off(
    target: &Target,
    setter: Setter,
    watchers: usize,
    depth: usize,
    time: Duration,
) -> io::Result<Sample> {
    let mut teams = Vec::with_capacity(watchers);
    for number in 0..watchers {
        teams.push(Team::open(target, setter, number, depth).await?);
    }
    let end = Instant::now() + time;
    let span = Span::begin(target)?;
    let tasks: Vec<_> = teams.into_iter().map(|team| tokio::spawn(team.run(end))).collect();
    let mut latencies = Latencies::new();
    let mut wires = Vec::with_capacity(2 * watchers);
    for task in tasks {
        let team = task.await??;
        latencies.add(&team.told);
        wires.push(team.watcher.wire);
        wires.extend(team.setter.map(|seat| seat.wire));
    }
    let sample = span.end(latencies.count(), latencies)?;
    Wire::close_many(wires).await?;
    Ok(sample)
}

/// A watching session and a setting one.
struct Team {
    watcher: Seat,
    /// `None` if the watcher sets the znodes itself.
    setter: Option<Seat>,
    znodes: Vec<Znode>,
    /// The znodes whose events are outstanding, in order: sets of one session are executed in order.
    set: VecDeque<usize>,
    told: Latencies,
}

struct Seat {
    wire: Wire,
    /// The znode of each outstanding reply.
    asked: VecDeque<usize>,
}

struct Znode {
    set: Request,
    get: Request,
    began: Instant,
    /// Whether one of the two requests of this round has its reply.
    half_done: bool,
}

impl Seat {
    async fn open(target: &Target) -> io::Result<Self> {
        Ok(Self { wire: Wire::open(&target.door).await?, asked: VecDeque::new() })
    }

    fn send(&mut self, request: &Request, znode: usize) {
        self.wire.send(request);
        self.asked.push_back(znode);
    }

    /// The next complete frame: the reply for a znode, or an event.
    fn next(&mut self) -> io::Result<Option<Got>> {
        let Some(len) = self.wire.peek()?.map(<[u8]>::len) else { return Ok(None) };
        let head = Head::of(self.wire.halves(len).0)?;
        self.wire.consume(len);
        if head.xid == Xid::EVENT {
            return Ok(Some(Got::Event));
        }
        head.succeeded()?;
        let znode = self.asked.pop_front();
        znode
            .map(|znode| Some(Got::Reply(znode)))
            .ok_or_else(|| io::Error::other("a reply without a request"))
    }
}

enum Got {
    Event,
    Reply(usize),
}

impl Team {
    async fn open(target: &Target, setter: Setter, number: usize, depth: usize) -> io::Result<Self> {
        let mut watcher = Seat::open(target).await?;
        ensure(&mut watcher.wire, "/bench").await?;
        let mut znodes = Vec::with_capacity(depth);
        for znode in 0..depth {
            let path = format!("/bench/watched-{number:02}-{znode:02}");
            ensure(&mut watcher.wire, &path).await?;
            watcher.wire.call(&get(&*path, true)).await?;
            let set = set(&*path);
            znodes.push(Znode { set, get: get(path, true), began: Instant::now(), half_done: false });
        }
        let setter = match setter {
            Setter::Itself => None,
            Setter::Another => Some(Seat::open(target).await?),
        };
        Ok(Self { watcher, setter, znodes, set: VecDeque::new(), told: Latencies::new() })
    }

    async fn run(mut self, end: Instant) -> io::Result<Self> {
        let now = Instant::now();
        for znode in 0..self.znodes.len() {
            self.begin(znode, now);
        }
        let mut under_way = self.znodes.len();
        loop {
            self.watcher.wire.flush().await?;
            let watcher = self.watcher.wire.read();
            match &mut self.setter {
                None => watcher.await?,
                Some(setter) => {
                    setter.wire.flush().await?;
                    tokio::select! {
                        biased;
                        read = watcher => read?,
                        read = setter.wire.read() => read?,
                    }
                }
            }
            let now = Instant::now();
            while let Some(znode) = self.next_done(now)? {
                if now < end {
                    self.begin(znode, now);
                } else {
                    under_way -= 1;
                }
            }
            if under_way == 0 {
                return Ok(self);
            }
        }
    }

    fn begin(&mut self, znode: usize, now: Instant) {
        self.znodes[znode].began = now;
        let setter = self.setter.as_mut().unwrap_or(&mut self.watcher);
        setter.send(&self.znodes[znode].set, znode);
        self.set.push_back(znode);
    }

    /// Handles frames until a round is complete; `None` if there are no more.
    fn next_done(&mut self, now: Instant) -> io::Result<Option<usize>> {
        loop {
            let mut got = self.watcher.next()?;
            if let (None, Some(setter)) = (&got, &mut self.setter) {
                got = setter.next()?;
            }
            match got {
                None => return Ok(None),
                Some(Got::Event) => {
                    let znode =
                        self.set.pop_front().ok_or_else(|| io::Error::other("an unexpected event"))?;
                    self.told.record(now - self.znodes[znode].began);
                    self.watcher.send(&self.znodes[znode].get, znode);
                }
                Some(Got::Reply(znode)) => {
                    let half_done = &mut self.znodes[znode].half_done;
                    *half_done = !*half_done;
                    if !*half_done {
                        return Ok(Some(znode));
                    }
                }
            }
        }
    }
}

/// Many sessions watch one znode. It is set, all get the event, then all read it with a new watch. The latency is the time
/// from the request until the last session has the event.
pub(super) async fn fan_out(target: &Target, watchers: usize, time: Duration) -> io::Result<Sample> {
    const PATH: &str = "/bench/watched-by-all";
    let mut writer = Wire::open(&target.door).await?;
    ensure(&mut writer, "/bench").await?;
    ensure(&mut writer, PATH).await?;
    let mut watching = Wire::open_many(&target.door, watchers).await?;
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
