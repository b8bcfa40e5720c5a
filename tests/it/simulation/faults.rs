//! What goes wrong in a run, and when: a script that is drawn from the seed before the run begins.

use std::collections::VecDeque;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use turmoil::Sim;

use crate::simulation::world::{LATENCY, SERVER, Site, TIMEOUT};

/// What is wrong with the link between a client and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing arrives.
    Cut,
    /// Nothing arrives at the server.
    Mute,
    /// Nothing arrives at the client.
    Deaf,
    /// Nothing arrives until it is over, then everything.
    Stall,
    /// Everything takes up to this long.
    Slow(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Link(u64, Option<Fault>),
    /// The server stops and starts, and knows what it knew.
    Restart,
    /// The server's machine loses power, and the server all it knew.
    Crash,
    Bounce,
}

/// A script for a run with clients `1..=clients`.
#[derive(Debug)]
pub struct Faults {
    steps: VecDeque<(Duration, Step)>,
    links: Vec<Option<Fault>>,
    down: bool,
    /// When it crashed.
    pub crashes: Vec<Duration>,
}

impl Faults {
    /// Faults between the first second and `until`, when the last of them is over. Those of the server are crashes only if it `forgets`.
    pub fn draw(mut rng: StdRng, clients: u64, until: Duration, forgets: bool) -> Self {
        let mut steps = Vec::new();
        for client in 1..=clients {
            each_while(&mut rng, until, |rng, at| {
                let fault = match rng.random_range(0..5) {
                    0 => Fault::Cut,
                    1 => Fault::Mute,
                    2 => Fault::Deaf,
                    3 => Fault::Stall,
                    _ => Fault::Slow(rng.random_range(LATENCY..TIMEOUT)),
                };
                // Some cost a session, some do not.
                let end = (at + rng.random_range(LATENCY..2 * TIMEOUT)).min(until);
                steps.extend([(at, Step::Link(client, Some(fault))), (end, Step::Link(client, None))]);
                end
            });
        }
        each_while(&mut rng, until, |rng, at| {
            if rng.random() || !forgets {
                steps.push((at, Step::Restart));
                return at + TIMEOUT;
            }
            let end = (at + rng.random_range(LATENCY..2 * TIMEOUT)).min(until);
            steps.extend([(at, Step::Crash), (end, Step::Bounce)]);
            end + 2 * TIMEOUT
        });
        steps.sort_by_key(|(at, _)| *at);
        let links = vec![None; usize::try_from(clients).unwrap()];
        Self { steps: steps.into(), links, down: false, crashes: Vec::new() }
    }

    /// Does what is due.
    pub fn apply(&mut self, sim: &mut Sim<'static>, site: &Site) {
        while let Some((_, step)) = self.steps.front().copied().filter(|(at, _)| *at <= sim.elapsed()) {
            self.steps.pop_front();
            match step {
                Step::Link(client, fault) => {
                    self.links[index(client)] = fault;
                    self.set_link(sim, client);
                }
                Step::Restart => site.restart(),
                Step::Crash => {
                    // First the network: a machine without power closes no connection. If tokio's tasks did, as they
                    // are dropped, it would be in no particular order.
                    self.down = true;
                    self.set_links(sim);
                    sim.crash(SERVER);
                    self.crashes.push(sim.elapsed());
                }
                Step::Bounce => {
                    self.down = false;
                    self.set_links(sim);
                    sim.bounce(SERVER);
                }
            }
        }
    }

    fn set_links(&self, sim: &Sim<'static>) {
        (1..).take(self.links.len()).for_each(|client| self.set_link(sim, client));
    }

    fn set_link(&self, sim: &Sim<'static>, client: u64) {
        let fault = self.links[index(client)];
        let client = host_name(client);
        let client = client.as_str();
        let slowest = if let Some(Fault::Slow(latency)) = fault { latency } else { LATENCY };
        sim.set_link_max_message_latency(client, SERVER, slowest);
        // A link that was cut both ways stays so one way otherwise.
        sim.repair(client, SERVER);
        match fault {
            _ if self.down => sim.partition(client, SERVER),
            Some(Fault::Cut) => sim.partition(client, SERVER),
            Some(Fault::Mute) => sim.partition_oneway(client, SERVER),
            Some(Fault::Deaf) => sim.partition_oneway(SERVER, client),
            Some(Fault::Stall) => sim.hold(client, SERVER),
            Some(Fault::Slow(_)) | None => sim.release(client, SERVER),
        }
    }
}

/// The name of a client's host.
pub fn host_name(client: u64) -> String {
    format!("client-{client}")
}

fn index(client: u64) -> usize {
    usize::try_from(client - 1).unwrap()
}

/// Calls `begin` at random times until `until`; it gives the time at which what it began is over.
fn each_while(rng: &mut StdRng, until: Duration, mut begin: impl FnMut(&mut StdRng, Duration) -> Duration) {
    let mut at = Duration::from_secs(1);
    loop {
        at += rng.random_range(Duration::ZERO..TIMEOUT);
        if at >= until {
            return;
        }
        at = begin(rng, at);
    }
}
