//! What must hold whenever the system is quiescent: time has not moved since the last event, so
//! no contender may depend on a timer to notice it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use zoolet::testing::SessionInfo;

use crate::locks::contender::Seat;
use crate::locks::rules::Line;
use crate::locks::stage::{Phase, Stage};

impl Stage {
    /// Whether all clients can reach the server: no connection is lost or frozen, and no endpoint lags.
    pub fn is_quiescent(&self) -> bool {
        let endpoints = (0..self.zk.endpoints()).filter_map(|number| self.zk.endpoint(number).ok());
        let current = endpoints.map(|endpoint| endpoint.view()).all(|view| view.alive && view.behind == 0);
        let heard = |session: &SessionInfo| {
            let traffic = session.conn.and_then(|conn| self.zk.traffic(conn));
            traffic.is_some_and(|traffic| !traffic.held)
        };
        let sessions = self.zk.sessions();
        let living = |seat: &&Arc<Seat>| !seat.zk.state().is_final();
        current
            && !self.is_put_off()
            && self.seats().iter().filter(living).all(|seat| {
                let session = sessions.iter().find(|session| session.id == seat.zk.session_id());
                seat.zk.state().is_connected() && session.is_some_and(heard)
            })
    }

    /// Checks all that must hold; contenders that were evicted are exempt from part of it.
    pub fn check_quiescent(&self) {
        self.note_quiescent();
        let seats = self.seats();
        let (line, holders) = {
            let audit = self.audit();
            (audit.line.clone(), audit.holders())
        };
        self.check_watches(&line, &seats);
        let mut claimed = BTreeSet::new();
        for seat in &seats {
            self.check_znodes(seat, &seats);
            let Phase::Holding(held) = &*seat.phase() else { continue };
            let (nodes, token) = (held.guard().nodes(), held.guard().token().get());
            let stands = |node: &&String| line.get(*node).is_some_and(|stand| stand.token == token);
            let left: Vec<_> = nodes.iter().filter(stands).cloned().collect();
            if held.is_lost() {
                assert_eq!(left, Vec::<String>::new(), "lost, and yet kept from others");
                continue;
            }
            if left.len() < nodes.len() {
                assert!(seat.evicted.load(SeqCst), "seat {} believes to hold {nodes:?}", seat.number);
                assert!(
                    !seat.watches_own.load(SeqCst),
                    "seat {} does not know that it was evicted",
                    seat.number
                );
            }
            // Of several permits each counts by itself.
            claimed.extend(left.into_iter().filter(|node| self.recipe.rule().is_whole(&line, node)));
        }
        assert_eq!(
            claimed, holders,
            "the contenders that believe they hold, and the holders by the server's transactions"
        );
    }

    /// What a session has is what its contenders need.
    fn check_znodes(&self, seat: &Seat, seats: &[Arc<Seat>]) {
        let session = seat.zk.session_id();
        let of_it = || seats.iter().filter(|seat| seat.zk.session_id() == session);
        let owned: Vec<_> = self.zk.sessions().into_iter().filter(|other| other.id == session).collect();
        let owned = owned.first().map(|session| session.ephemerals.clone()).unwrap_or_default();
        let needed: usize = of_it().map(|seat| self.needs(seat)).sum();
        let evicted = of_it().any(|seat| seat.evicted.load(SeqCst));
        assert!(
            owned.len() == needed || evicted && owned.len() < needed,
            "seat {} needs {needed} znodes for {:?} and has {owned:?}",
            seat.number,
            seat.phase()
        );
    }

    fn needs(&self, seat: &Seat) -> usize {
        match &*seat.phase() {
            Phase::Idle => 0,
            Phase::Acquiring if seat.zk.state().is_final() => 0,
            Phase::Acquiring => self.recipe.znodes_of_waiter(),
            Phase::Asking => panic!("seat {} waits for an answer that does not come", seat.number),
            Phase::Holding(held) if held.is_lost() => 0,
            Phase::Holding(held) => held.guard().nodes().len(),
        }
    }

    /// Every waiter watches the znode it waits for, and there is no other watch.
    fn check_watches(&self, line: &Line, seats: &[Arc<Seat>]) {
        let of_evicted = |session: i64| {
            let mut of_it = seats.iter().filter(|seat| seat.zk.session_id().0 == session);
            of_it.any(|seat| seat.evicted.load(SeqCst))
        };
        let waits =
            |seat: &&Arc<Seat>| matches!(*seat.phase(), Phase::Acquiring) && !seat.zk.state().is_final();
        let wait: Vec<_> = seats.iter().filter(waits).map(|seat| seat.zk.session_id().0).collect();
        let mut needed = self.recipe.rule().watches(line, &wait);
        needed.retain(|(session, _)| !of_evicted(*session));
        for seat in seats.iter().filter(|seat| seat.watches_own.load(SeqCst)) {
            if let Phase::Holding(held) = &*seat.phase() {
                let session = seat.zk.session_id().0;
                if !held.is_lost() && !of_evicted(session) {
                    needed.extend(held.guard().nodes().iter().map(|node| (session, node.clone())));
                }
            }
        }
        let set: BTreeSet<_> = self
            .zk
            .watches()
            .into_iter()
            .map(|watch| (watch.session.unwrap_or_default().0, watch.path))
            .filter(|(session, _)| !of_evicted(*session))
            .collect();
        // What comes and goes in one transaction may be watched at any of its znodes.
        let subject = |(session, path): &(i64, String)| {
            (*session, line.get(path).map_or(Err(path.clone()), |stand| Ok(stand.place.0)))
        };
        let same = set.len() == needed.len()
            && set.iter().map(subject).collect::<BTreeSet<_>>() == needed.iter().map(subject).collect();
        assert!(same, "the watches that are set, {set:?}, and those that are needed: {needed:?}");
    }

    /// Nothing of anybody is left: no znode of a contender, no watch.
    pub fn check_nothing_left(&self) {
        for session in self.zk.sessions() {
            assert_eq!(session.ephemerals, Vec::<String>::new(), "left by {session}");
        }
        assert_eq!(self.zk.watches(), [], "watches that are left");
    }
}
