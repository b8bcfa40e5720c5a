//! What a test does to an ensemble.

use zoolet_proto::SessionId;

use crate::ensemble::Ensemble;
use crate::message::Millis;

/// What goes wrong with endpoints, and how it is mended. A lag, a lost leader and a death are kept apart: one that is
/// revived lags if it did before.
impl Ensemble {
    /// Lets an endpoint apply nothing more. It goes on answering from what it has: reads are stale, writes are carried
    /// out by the leader but their answers wait, and so does everything behind them on the same connection. A new
    /// session waits for its welcome; one that is resumed does not.
    pub fn lag(&mut self, endpoint: usize) {
        self.endpoints[endpoint].lagging = true;
    }

    /// Ends the lag of an endpoint: it applies all that it has not applied, and answers what has waited for it.
    pub fn catch_up(&mut self, endpoint: usize) {
        self.endpoints[endpoint].lagging = false;
        self.work_off(endpoint);
    }

    /// Lets a lagging endpoint apply the next `n` transactions, each followed by the answers that waited for it. Gives
    /// how many it did: fewer if there are no more, none if it is dead or read-only.
    pub fn apply_next(&mut self, endpoint: usize, n: usize) -> usize {
        self.apply(endpoint, n)
    }

    /// Cuts an endpoint off from the leader, so that it becomes read-only, or lets it find the leader again. Either way
    /// its connections are closed; their sessions live on at the leader until they expire.
    ///
    /// While it is read-only it changes nothing. It closes, without an answer, who does not say in the handshake that a
    /// read-only server will do, and who brings a session that it knows to be the leader's. Anybody else gets a session
    /// that only this endpoint knows, and is told that it is read-only; writes and sync are refused with NotReadOnly
    /// (−119). These sessions expire here, and end when the endpoint finds the leader again or dies.
    ///
    /// Of Apache's settings this takes `readonlymode.enabled` and `localSessionsEnabled` for granted: without the first
    /// it would be dead to clients, without the second it would take no new session.
    pub fn set_read_only(&mut self, endpoint: usize, read_only: bool) {
        if self.endpoints[endpoint].read_only == read_only {
            return;
        }
        self.cut_all(endpoint);
        self.endpoints[endpoint].read_only = read_only;
        self.work_off(endpoint);
    }

    /// Kills an endpoint: its connections are closed, and so is who tries to open one there. Their sessions live on at
    /// the leader until they expire. Writes it has answered are the leader's and are not lost; whether one that it has
    /// not answered was carried out cannot be told.
    pub fn kill(&mut self, endpoint: usize) {
        self.cut_all(endpoint);
        self.endpoints[endpoint].alive = false;
    }

    /// Starts a dead endpoint with the tree it had. It catches up with the leader at once, unless it lags or is cut
    /// off.
    pub fn revive(&mut self, endpoint: usize) {
        self.endpoints[endpoint].alive = true;
        self.work_off(endpoint);
    }
}

/// What can be done to a single server too. It concerns sessions of the leader's only, not those that a read-only
/// endpoint has opened.
impl Ensemble {
    /// Expires a session, as [`Core::expire`](crate::Core::expire) does. A lagging endpoint hears of it when it gets
    /// that far.
    pub fn expire(&mut self, now: Millis, session: SessionId) -> bool {
        self.now = now;
        let lived = self.leader.expire(now, session);
        self.spread(None);
        lived
    }

    /// A sign of life for a session, as [`Core::renew`](crate::Core::renew).
    pub fn renew(&mut self, now: Millis, session: SessionId) -> bool {
        self.leader.renew(now, session)
    }

    /// Closes the connection of a session, wherever it is, as [`Core::disconnect`](crate::Core::disconnect) does.
    pub fn disconnect(&mut self, session: SessionId) -> bool {
        let attached = self.leader.disconnect(session);
        self.spread(None);
        attached
    }

    /// Makes it look as if a session had moved away, as [`Core::move_session`](crate::Core::move_session) does. To move
    /// one for good, resume it at another endpoint.
    pub fn move_session(&mut self, session: SessionId) -> bool {
        let conn = self.leader.sessions().get(session).and_then(|session| session.conn);
        let core = conn.and_then(|conn| Some((conn, self.core_of(conn)?)));
        core.into_iter().for_each(|(conn, core)| core.move_away(conn));
        self.leader.move_session(session)
    }

    /// Makes it look as if so many children had been created below a znode, as
    /// [`Core::set_counter`](crate::Core::set_counter) does, also at endpoints that lag, as far as they have it.
    pub fn set_counter(&mut self, path: &str, children: i64) -> bool {
        for endpoint in &mut self.endpoints {
            endpoint.core.set_counter(path, children);
        }
        self.leader.set_counter(path, children)
    }

    /// Stops and starts everything, as [`Core::restart`](crate::Core::restart) does. Endpoints keep what they had
    /// applied, and lag, are read-only or dead as before.
    pub fn restart(&mut self, now: Millis) {
        self.now = now;
        self.leader.restart(now);
        self.conns.clear();
        self.effects.outbound.clear();
        for endpoint in &mut self.endpoints {
            endpoint.core.restart(now);
            endpoint.forget_all();
        }
    }
}
