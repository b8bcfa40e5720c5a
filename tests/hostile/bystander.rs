//! The well-behaved clients of an attacked server: one that reads and writes all the time, and some that only send pings.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zoolet_test_support::{create, get_data, ping, set_data};

use crate::peer::{Peer, frames};

/// From one operation to the next.
pub const PERIOD: Duration = Duration::from_millis(5);

/// How long a client waits for the replies that it lacks when the attack is over.
const PATIENCE: Duration = Duration::from_secs(10);

/// The timeout of the idle sessions: the minimum at a tick of two seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const IDLE_SESSIONS: usize = 5;

/// A client that alternates getData and setData, 200 operations a second, on one connection and one thread.
pub struct Bystander {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: JoinHandle<Waits>,
}

/// How long its operations took. The last one may have had no reply.
#[derive(Debug, Default)]
pub struct Waits {
    pub operations: usize,
    pub p99: Duration,
    pub longest: Duration,
    /// It lost its connection, or did not get the last reply.
    pub lost: bool,
}

impl Bystander {
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let mut peer = Peer::connect(address)?;
        peer.call(&create("/bystander"))?;
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, count) = (stop.clone(), done.clone());
        let thread = thread::Builder::new().name("bystander".into());
        let thread = thread.spawn(move || run(&mut peer, &stopped, &count))?;
        Ok(Self { stop, done, thread })
    }

    /// Operations with a reply so far.
    pub fn operations(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Has it end after the operation that it waits for.
    pub fn finish(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn stop(self) -> Waits {
        self.finish();
        self.thread.join().expect("a bystander does not panic")
    }
}

fn run(peer: &mut Peer, stop: &AtomicBool, done: &AtomicUsize) -> Waits {
    let requests = [get_data("/bystander"), set_data("/bystander", [7; 100])];
    let requests = requests.each_ref().map(|request| frames([request]));
    let (mut waits, mut lost) = (Vec::new(), false);
    let mut due = Instant::now();
    for request in requests.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // An operation that is due while the one before it waits, waits as well; that this thread wakes up late does not count.
        let early = due.saturating_duration_since(Instant::now());
        thread::sleep(early);
        let begun = if early.is_zero() { due } else { Instant::now() };
        let answered = peer.send(request).and_then(|()| read(peer, stop));
        waits.push(begun.elapsed());
        if answered.is_err() {
            lost = true;
            break;
        }
        done.fetch_add(1, Ordering::Relaxed);
        due += PERIOD;
    }
    summary(waits, lost)
}

/// Waits for a reply as long as it takes, and for a limited time after the end.
fn read(peer: &mut Peer, stop: &AtomicBool) -> io::Result<()> {
    let mut deadline = None;
    let mut give_up = || {
        let stopped = stop.load(Ordering::Relaxed);
        stopped && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + PATIENCE)
    };
    let mut length = [0; 4];
    peer.fill(&mut length, &mut give_up)?;
    peer.fill(&mut vec![0; u32::from_be_bytes(length) as usize], &mut give_up)
}

fn summary(mut waits: Vec<Duration>, lost: bool) -> Waits {
    waits.sort_unstable();
    let at = |part: f64| waits.get((waits.len() as f64 * part) as usize).or(waits.last()).copied();
    Waits {
        operations: waits.len(),
        p99: at(0.99).unwrap_or_default(),
        longest: at(1.0).unwrap_or_default(),
        lost,
    }
}

/// Sessions that send pings in time and nothing else.
pub struct Idle {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Idle {
    pub fn start(address: SocketAddr) -> io::Result<Self> {
        let connect = |_| Peer::with_timeout(address, IDLE_TIMEOUT);
        let mut peers = (0..IDLE_SESSIONS).map(connect).collect::<io::Result<Vec<_>>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new().name("idle".into()).spawn(move || {
            let ping = frames([&ping()]);
            while !stopped.load(Ordering::Relaxed) {
                peers.retain_mut(|peer| peer.send(&ping).is_ok());
                let next = Instant::now() + IDLE_TIMEOUT / 4;
                while Instant::now() < next && !stopped.load(Ordering::Relaxed) {
                    thread::sleep(PERIOD);
                }
            }
            let deadline = Instant::now() + PATIENCE;
            peers.retain_mut(|peer| is_alive(peer, deadline));
            IDLE_SESSIONS - peers.len()
        })?;
        Ok(Self { stop, thread })
    }

    /// Returns how many sessions were lost.
    pub fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("an idle client does not panic")
    }
}

/// Whether a session that has replies to pings to read is still served.
fn is_alive(peer: &mut Peer, deadline: Instant) -> bool {
    let is_other = |frame: &Vec<u8>| frame.get(..4) != Some(&1_i32.to_be_bytes());
    let read = |peer: &mut Peer| peer.read(deadline.saturating_duration_since(Instant::now()));
    if peer.send(&frames([&get_data("/bystander")])).is_err() {
        return false;
    }
    let mut answer = read(peer);
    while answer.as_ref().is_ok_and(is_other) {
        answer = read(peer);
    }
    answer.is_ok()
}
