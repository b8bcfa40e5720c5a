//! Hosts of SRV records: looked up at the beginning of each round of attempts, in the order of RFC 2782.

mod lookup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

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

/// A name whose records are the hosts of a client.
pub(crate) struct SrvSource {
    name: Arc<str>,
    settings: Mutex<SrvSettings>,
    /// Locked by the session that waits for it; other sessions with the same hosts wait for the lock.
    pub(crate) lookup: tokio::sync::Mutex<Lookup>,
}

struct SrvSettings {
    /// Who is asked: the name servers of the system if empty.
    servers: Vec<SocketAddr>,
    clock: Clock,
    rng: StdRng,
}

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SrvRecord>>> + Send>>;

#[derive(Default)]
pub(crate) struct Lookup {
    /// Goes on with the next attempt, should this one time out.
    in_progress: Option<LookupFuture>,
    /// Whether the latest one has failed.
    failing: bool,
}

impl SrvSource {
    pub(crate) fn new(name: &str) -> Self {
        let settings = SrvSettings { servers: Vec::new(), clock: Clock::tokio(), rng: rand::make_rng() };
        Self { name: name.into(), settings: Mutex::new(settings), lookup: Default::default() }
    }

    /// Asks these name servers from now on, and waits for them by this clock.
    pub(crate) fn ask(&self, servers: Vec<SocketAddr>, clock: Clock, rng: &mut impl RngExt) {
        *locked(&self.settings) = SrvSettings { servers, clock, rng: StdRng::from_rng(rng) };
    }

    /// As in the connect string, for messages.
    pub(crate) fn label(&self) -> Arc<str> {
        format!("dns-srv://{}", self.name).into()
    }

    /// The hosts in the order of one round.
    pub(crate) async fn hosts(&self, lookup: &mut Lookup) -> io::Result<Vec<Host>> {
        let in_progress = lookup.in_progress.get_or_insert_with(|| {
            let settings = locked(&self.settings);
            Box::pin(look_up(Arc::clone(&self.name), settings.servers.clone(), settings.clock.clone()))
        });
        let records = in_progress.await;
        lookup.in_progress = None;
        let failed_before = mem::replace(&mut lookup.failing, records.is_err());
        match &records {
            // Attempts go on for ever, so what has been reported already is not repeated.
            Err(error) if failed_before => tracing::debug!(name = &*self.name, %error, "no SRV records"),
            Err(error) => tracing::warn!(name = &*self.name, %error, "no SRV records"),
            Ok(_) => {}
        }
        let records = in_order(records?, &mut locked(&self.settings).rng);
        Ok(records.iter().map(|record| Host::new(&record.target, record.port)).collect())
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
