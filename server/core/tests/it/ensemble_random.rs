//! What holds in an ensemble whatever its clients do, and whatever is done to its endpoints.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{ErrorCode, Request, SessionId, Xid, Zxid};
use zoolet_server_core::{ConnId, Ensemble, Millis, Tree};

use crate::common::random::{Script, Step, dump, request};
use crate::common::*;

const ENDPOINTS: usize = 3;

/// A client as a good one is: it knows what it has seen, and takes its session along.
#[derive(Default)]
struct Client {
    conn: Option<ConnId>,
    session: SessionId,
    seen: i64,
}

impl Client {
    fn seen_on(&self, conn: ConnId) -> i64 {
        if self.conn == Some(conn) { self.seen } else { 0 }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Closed => self.conn = None,
            Told::Welcome(refusal) if refusal.is_refusal() => self.session = SessionId(0),
            Told::Welcome(welcome) => self.session = welcome.session,
            Told::Answer(answer) => self.seen = self.seen.max(answer.zxid),
            Told::Event(event) => self.seen = self.seen.max(event.zxid),
        }
    }
}

fn is_read(request: &Request) -> bool {
    use Request::*;
    let read = matches!(
        request,
        GetData(_) | Exists(_) | GetChildren(_) | GetChildren2(_) | GetAcl(_) | MultiRead(_)
    );
    let watch =
        matches!(request, AddWatch(_) | CheckWatches(_) | RemoveWatches(_) | SetWatches(_) | SetWatches2(_));
    let other =
        matches!(request, GetAllChildrenNumber(_) | GetEphemerals(_) | WhoAmI | Auth(_) | CloseSession);
    read || watch || other
}

/// What is known of a connection.
struct Wire {
    client: usize,
    at: usize,
    session: Option<SessionId>,
    read_only: bool,
    closed: bool,
    /// What was asked and not answered, in order.
    owed: Vec<(Xid, Request)>,
    /// The highest zxid of a reply.
    shown: i64,
}

struct Fleet {
    world: World<Ensemble>,
    clients: Vec<Client>,
    wires: BTreeMap<ConnId, Wire>,
    /// The tree that each endpoint should have, and how many transactions it was made of.
    shadows: Vec<(Tree, usize)>,
}

impl Fleet {
    fn new() -> Self {
        let world = World::ensemble_with(ENDPOINTS, |config| {
            config.extended_types = true;
            config.container_max_never_used = Some(90_000);
        });
        let shadows = (0..ENDPOINTS).map(|_| (Tree::new(), 0)).collect();
        Self { world, clients: Vec::new(), wires: BTreeMap::new(), shadows }
    }

    fn step(&mut self, step: Step) {
        let [kind, who, x, y, ..] = step;
        let at = usize::from(x) % ENDPOINTS;
        match kind % 64 {
            0..=3 if self.clients.len() < 6 => {
                self.clients.push(Client::default());
                self.reconnect(self.clients.len() - 1, at, y);
            }
            4 => self.reconnect(usize::from(who), at, y),
            5 => {
                if let Some(conn) = self.attached(who) {
                    self.world.cut(conn);
                    self.lose(conn);
                }
            }
            6 | 7 => self.world.advance(i64::from(y) * 20),
            8..=10 => self.world.control(|ensemble| ensemble.lag(at)),
            11 => self.world.control(|ensemble| ensemble.catch_up(at)),
            12..=18 => {
                self.world.control(|ensemble| ensemble.apply_next(at, usize::from(y % 4)));
            }
            19 => self.world.control(|ensemble| ensemble.set_read_only(at, y % 3 == 0)),
            20 if y % 3 == 0 => self.world.control(|ensemble| ensemble.kill(at)),
            20 | 21 => self.world.control(|ensemble| ensemble.revive(at)),
            22 => self.harm(usize::from(who), y),
            _ if self.attached(who).is_none() => self.reconnect(usize::from(who), at, y),
            _ => self.ask(who, request(step)),
        }
        self.hear();
    }

    fn attached(&self, who: u8) -> Option<ConnId> {
        self.clients.get(usize::from(who) % self.clients.len().max(1))?.conn
    }

    fn reconnect(&mut self, who: usize, at: usize, choice: u8) {
        let who = who % self.clients.len().max(1);
        let Some(client) = self.clients.get(who) else { return };
        if let (SessionId(0), Some(conn)) = (client.session, client.conn) {
            // Nobody waits for two new sessions at once. An old one may still stand when its session is resumed.
            self.world.cut(conn);
            self.lose(conn);
        }
        let client = &mut self.clients[who];
        let read_only = Some(choice % 2 == 0);
        let (session, last_zxid_seen) = (client.session, Zxid(client.seen));
        let password = (session != SessionId(0)).then(|| password_of(session));
        let hello = ConnectRequest { session, password, last_zxid_seen, read_only, ..new_session() };
        let conn = self.world.socket_at(at);
        client.conn = Some(conn);
        let wire = Wire {
            client: who,
            at,
            session: None,
            read_only: self.view(at).read_only,
            closed: false,
            owed: vec![],
            shown: 0,
        };
        self.wires.insert(conn, wire);
        self.world.hello(conn, hello);
    }

    /// Does something to the session of a client.
    fn harm(&mut self, who: usize, how: u8) {
        let Some(client) = self.clients.get(who % self.clients.len().max(1)) else { return };
        let (session, now) = (client.session, Millis(self.world.now()));
        self.world.control(|ensemble| match how % 8 {
            0 => ensemble.expire(now, session),
            1 | 2 => ensemble.disconnect(session),
            3 => ensemble.move_session(session),
            _ => ensemble.renew(now, session),
        });
        if how == 255 {
            self.world.control(|ensemble| ensemble.restart(now));
            let conns: Vec<_> = self.wires.keys().copied().collect();
            conns.into_iter().for_each(|conn| self.lose(conn));
        }
    }

    /// Notes that a connection has ended without a word to it.
    fn lose(&mut self, conn: ConnId) {
        let wire = self.wires.get_mut(&conn).expect("a wire");
        wire.closed = true;
        let client = &mut self.clients[wire.client];
        client.conn = client.conn.filter(|current| *current != conn);
    }

    fn ask(&mut self, who: u8, request: Request) {
        let Some(conn) = self.attached(who) else { return };
        let xid = self.world.send(conn, request.clone());
        self.wires.get_mut(&conn).expect("a wire").owed.push((xid, request));
    }

    fn view(&self, at: usize) -> zoolet_server_core::EndpointView {
        self.world.core.endpoints().nth(at).expect("an endpoint")
    }

    /// Takes what every connection was told, and judges it.
    fn hear(&mut self) {
        let conns: Vec<_> = self.wires.keys().copied().collect();
        for conn in conns {
            for told in self.world.told(conn) {
                let answer = self.judge(conn, &told);
                // What comes on a connection that it has left reaches no client.
                let client = &mut self.clients[self.wires[&conn].client];
                if client.conn == Some(conn) {
                    client.hear(told);
                }
                if let Some((request, answer)) = answer {
                    self.judge_outcome(conn, &request, &answer);
                }
            }
        }
    }

    fn judge(&mut self, conn: ConnId, told: &Told) -> Option<(Request, Answer)> {
        let wire = self.wires.get_mut(&conn).expect("a wire");
        let seen = self.clients[wire.client].seen_on(conn);
        let visible = self.world.core.endpoint(wire.at).tree().last_zxid().0;
        assert!(!wire.closed, "{told:?} after the end of {conn}");
        match told {
            Told::Closed => wire.closed = true,
            Told::Welcome(welcome) if welcome.is_refusal() => assert_eq!(wire.session, None),
            Told::Welcome(welcome) => {
                assert!(wire.session.is_none_or(|session| session == welcome.session));
                assert_eq!(welcome.read_only, Some(wire.read_only));
                assert!(seen <= visible, "{conn} has seen more than its endpoint");
                wire.session = Some(welcome.session);
            }
            Told::Event(event) => {
                assert!(event.zxid == -1 || event.zxid > wire.shown, "{event:?} after what shows it");
                assert!(event.zxid <= visible, "{event:?} before it is visible");
            }
            Told::Answer(answer) => {
                assert!(!wire.owed.is_empty(), "{answer:?} to nothing");
                let (xid, request) = wire.owed.remove(0);
                assert_eq!(answer.xid, xid, "to {request:?} on {conn}");
                if answer.zxid > 0 {
                    assert!(answer.zxid >= seen.max(wire.shown), "time goes back: {answer:?}");
                    assert!(answer.zxid <= visible, "{answer:?} before it is visible");
                    wire.shown = answer.zxid;
                }
                return Some((request, answer.clone()));
            }
        }
        None
    }

    /// A write is carried out once and under the zxid of its answer, unless the answer says that it is not at all.
    fn judge_outcome(&self, conn: ConnId, request: &Request, answer: &Answer) {
        let wire = &self.wires[&conn];
        let session = wire.session.expect("a session");
        let taken = self.world.txns.iter().filter(|txn| (txn.session, txn.xid) == (session, answer.xid));
        let taken: Vec<_> = taken.map(|txn| txn.zxid.0).collect();
        assert_eq!(
            answer.error == Some(ErrorCode::NotReadOnly),
            wire.read_only && !is_read(request),
            "{request:?}"
        );
        match request {
            Request::CloseSession if !wire.read_only => assert_eq!(taken, [answer.zxid]),
            request if is_read(request) || wire.read_only => assert!(taken.is_empty(), "{request:?}"),
            Request::Sync(_) => assert!(taken.is_empty()),
            // Some that are refused because of how they are written take no zxid.
            _ => assert!(
                taken == [answer.zxid] || taken.is_empty() && answer.error.is_some(),
                "{request:?}: {taken:?}"
            ),
        }
    }

    /// What must hold after every step.
    fn assert_sound(&mut self) {
        let ensemble = &self.world.core;
        assert!(
            self.world.txns.iter().map(|txn| txn.zxid.0).eq(1..=self.world.zxid()),
            "zxids are not dense"
        );
        for (at, view) in ensemble.endpoints().enumerate() {
            let core = ensemble.endpoint(at);
            let (shadow, applied) = &mut self.shadows[at];
            for txn in &self.world.txns[*applied..view.zxid.0 as usize] {
                shadow.apply(txn, &mut |_, _| {});
            }
            if *applied < view.zxid.0 as usize {
                *applied = view.zxid.0 as usize;
                assert_eq!(dump(shadow), dump(core.tree()), "endpoint {at} has a tree that never was");
            }
            assert_eq!(view.zxid, core.tree().last_zxid());
            assert_eq!(view.behind as i64, self.world.zxid() - view.zxid.0);
            let free = view.alive && !view.read_only && !view.lagging;
            assert!(!free || view.behind == 0, "endpoint {at} follows but is behind");
            for watch in core.watches().iter() {
                assert!(!self.wires[&watch.conn].closed, "{watch:?} of a closed connection");
                assert_eq!(self.wires[&watch.conn].at, at);
            }
        }
        for (conn, wire) in &self.wires {
            assert!(wire.closed || self.view(wire.at).alive, "{conn} is open at a dead endpoint");
            assert_eq!(wire.closed, ensemble.endpoint_of(*conn).is_none(), "{conn}");
        }
        for session in ensemble.leader().sessions().iter() {
            assert!(session.deadline.0 > self.world.now(), "{session:?} should have expired");
            if let Some(conn) = session.conn {
                assert!(!self.wires[&conn].closed, "{session:?} is attached to a closed connection");
            }
        }
        assert!(ensemble.next_timeout().0 > self.world.now(), "something that was due was not done");
    }

    /// Mends everything, and sees that all endpoints agree and nobody still waits.
    fn heal(&mut self) {
        for at in 0..ENDPOINTS {
            self.world.control(|ensemble| {
                ensemble.set_read_only(at, false);
                ensemble.revive(at);
                ensemble.catch_up(at);
            });
        }
        self.hear();
        self.assert_sound();
        let leader = dump(self.world.core.leader().tree());
        for at in 0..ENDPOINTS {
            assert_eq!(dump(self.world.core.endpoint(at).tree()), leader, "endpoint {at}");
        }
        for (conn, wire) in self.wires.iter().filter(|(_, wire)| !wire.closed) {
            assert!(wire.owed.is_empty(), "{conn} waits for {:?}", wire.owed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn an_ensemble_that_is_left_alone_answers_like_one_server_byte_for_byte(
        steps in vec(any::<Step>(), 0..120),
        endpoints in 1..5usize,
        spread in any::<bool>(),
    ) {
        let (mut one, mut many) = (Script::new(), Script::ensemble(endpoints));
        for (number, step) in steps.into_iter().enumerate() {
            one.step(step);
            // All connections at one endpoint, or each at the next one.
            many.world.at = if spread { number % endpoints } else { endpoints - 1 };
            many.step(step);
            many.assert_sound();
        }
        prop_assert_eq!(&one.world.wire, &many.world.wire);
        prop_assert_eq!(format!("{:?}", one.world.txns), format!("{:?}", many.world.txns));
        let tree = dump(one.world.core.tree());
        for at in 0..endpoints {
            prop_assert_eq!(&tree, &dump(many.world.core.endpoint(at).tree()));
        }
    }

    #[test]
    fn no_lag_partition_or_death_makes_time_go_back_or_loses_what_was_answered(
        steps in vec(any::<Step>(), 0..250)
    ) {
        let mut fleet = Fleet::new();
        for step in steps {
            fleet.step(step);
            fleet.assert_sound();
        }
        fleet.heal();
    }
}
