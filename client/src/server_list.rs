//! [`ServerList`]: the hosts that a client may connect to, in the order in which it tries them.

use std::collections::VecDeque;
#[cfg(feature = "dns-srv")]
use std::future::Future;
#[cfg(feature = "dns-srv")]
use std::io;
#[cfg(feature = "dns-srv")]
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand::seq::SliceRandom;
#[cfg(feature = "dns-srv")]
use zoolet_clock::Clock;

use crate::connect_string::{ConnectString, TargetHosts, TargetSecurity, parse};
use crate::error::Error;
use crate::locked::locked;
#[cfg(feature = "dns-srv")]
use crate::srv::SrvSource;
use crate::transport::Host;

/// The hosts of a connect string, and of what has replaced it. A handle is cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ServerList {
    chroot: Arc<str>,
    security: Arc<TargetSecurity>,
    ring: Arc<Mutex<HostRing>>,
    /// Where the hosts are from, if the connect string does not name them.
    #[cfg(feature = "dns-srv")]
    srv: Option<Arc<SrvSource>>,
}

impl ServerList {
    /// At least one host.
    pub(crate) fn new(hosts: Vec<Host>, chroot: &str, security: TargetSecurity) -> Self {
        Self {
            chroot: chroot.into(),
            security: Arc::new(security),
            ring: Arc::new(Mutex::new(HostRing { hosts, ..HostRing::default() })),
            #[cfg(feature = "dns-srv")]
            srv: None,
        }
    }

    /// The hosts of SRV records, of which none is known yet.
    #[cfg(feature = "dns-srv")]
    pub(crate) fn of_srv(name: &str, chroot: &str, security: TargetSecurity) -> Self {
        Self { srv: Some(Arc::new(SrvSource::new(name))), ..Self::new(Vec::new(), chroot, security) }
    }

    /// The name servers to ask for SRV records, instead of those of the system, and the clock to wait for them by.
    #[cfg(feature = "dns-srv")]
    pub(crate) fn ask(&self, servers: Vec<SocketAddr>, clock: Clock, rng: &mut impl RngExt) {
        if let Some(srv) = &self.srv {
            srv.ask(servers, clock, rng);
        }
    }

    /// The lookup that the next attempt begins with, if it does, and the name that is looked up. All sessions that share the
    /// hosts wait for the same one. Afterwards there are hosts, unless it fails.
    #[cfg(feature = "dns-srv")]
    pub(crate) fn lookup(&self) -> Option<(Arc<str>, impl Future<Output = io::Result<()>> + Send + use<>)> {
        // A round of SRV records is over with its last host, or with a connection.
        let is_round_over = |ring: &Mutex<HostRing>| locked(ring).first.is_empty();
        let srv = self.srv.clone().filter(|_| is_round_over(&self.ring))?;
        let ring = Arc::clone(&self.ring);
        Some((srv.label(), async move {
            let mut lookup = srv.lookup.lock().await;
            // Another session may have begun the next one meanwhile.
            if is_round_over(&ring) {
                let found = srv.hosts(&mut lookup).await;
                locked(&ring).begin_round(found)?;
            }
            Ok(())
        }))
    }

    /// As in the connect string; empty for none.
    pub(crate) fn chroot(&self) -> &str {
        &self.chroot
    }

    /// What the connect string says about the connection.
    pub(crate) fn security(&self) -> &TargetSecurity {
        &self.security
    }

    pub(crate) fn len(&self) -> usize {
        locked(&self.ring).hosts.len()
    }

    pub(crate) fn hosts(&self) -> Vec<Host> {
        locked(&self.ring).hosts.clone()
    }

    /// Whether attempts may still be made at this one: a host, or the name of SRV records.
    pub(crate) fn has(&self, label: &str) -> bool {
        #[cfg(feature = "dns-srv")]
        if self.srv.as_ref().is_some_and(|srv| *srv.label() == *label) {
            return true;
        }
        locked(&self.ring).hosts.iter().any(|host| *host.label == *label)
    }

    /// Shuffles the hosts, so that not all clients begin with the same one.
    pub(crate) fn shuffle(&self, rng: &mut impl RngExt) {
        locked(&self.ring).hosts.shuffle(rng);
    }

    /// The host of the next attempt, and how often all were tried before.
    pub(crate) fn next(&self) -> (Host, usize) {
        locked(&self.ring).next()
    }

    /// There is a session with one of the hosts: all of them are equal again.
    pub(crate) fn forget_preferred(&self) {
        locked(&self.ring).first.clear();
    }

    /// Replaces the hosts by those of a connect string. `current` is the host of the present connection. Returns whether to
    /// leave that.
    ///
    /// # Errors
    /// `InvalidTarget`.
    pub(crate) fn update(
        &self,
        target: &str,
        current: Option<&str>,
        rng: &mut impl RngExt,
    ) -> Result<bool, Error> {
        let ConnectString { security, hosts, chroot } = parse(target)?;
        let invalid = |reason: &str| Err(Error::InvalidTarget(format!("{target:?}: {reason}")));
        if security != TargetSecurity::default() && security != *self.security {
            return invalid("a client keeps its user, and TLS or none: leave out the scheme and the user");
        }
        let TargetHosts::Named(hosts) = hosts else {
            return invalid("a client reads SRV records if it connects to their name: name the hosts here");
        };
        #[cfg(feature = "dns-srv")]
        if let Some(srv) = &self.srv {
            return invalid(&format!("the hosts of this client are those of {}", srv.label()));
        }
        if !chroot.is_empty() && *chroot != *self.chroot {
            return invalid(&format!(
                "the chroot of a client stays as it is, {:?}: leave it out",
                self.chroot
            ));
        }
        Ok(locked(&self.ring).update(hosts, current, rng))
    }
}

#[derive(Debug, Default)]
struct HostRing {
    hosts: Vec<Host>,
    /// How many attempts were made at `hosts`, in turn.
    attempts: usize,
    /// Who is tried before that, after the hosts were replaced.
    first: VecDeque<Host>,
    /// How many rounds of SRV records have begun.
    rounds: usize,
}

impl HostRing {
    /// All hosts that a lookup has found are tried, in this order. If it has failed, those of the latest answer are.
    #[cfg(feature = "dns-srv")]
    fn begin_round(&mut self, found: io::Result<Vec<Host>>) -> io::Result<()> {
        match found {
            Ok(hosts) => self.hosts = hosts,
            Err(error) if self.hosts.is_empty() => return Err(error),
            Err(_) => {}
        }
        self.first = self.hosts.iter().cloned().collect();
        self.rounds += 1;
        Ok(())
    }

    fn next(&mut self) -> (Host, usize) {
        if let Some(host) = self.first.pop_front() {
            return (host, self.rounds.saturating_sub(1));
        }
        let (round, at) = (self.attempts / self.hosts.len(), self.attempts % self.hosts.len());
        self.attempts += 1;
        (self.hosts[at].clone(), round)
    }

    /// The host of the latest attempt; while the order is another than that of `hosts`, that of the next one.
    fn latest(&self) -> &Host {
        let at = self.attempts.saturating_sub(1) % self.hosts.len();
        self.first.front().unwrap_or(&self.hosts[at])
    }

    /// The rule of Java's `StaticHostProvider.updateServerList`. Each client moves or stays by a draw of its own: if the servers of
    /// the old list had equal numbers of clients, so are those of the new list expected to have, and no more move than needed.
    fn update(&mut self, mut hosts: Vec<Host>, current: Option<&str>, rng: &mut impl RngExt) -> bool {
        hosts.shuffle(rng);
        let current = current.unwrap_or(&self.latest().label).to_owned();
        let (before, after) = (self.hosts.len(), hosts.len());
        let at = hosts.iter().position(|host| *host.label == *current);
        let (old, new): (Vec<_>, Vec<_>) = hosts.iter().cloned().partition(|host| self.hosts.contains(host));
        // The share of moving clients that go to a new server; `None` to stay.
        let to_new = match at {
            Some(_) if after > before => rng.random_bool(1.0 - ratio(before, after)).then_some(1.0),
            Some(_) => None,
            None if after > before => Some(1.0),
            None => {
                let removed = before - old.len();
                let to_old = ratio(old.len() * (before - after), after * removed.max(1));
                Some(1.0 - to_old.min(1.0))
            }
        };
        self.first = to_new.map(|to_new| drawn(old, new, to_new, rng)).unwrap_or_default();
        // The one after the present one is next, should that be lost.
        self.attempts = at.map_or(0, |at| at + 1);
        self.hosts = hosts;
        to_new.is_some()
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// All of both lists, each time the next of `new` with the probability `to_new`.
fn drawn(old: Vec<Host>, new: Vec<Host>, to_new: f64, rng: &mut impl RngExt) -> VecDeque<Host> {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    std::iter::from_fn(|| {
        let takes_new = rng.random_bool(to_new) || old.peek().is_none();
        if takes_new && new.peek().is_some() { new.next() } else { old.next() }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    const CLIENTS: usize = 20_000;

    fn list(target: &str) -> ServerList {
        let ConnectString { hosts: TargetHosts::Named(hosts), chroot, security } =
            parse(target).expect(target)
        else {
            panic!("{target} names no hosts");
        };
        ServerList::new(hosts, chroot, security)
    }

    /// Where clients are that were spread evenly over `before`, after the update to `after`; and how many have moved.
    fn rebalanced(before: &str, after: &str) -> (BTreeMap<String, usize>, usize) {
        let mut rng = StdRng::seed_from_u64(7);
        let (mut clients, mut moved) = (BTreeMap::new(), 0);
        for client in 0..CLIENTS {
            let list = list(before);
            let names: Vec<_> = list.hosts().into_iter().map(|host| host.label).collect();
            let mut at = Arc::clone(&names[client % names.len()]);
            if list.update(after, Some(&at), &mut rng).expect("a list") {
                moved += 1;
                at = list.next().0.label;
            }
            *clients.entry(at.to_string()).or_insert(0) += 1;
        }
        (clients, moved)
    }

    #[track_caller]
    fn is_even(clients: &BTreeMap<String, usize>, servers: usize) {
        assert_eq!(clients.len(), servers, "{clients:?}");
        let share = CLIENTS / servers;
        assert!(clients.values().all(|count| count.abs_diff(share) < share / 12), "{clients:?}");
    }

    #[test]
    fn when_servers_are_added_just_their_share_of_the_clients_moves_to_them() {
        let (clients, moved) = rebalanced("a,b,c", "a,b,c,d,e");
        is_even(&clients, 5);
        assert!(moved.abs_diff(CLIENTS * 2 / 5) < CLIENTS / 50, "{moved}");
    }

    #[test]
    fn when_servers_are_removed_only_their_clients_move_evenly_over_the_others() {
        let (clients, moved) = rebalanced("a,b,c,d,e", "a,b,c");
        is_even(&clients, 3);
        assert_eq!(moved, CLIENTS * 2 / 5);
    }

    #[test]
    fn when_servers_are_replaced_the_clients_of_those_that_go_move_to_new_and_old_ones_as_needed() {
        for (before, after, servers) in
            [("a,b,c", "a,b,d", 3), ("a,b,c,d", "a,e,f", 3), ("a,b", "a,c,d", 3), ("a,b,c", "d,e", 2)]
        {
            is_even(&rebalanced(before, after).0, servers);
        }
        let (clients, moved) = rebalanced("a,b,c", "c,b,a");
        is_even(&clients, 3);
        assert_eq!(moved, 0);
    }

    #[test]
    fn all_hosts_are_tried_the_new_ones_first_until_there_is_a_connection() {
        let mut rng = StdRng::seed_from_u64(1);
        let hosts = list("a,b");
        assert!(hosts.update("c,d,b", Some("a:2181"), &mut rng).expect("a list"));
        let names = || hosts.next().0.name.to_string();
        let mut first = [names(), names()];
        first.sort_unstable();
        assert_eq!((first, names()), (["c".into(), "d".into()], "b".into()));
        let mut all = [names(), names(), names()];
        all.sort_unstable();
        assert_eq!(all, ["b", "c", "d"], "then all in turn");

        assert!(hosts.update("e,f", Some("b:2181"), &mut rng).expect("a list"));
        let reached = hosts.next().0;
        hosts.forget_preferred();
        assert_eq!(hosts.next().0, reached, "the list begins anew");
    }

    #[test]
    fn a_client_that_stays_goes_on_with_the_host_after_its_own() {
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..20 {
            let hosts = list("a,b,c");
            assert!(!hosts.update("a,b", Some("b:2181"), &mut rng).expect("a list"));
            assert_eq!(&*hosts.next().0.name, "a");
        }
    }

    #[cfg(feature = "dns-srv")]
    #[test]
    fn each_round_of_srv_records_tries_the_next_address_of_a_name() {
        let hosts = ServerList::of_srv("_zk._tcp.example.com", "", TargetSecurity::default());
        for round in 0..3 {
            let ring = &mut *locked(&hosts.ring);
            ring.begin_round(Ok(vec![Host::new("a", 1), Host::new("b", 2)])).expect("hosts");
            assert_eq!([ring.next().1, ring.next().1], [round; 2]);
        }
    }

    #[test]
    fn a_list_without_hosts_or_with_another_chroot_is_refused_and_changes_nothing() {
        let mut rng = StdRng::seed_from_u64(1);
        let hosts = list("a,b/app");
        for target in ["", "c/other", "c:port"] {
            let error = hosts.update(target, None, &mut rng).expect_err(target);
            assert!(error.to_string().starts_with("connect: "), "{error}");
        }
        assert_eq!(hosts.len(), 2);
        hosts.update("c/app", None, &mut rng).expect("the same chroot");
        let secured = list("zk+tls://alice@a");
        for target in ["zk+tls://b", "zk+tls://bob@b", "alice@b"] {
            let error = secured.update(target, None, &mut rng).expect_err(target).to_string();
            assert!(error.ends_with("leave out the scheme and the user"), "{error}");
        }
        for target in ["b", "zk+tls://alice@b"] {
            secured.update(target, None, &mut rng).expect(target);
        }
        assert_eq!(hosts.len(), 1);
    }
}
