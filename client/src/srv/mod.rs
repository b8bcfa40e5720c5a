//! Hosts of SRV records: looked up at the beginning of each round of attempts, in the order of RFC 2782.

mod lookup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use zoolet_clock::Clock;

pub(crate) use self::lookup::check_name;
use self::lookup::look_up;
use crate::locked::locked;
use crate::transport::Host;

/// One SRV record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SrvRecord {
    priority: u16,
    weight: u16,
    port: u16,
    /// Without the dot at its end.
    target: String,
}

type Lookup = Pin<Box<dyn Future<Output = io::Result<Vec<SrvRecord>>> + Send>>;

/// A name whose records are the hosts of a client.
pub(crate) struct SrvSource {
    name: Arc<str>,
    /// Who is asked: the name servers of the system if empty.
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) clock: Clock,
    rng: StdRng,
    /// In progress; goes on with the next attempt, should this one time out.
    lookup: Option<Lookup>,
    waiting: Arc<Waiting>,
    /// Whether the latest lookup has failed.
    failing: bool,
}

impl SrvSource {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            servers: Vec::new(),
            clock: Clock::tokio(),
            rng: rand::make_rng(),
            lookup: None,
            waiting: Arc::default(),
            failing: false,
        }
    }

    pub(crate) fn seed(&mut self, rng: &mut impl RngExt) {
        self.rng = StdRng::from_rng(rng);
    }

    /// As in the connect string, for messages.
    pub(crate) fn label(&self) -> Arc<str> {
        format!("dns-srv://{}", self.name).into()
    }

    /// The hosts in the order of one round.
    pub(crate) fn poll_hosts(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<Host>>> {
        let (name, servers, clock) = (&self.name, &self.servers, &self.clock);
        let lookup = self
            .lookup
            .get_or_insert_with(|| Box::pin(look_up(Arc::clone(name), servers.clone(), clock.clone())));
        self.waiting.add(cx.waker());
        let waker = Arc::clone(&self.waiting).into();
        let records = ready!(lookup.as_mut().poll(&mut Context::from_waker(&waker)));
        self.lookup = None;
        waker.wake();
        let failed_before = std::mem::replace(&mut self.failing, records.is_err());
        match &records {
            // Attempts go on for ever, so what has been reported already is not repeated.
            Err(error) if failed_before => tracing::debug!(name = &*self.name, %error, "no SRV records"),
            Err(error) => tracing::warn!(name = &*self.name, %error, "no SRV records"),
            Ok(_) => {}
        }
        Poll::Ready(records.map(|records| {
            let records = in_order(records, &mut self.rng);
            records.iter().map(|record| Host::new(&record.target, record.port)).collect()
        }))
    }
}

/// Who waits for a lookup. Sessions that share the hosts share it, and a future wakes only who polled it last.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut waiting = locked(&self.0);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *locked(&self.0));
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for SrvSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SrvSource").field(&self.name).finish()
    }
}

/// By priority, and among equal ones at random by weight, as RFC 2782 wants it: a weight of 0 is chosen rarely.
fn in_order(mut records: Vec<SrvRecord>, rng: &mut impl RngExt) -> Vec<SrvRecord> {
    // Records that nothing else tells apart are not always in the order of the answer.
    records.shuffle(rng);
    records.sort_by_key(|record| (record.priority, record.weight != 0));
    let mut ordered = Vec::with_capacity(records.len());
    while let Some(first) = records.first() {
        let priority = first.priority;
        let group = records.iter().take_while(|record| record.priority == priority);
        let drawn = rng.random_range(0..=group.clone().map(|record| u64::from(record.weight)).sum());
        let mut sum = 0;
        let mut reaches = |record: &SrvRecord| {
            sum += u64::from(record.weight);
            sum >= drawn
        };
        let chosen = group.clone().position(&mut reaches).unwrap_or(0);
        ordered.push(records.remove(chosen));
    }
    ordered
}
