//! A simulated ensemble: what goes to its leader, what to its endpoints, and in which order it comes back.

mod controls;
mod endpoint;
mod partition;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Incoming, OpCode, SessionId, Zxid};

pub use endpoint::EndpointView;

use crate::config::CoreConfig;
use crate::core::Core;
use crate::ensemble::endpoint::{Endpoint, Step};
use crate::message::{ConnId, Effects, Input, Message, Millis};

/// A simulated ensemble: several servers on one tree, without a network between them and without an election.
///
/// It is for finding what clients do wrong when they fail over. Endpoints are what clients connect to; each is a
/// follower with what it has seen so far, and can be made to [lag](Self::lag), to [lose the
/// leader](Self::set_read_only), or to [die](Self::kill). Driven as a [`Core`] is, and as deterministic. Endpoints are
/// numbered from 0; a method that is given the number of one that there is not panics.
///
/// What holds, as in a real ensemble:
/// - The leader decides every write, and opens and ends every session; endpoints apply what it decides in its order. So
///   the tree of each endpoint is one that the leader had, and endpoints that are left alone answer as one [`Core`].
/// - Reads, watches and pings are answered by the endpoint that was asked, with its own zxid. They wait until the
///   writes before them on the same connection are visible there (`CommitProcessor`). sync waits until the endpoint has
///   caught up with the leader as it was when sync was asked.
/// - Replies on one connection come in the order of its requests, and an event before the reply that shows the change.
/// - Who has seen more than an endpoint is not let in there: no session sees time go back.
/// - A session lives at the leader. It outlives its endpoint, and keeps its ephemerals, until it is closed or expires.
///
/// What is simpler than in a real one:
/// - The leader is none of the endpoints. It never fails and never changes, so zxids have no epoch, and what it has
///   decided is committed. An endpoint that does not lag follows at once; what one has not applied is kept in memory.
/// - A session that is resumed elsewhere loses its old connection at once. In a real ensemble the old server hears
///   nothing of it: it goes on answering reads, and closes the connection at the next write.
/// - addauth is answered in its turn.
pub struct Ensemble {
    leader: Core,
    endpoints: Vec<Endpoint>,
    conns: BTreeMap<ConnId, Attached>,
    effects: Effects,
    now: Millis,
}

/// A zxid that is visible everywhere: nothing to wait for but what the connection was owed before.
const IN_TURN: Zxid = Zxid(0);

/// A connection as the ensemble knows it.
struct Attached {
    endpoint: usize,
    /// Its session, which the leader has opened or resumed for it.
    session: Option<SessionId>,
    /// What must be visible at its endpoint before it is answered again: replies leave in the order of requests.
    after: Zxid,
    /// Whether its end is on its way behind replies that are owed to it. What it still sends is lost.
    ending: bool,
}

impl Ensemble {
    /// A leader and as many endpoints, at least one, with empty trees, that start `now`.
    pub fn new(config: CoreConfig, endpoints: usize, now: Millis) -> Self {
        let endpoints = (0..endpoints.max(1)).map(|at| Endpoint::new(at, config.clone(), now)).collect();
        let (conns, effects) = (BTreeMap::new(), Effects::default());
        Self { leader: Core::new(config, now), endpoints, conns, effects, now }
    }

    /// Takes a connection that was accepted at an endpoint. If that endpoint is dead it is closed at once.
    pub fn open(&mut self, now: Millis, conn: ConnId, peer: IpAddr, endpoint: usize) {
        self.now = now;
        let Endpoint { core, alive, read_only, .. } = &mut self.endpoints[endpoint];
        if !*alive {
            return self.send(conn, Message::Close { asked: false });
        }
        core.handle(now, conn, Input::Open { peer });
        if !*read_only {
            self.leader.handle(now, conn, Input::Open { peer });
        }
        self.conns.insert(conn, Attached { endpoint, session: None, after: IN_TURN, ending: false });
    }

    /// Takes one input, as [`Core::handle`] does. A connection that opens like this opens at the first endpoint.
    pub fn handle(&mut self, now: Millis, conn: ConnId, input: Input) {
        self.now = now;
        match input {
            Input::Open { peer } => self.open(now, conn, peer, 0),
            Input::Connect(request) => self.connect(conn, request),
            Input::Request(incoming) => self.request(conn, incoming),
            Input::Closed => self.forget(conn),
        }
    }

    /// Does everything that is due at `now`, as [`Core::handle_timeout`] does.
    pub fn handle_timeout(&mut self, now: Millis) {
        self.now = now;
        self.leader.handle_timeout(now);
        self.spread(None);
        (0..self.endpoints.len()).for_each(|at| self.expire_local(at));
    }

    /// When [`Ensemble::handle_timeout`] has something to do next.
    pub fn next_timeout(&self) -> Millis {
        let endpoints = self.endpoints.iter().filter_map(Endpoint::next_timeout);
        endpoints.fold(self.leader.next_timeout(), Millis::min)
    }

    /// What the inputs and controls since the last call came to: what the leader has decided, and what connections are
    /// told by their endpoints.
    pub fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// The last of the messages that [`Ensemble::take_effects`] would give now.
    pub fn last_message(&self) -> Option<&Message> {
        self.effects.outbound.last().map(|(_, message)| message)
    }

    /// The server that decides: the newest tree, and the sessions. It has no watches.
    pub fn leader(&self) -> &Core {
        &self.leader
    }

    /// What an endpoint has seen so far: its tree, and the watches of its connections. Its sessions are those it knows,
    /// with deadlines that mean nothing, as it is the leader that lets them expire.
    pub fn endpoint(&self, endpoint: usize) -> &Core {
        &self.endpoints[endpoint].core
    }

    /// How every endpoint is, by its number.
    pub fn endpoints(&self) -> impl ExactSizeIterator<Item = EndpointView> + '_ {
        self.endpoints.iter().map(Endpoint::view)
    }

    /// Whether an endpoint is cut off from the leader.
    pub fn is_read_only(&self, endpoint: usize) -> bool {
        self.endpoints[endpoint].read_only
    }

    /// The endpoint that a connection was opened at.
    pub fn endpoint_of(&self, conn: ConnId) -> Option<usize> {
        self.conns.get(&conn).map(|attached| attached.endpoint)
    }

    /// The session that a connection has been told it has.
    pub fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.endpoint(self.endpoint_of(conn)?).session_of(conn)
    }

    fn connect(&mut self, conn: ConnId, request: ConnectRequest) {
        let Some(Attached { endpoint, ending: false, .. }) = self.conns.get(&conn) else { return };
        let at = *endpoint;
        if self.endpoints[at].read_only {
            return self.connect_read_only(at, conn, &request);
        }
        if request.last_zxid_seen > self.endpoints[at].zxid() {
            tracing::debug!(%conn, at, seen = %request.last_zxid_seen, "connection is ahead of the endpoint");
            return self.end(conn);
        }
        self.leader.handle(self.now, conn, Input::Connect(request));
        self.spread(Some(conn));
    }

    fn request(&mut self, conn: ConnId, incoming: Incoming) {
        let Some(Attached { endpoint, session, ending: false, .. }) = self.conns.get(&conn) else { return };
        let at = *endpoint;
        if self.endpoints[at].read_only {
            return self.request_read_only(at, conn, incoming);
        }
        let Some(session) = *session else { return self.end(conn) };
        let op = OpCode::from_code(incoming.op);
        match op {
            Some(op) if op.takes_zxid() => {
                return self.forward(conn, session, incoming);
            }
            Some(OpCode::Auth | OpCode::Sasl) => {
                // Both need the identity: the leader for writes, the endpoint for reads and events. The latter answers.
                self.leader.handle(self.now, conn, Input::Request(incoming.clone()));
                self.leader.take_effects();
                return self.answer(conn, IN_TURN, Step::Request(incoming));
            }
            // Such a frame costs the connection.
            None | Some(OpCode::Check) => self.set_ending(conn),
            Some(_) => {}
        }
        self.leader.renew(self.now, session);
        let newest = self.leader.tree().last_zxid();
        let after = if op == Some(OpCode::Sync) { newest } else { IN_TURN };
        self.answer(conn, after, Step::Request(incoming));
    }

    /// Has the leader decide a request. The answer follows what the leader has decided by then.
    fn forward(&mut self, conn: ConnId, session: SessionId, incoming: Incoming) {
        if self.leader.session_of(conn).is_none() {
            // The session has ended. Its end is on its way here and closes the connection; until then the answer to
            // this would stand before every other.
            return self.set_ending(conn);
        }
        self.leader.handle(self.now, conn, Input::Request(incoming));
        if self.leader.sessions().get(session).is_none() {
            // It ends because its client asked for that, so the connection waits for the reply to it.
            self.core_of(conn).into_iter().for_each(|core| core.sessions.detach(session, conn));
        }
        if let Some(attached) = self.conns.get_mut(&conn) {
            attached.after = self.leader.tree().last_zxid();
        }
        self.spread(Some(conn));
    }

    /// Hands what the leader has done since the last time to the endpoints. `asked` is the connection it was done for.
    fn spread(&mut self, asked: Option<ConnId>) {
        let Effects { txns, outbound } = self.leader.take_effects();
        for txn in &txns {
            let txn = Arc::new(txn.clone());
            self.endpoints.iter_mut().for_each(|endpoint| endpoint.queue.push_back(Arc::clone(&txn)));
        }
        let newest = txns.last().map(|txn| txn.zxid);
        self.effects.txns.extend(txns);
        for (conn, message) in outbound {
            if asked == Some(conn) {
                if let (Message::Connected(welcome), Some(attached)) = (&message, self.conns.get_mut(&conn)) {
                    attached.session = Some(welcome.session);
                }
                self.answer(conn, newest.unwrap_or(IN_TURN), Step::Message(message));
            } else if !self.has_lost_its_session(conn) {
                // Replaced by a newer connection, or without a session for too long.
                self.cut(conn);
            }
        }
        (0..self.endpoints.len()).for_each(|at| self.work_off(at));
    }

    /// Whether the session of a connection has ended, so that the transaction that says so will close it.
    fn has_lost_its_session(&self, conn: ConnId) -> bool {
        let session = self.conns.get(&conn).and_then(|attached| attached.session);
        session.is_some_and(|session| self.leader.sessions().get(session).is_none())
    }

    fn set_ending(&mut self, conn: ConnId) {
        if let Some(attached) = self.conns.get_mut(&conn) {
            attached.ending = true;
        }
    }

    fn core_of(&mut self, conn: ConnId) -> Option<&mut Core> {
        let endpoint = self.endpoint_of(conn)?;
        Some(&mut self.endpoints[endpoint].core)
    }

    /// Closes a connection behind what it is still owed.
    fn end(&mut self, conn: ConnId) {
        self.set_ending(conn);
        self.answer(conn, IN_TURN, Step::Message(Message::Close { asked: false }));
    }

    /// Closes a connection at once. Its session lives on; replies that are owed to it are lost.
    fn cut(&mut self, conn: ConnId) {
        if self.conns.contains_key(&conn) {
            self.send(conn, Message::Close { asked: false });
            self.forget(conn);
        }
    }

    fn forget(&mut self, conn: ConnId) {
        let Some(Attached { endpoint, .. }) = self.conns.remove(&conn) else { return };
        self.endpoints[endpoint].core.forget(conn);
        self.leader.forget(conn);
    }

    fn send(&mut self, conn: ConnId, message: Message) {
        self.effects.outbound.push((conn, message));
    }
}
