//! [`Core`]: routes each input to the code that answers it, and keeps the timers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use hashbrown::HashMap;
use zoolet_proto::records::{AuthPacket, SaslToken};
use zoolet_proto::{
    DecodeError, ErrorCode, Incoming, OpCode, Reply, ReplyHeader, Request, SessionId, Xid, Zxid,
};

use crate::audit::Audited;
use crate::auth_config::AuthConfig;
use crate::config::CoreConfig;
use crate::container_cleaner::ContainerCleaner;
use crate::identity::Identity;
use crate::message::{ConnId, Effects, Input, Message, Millis, Origin, Output};
use crate::prepare::Write;
use crate::sasl::SaslProgress;
use crate::session::SessionTable;
use crate::tree::Tree;
use crate::undurable::UndurableChanges;
use crate::watch::WatchTable;

/// The state machine of a server.
pub struct Core {
    pub(crate) config: CoreConfig,
    pub(crate) tree: Tree,
    pub(crate) sessions: SessionTable,
    pub(crate) watches: WatchTable,
    pub(crate) conns: HashMap<ConnId, ConnState>,
    /// Connections without a session, by when they are closed.
    pub(crate) sessionless: BTreeSet<(Millis, ConnId)>,
    /// How many of them were closed.
    pub(crate) sessionless_expired: u64,
    pub(crate) cleaner: ContainerCleaner,
    pub(crate) effects: Effects,
    /// How many milliseconds the wall clock is ahead of the time of inputs.
    pub(crate) wall_ahead: i64,
    pub(crate) warned: Warned,
    /// What is not in the log yet, if there is one.
    pub(crate) undurable: Option<Box<UndurableChanges>>,
}

/// What the log has a warning of. A peer can cause each as often as it likes, so later ones are logged at info.
#[derive(Debug, Default)]
pub(crate) struct Warned {
    pub(crate) of_clients_ahead: bool,
    pub(crate) of_sasl: bool,
}

/// A connection as the core knows it.
pub(crate) struct ConnState {
    pub(crate) peer: IpAddr,
    /// Whether its client is a part of the server's process.
    pub(crate) in_process: bool,
    pub(crate) ids: Vec<Identity>,
    pub(crate) session: Option<SessionId>,
    pub(crate) read_only: Option<bool>,
    pub(crate) idle_until: Millis,
    pub(crate) standing: Standing,
    pub(crate) sasl: SaslProgress,
    /// The highest zxid of a message to it. Kept only if transactions are logged.
    pub(crate) named: Zxid,
}

/// Whether the requests of a connection are served. Each looks at this once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// They are.
    Served,
    /// Not before it authenticates.
    Unauthenticated,
    /// Its session counts as moved to another server.
    Moved,
}

impl ConnState {
    /// Adds those of the identities that the connection does not have. Returns false if these would be too many.
    pub(crate) fn add(&mut self, ids: Vec<Identity>, config: &AuthConfig) -> bool {
        if !self.can_add(&ids) {
            return false;
        }
        for id in ids {
            if !self.ids.contains(&id) {
                self.ids.push(id);
            }
        }
        if self.standing == Standing::Unauthenticated && config.suffice(&self.ids) {
            self.standing = Standing::Served;
        }
        true
    }

    /// Whether the connection may have these identities too. Their number and their size are bounded, as each `auth`
    /// entry of an ACL expands to all of them.
    fn can_add(&self, ids: &[Identity]) -> bool {
        const MAX: usize = 32;
        const MAX_BYTES: usize = 8 << 10;
        let new = ids.iter().filter(|id| !self.ids.contains(id));
        let (count, bytes) =
            self.ids.iter().chain(new).fold((0, 0), |(count, bytes), id| (count + 1, bytes + id.len()));
        count <= MAX && bytes <= MAX_BYTES
    }
}

/// A request being executed: its connection, session, number and time.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext {
    pub(crate) now: Millis,
    pub(crate) conn: ConnId,
    pub(crate) session: SessionId,
    pub(crate) xid: Xid,
}

impl Core {
    /// Creates a server with an empty tree that starts `now`, at the zxid of the settings.
    pub fn new(config: CoreConfig, now: Millis) -> Self {
        let tree = Tree::starting_at(config.initial_zxid);
        let tree = if config.logged { tree.keeping_digest() } else { tree };
        Self::with_tree(config, tree, now)
    }

    /// Creates a server with this tree and without sessions.
    pub(crate) fn with_tree(config: CoreConfig, tree: Tree, now: Millis) -> Self {
        Self {
            undurable: config.logged.then(|| Box::new(UndurableChanges::new(tree.last_zxid()))),
            tree,
            sessions: SessionTable::new(config.tick_time, now, config.skipped_session_ids),
            watches: WatchTable::default(),
            conns: HashMap::new(),
            sessionless: BTreeSet::new(),
            sessionless_expired: 0,
            cleaner: ContainerCleaner::new(&config, now),
            effects: Effects::default(),
            wall_ahead: 0,
            warned: Warned::default(),
            config,
        }
    }

    /// Closes connections that did not open a session in time, some of them if they are many.
    pub fn close_sessionless(&mut self, now: Millis) {
        const AT_ONCE: usize = 10_000;
        for _ in 0..AT_ONCE {
            let Some((_, conn)) = self.sessionless.first().copied().filter(|(until, _)| *until <= now) else {
                break;
            };
            self.sessionless_expired += 1;
            self.close_because(conn, "no session opened in time");
        }
    }

    /// How many connections it has closed.
    pub fn sessionless_expired(&self) -> u64 {
        self.sessionless_expired
    }

    /// When [`Core::close_sessionless`] must be called next.
    pub fn next_sessionless(&self) -> Option<Millis> {
        self.sessionless.first().map(|(until, _)| *until)
    }

    /// The settings.
    pub fn config(&self) -> &CoreConfig {
        &self.config
    }

    /// The znodes.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The sessions.
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// The watches.
    pub fn watches(&self) -> &WatchTable {
        &self.watches
    }

    /// Whether a connection is open.
    pub fn is_open(&self, conn: ConnId) -> bool {
        self.conns.contains_key(&conn)
    }

    /// The session a connection is attached to.
    pub fn session_of(&self, conn: ConnId) -> Option<SessionId> {
        self.conns.get(&conn)?.session
    }

    /// Sets how many milliseconds the wall clock is ahead of the time of inputs, which never decreases and serves for deadlines.
    /// The times of znodes are those of the wall clock.
    pub fn set_wall_ahead(&mut self, ahead: i64) {
        self.wall_ahead = ahead;
    }

    /// Takes note that all transactions up to `zxid` are durable. Matters only if they are [logged](CoreConfig::logged).
    ///
    /// Call it before the next input when messages that name them are sent: a client that has seen a zxid must not receive a
    /// lower one.
    pub fn set_durable(&mut self, zxid: Zxid) {
        if let Some(undurable) = &mut self.undurable {
            undurable.set_durable(zxid);
        }
    }

    /// Prepares for these inputs, which are next. Changes only how long they take.
    pub fn prefetch(&self, inputs: &[Input]) {
        let paths = inputs.iter().filter_map(|input| match input {
            Input::Request(Incoming { body: Ok(request), .. }) => request.path(),
            _ => None,
        });
        self.tree.nodes.prefetch(paths);
    }

    pub(crate) fn accept(&mut self, now: Millis, conn: ConnId, origin: Origin) {
        let Origin { peer, in_process, certificate } = origin;
        let interval = self.config.sessionless_timeout.max(1);
        let idle_until = now.plus(interval).next_multiple_of(interval);
        self.sessionless.insert((idle_until, conn));
        let auth = &self.config.auth;
        let mut ids = vec![Identity::Ip(peer)];
        ids.extend(certificate.into_iter().flat_map(|subject| auth.identities_of_certificate(subject)));
        let standing = if auth.suffice(&ids) { Standing::Served } else { Standing::Unauthenticated };
        let state = ConnState {
            peer,
            in_process,
            ids,
            session: None,
            read_only: None,
            idle_until,
            standing,
            sasl: SaslProgress::default(),
            named: Zxid(0),
        };
        self.conns.insert(conn, state);
    }

    pub(crate) fn request(&mut self, now: Millis, conn: ConnId, incoming: Incoming) {
        let Some(ConnState { session, standing, .. }) = self.conns.get(&conn) else { return };
        let (Some(session), standing) = (*session, *standing) else {
            return self.close_because(conn, "a request without a session");
        };
        let Incoming { xid, op, body } = incoming;
        let call = RequestContext { now, conn, session, xid };
        let op = OpCode::from_code(op);
        if matches!(op, Some(OpCode::Auth | OpCode::Sasl)) {
            // The only requests that do not keep the session alive.
            return self.identify(call, body);
        }
        if standing == Standing::Unauthenticated {
            return self.refuse_unauthenticated(call);
        }
        self.sessions.touch(session, now);
        let Some(op) = op.filter(|op| *op != OpCode::Check) else { return self.unimplemented(call) };
        if standing == Standing::Moved && op != OpCode::CloseSession {
            return self.refuse_moved(call, op);
        }
        let audited = if self.config.audit.is_some() { Audited::of(op, &body) } else { None };
        let before = self.effects.txns.len();
        match body {
            Ok(request) => self.route(call, request),
            Err(error) => self.undecodable(call, op, error),
        }
        if let Some(audited) = audited {
            self.audit(call, &audited, before);
        }
    }

    fn route(&mut self, call: RequestContext, request: Request) {
        match request {
            Request::GetData(record) => self.get_data(call, &record),
            Request::Exists(record) => self.exists(call, &record),
            Request::GetChildren(record) => self.get_children(call, &record, false),
            Request::GetChildren2(record) => self.get_children(call, &record, true),
            Request::GetAcl(record) => self.get_acl(call, &record.path),
            Request::GetAllChildrenNumber(record) => self.get_all_children_number(call, &record.path),
            Request::GetEphemerals(record) => self.get_ephemerals(call, record.prefix.as_deref()),
            Request::WhoAmI => self.who_am_i(call),
            Request::MultiRead(ops) => self.multi_read(call, &ops),
            Request::Sync(record) => self.reply(call, self.tree.last_zxid(), Reply::Synced(record.path)),
            // Answered whatever the log does: a slow disk must not make clients give up their connections.
            Request::Ping => {
                let ping = RequestContext { xid: Xid::PING, ..call };
                self.reply(ping, self.durable_zxid(), Reply::Empty);
            }

            Request::Create(record) => self.create(call, OpCode::Create, record),
            Request::Create2(record) => self.create(call, OpCode::Create2, record),
            Request::CreateContainer(record) => self.create(call, OpCode::CreateContainer, record),
            Request::CreateTtl(record) => self.create_ttl(call, record),
            Request::Delete(record) => self.write(call, Ok(Write::Delete(record)), false),
            Request::DeleteContainer(record) => self.write(call, Ok(Write::DeleteContainer(record)), false),
            Request::SetData(record) => self.write(call, Ok(Write::SetData(record)), false),
            Request::SetAcl(record) => self.write(call, Ok(Write::SetAcl(record)), false),
            Request::Multi(ops) => self.multi(call, ops),
            Request::Reconfig(_) => {
                let enabled = self.config.reconfig_enabled;
                let code = if enabled { ErrorCode::Unimplemented } else { ErrorCode::ReconfigDisabled };
                self.refuse_write(call, code);
            }

            Request::AddWatch(record) => self.add_watch(call, &record),
            Request::CheckWatches(record) => self.find_watch(call, &record, false),
            Request::RemoveWatches(record) => self.find_watch(call, &record, true),
            // The newer request has the kinds that the older one lacks.
            Request::SetWatches2(record) => self.set_watches(call, *record),
            Request::SetWatches(record) => self.set_watches(call, record.into()),

            Request::CloseSession => {
                tracing::info!(session = %call.session, peer = %self.peer(call.conn), "session closed");
                self.end_session(call.now, call.session, call.xid);
                self.reply(call, self.tree.last_zxid(), Reply::Empty);
                self.send(call.conn, Message::Close { asked: true, reason: "its session was closed" });
                self.forget(call.conn);
            }
            // Internal, but a client may send it.
            Request::CreateSession(_) => self.repeat_connect_response(call),
            Request::Check(_) => self.unimplemented(call),
            Request::Auth(_) | Request::Sasl(_) => self.identify(call, Ok(request)),
        }
    }

    /// Adds identities to the connection. A failure closes the connection; the session survives.
    fn identify(&mut self, call: RequestContext, body: Result<Request, DecodeError>) {
        match body {
            Ok(Request::Auth(packet)) => self.add_auth(call, &packet),
            Ok(Request::Sasl(SaslToken(Some(token)))) => self.sasl(call, &token),
            _ => self.close_unauthenticated(call.conn),
        }
    }

    fn add_auth(&mut self, call: RequestContext, packet: &AuthPacket) {
        let Some(state) = self.conns.get_mut(&call.conn) else { return };
        let (scheme, auth) = (packet.scheme.as_deref(), packet.auth.as_deref());
        let new = self.config.authenticate(scheme, auth, state.peer, &state.ids);
        if new.is_some_and(|ids| state.add(ids, &self.config.auth)) {
            self.reply_to_auth(call, Reply::Empty);
        } else {
            self.send_refusal(call, Zxid(0), ErrorCode::AuthFailed, Reply::Empty);
            self.close_unauthenticated(call.conn);
        }
    }

    /// Unknown opcode: replies `Unimplemented`, then closes. The session survives.
    fn unimplemented(&mut self, call: RequestContext) {
        self.send_refusal(call, Zxid(-1), ErrorCode::Unimplemented, Reply::Empty);
        self.close_because(call.conn, "an unknown operation");
    }

    /// A body that does not decode. A write takes a zxid if the only fault is a null; a few operations always or never do.
    fn undecodable(&mut self, call: RequestContext, op: OpCode, error: DecodeError) {
        let takes_zxid = match op {
            OpCode::Multi | OpCode::CreateSession => true,
            OpCode::DeleteContainer | OpCode::Reconfig => false,
            _ => op.takes_zxid() && error != DecodeError::Malformed,
        };
        match (op, error) {
            (OpCode::SetData | OpCode::SetAcl, DecodeError::NullPath) => {
                self.refuse_write(call, ErrorCode::BadArguments);
            }
            _ if takes_zxid => self.refuse_write(call, ErrorCode::MarshallingError),
            _ => self.refuse(call, self.tree.last_zxid(), ErrorCode::MarshallingError),
        }
    }

    /// createSession from a client: internal, but reachable. As a real server does, repeats the connect response.
    fn repeat_connect_response(&mut self, call: RequestContext) {
        let Some(session) = self.sessions.get(call.session) else { return };
        let op = crate::TxnOp::CreateSession { timeout: session.timeout };
        self.commit(call.now, call.session, call.xid, op, |_| {});
        self.send_connect_response(call.conn, call.session, session.timeout);
    }

    pub(crate) fn reply(&mut self, call: RequestContext, zxid: Zxid, reply: Reply) {
        let zxid = self.raised(call.conn, zxid);
        self.send(call.conn, Message::Reply(ReplyHeader::ok(call.xid, zxid), reply));
    }

    pub(crate) fn refuse(&mut self, call: RequestContext, zxid: Zxid, code: ErrorCode) {
        let zxid = self.raised(call.conn, zxid);
        self.send_refusal(call, zxid, code, Reply::Empty);
    }

    /// Sends a reply that names no zxid.
    pub(crate) fn reply_to_auth(&mut self, call: RequestContext, reply: Reply) {
        self.send(call.conn, Message::Reply(ReplyHeader::ok(call.xid, Zxid(0)), reply));
    }

    /// Sends an error reply with exactly this zxid, which may be none. Few have a body.
    pub(crate) fn send_refusal(&mut self, call: RequestContext, zxid: Zxid, code: ErrorCode, body: Reply) {
        self.send(call.conn, Message::Reply(ReplyHeader::error(call.xid, zxid, code), body));
    }

    /// Queues a message for a connection, as if an input had led to it.
    pub fn send(&mut self, conn: ConnId, message: Message) {
        self.effects.outbound.push(Output::To(conn, message));
    }

    /// Closes a connection whose authentication has failed, after what is queued for it. Its session stays.
    pub(crate) fn close_unauthenticated(&mut self, conn: ConnId) {
        self.close_because(conn, "authentication failed");
    }

    /// Closes a connection after what is queued for it. Its session stays.
    pub(crate) fn close_because(&mut self, conn: ConnId, reason: &'static str) {
        self.send(conn, Message::Close { asked: false, reason });
        self.forget(conn);
    }

    /// Where a connection comes from, for logs.
    pub(crate) fn peer(&self, conn: ConnId) -> IpAddr {
        self.conns.get(&conn).map_or(Ipv4Addr::UNSPECIFIED.into(), |state| state.peer)
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        let Some(state) = self.conns.remove(&conn) else { return };
        self.sessionless.remove(&(state.idle_until, conn));
        self.watches.drop_connection(conn);
        if let Some(session) = state.session {
            self.sessions.detach(session, conn);
        }
    }
}
