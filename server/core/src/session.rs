//! Sessions: their ids, passwords, timeouts and deadlines.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use hashbrown::HashMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zoolet_proto::records::{ConnectResponse, PASSWORD_LEN};
use zoolet_proto::{SessionId, Zxid};

use crate::config::CoreConfig;
use crate::message::{ConnId, Millis};

/// The id of a standalone server: the top byte of its session ids.
const SERVER_ID: i64 = 1;

/// The top bits of the id of a session that was opened in process, where [`IN_PROCESS_BITS`] follow. In the ids of a real server
/// they are its `myid`, which is 1 to 255, and four bits of the time of its start. A server that breaks the rule and is number 0
/// gives such ids only if its clock says 1972 to 1974, 2007 to 2009, or 2041 to 2044 when it starts.
const IN_PROCESS: i64 = 1;
const IN_PROCESS_BITS: u32 = 52;

/// The sessions that have not expired. A session whose client sends nothing for its timeout expires at the end of that tick.
#[derive(Debug)]
pub struct SessionTable {
    sessions: HashMap<SessionId, SessionView>,
    deadlines: BTreeSet<(Millis, SessionId)>,
    tick: i64,
    next_id: i64,
}

/// A view of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// Its negotiated timeout in milliseconds.
    pub timeout: i32,
    /// When it expires unless its client sends something.
    pub deadline: Millis,
    /// The connection it is attached to.
    pub conn: Option<ConnId>,
}

impl SessionTable {
    /// Skips that many ids of the millisecond of the start.
    pub(crate) fn new(tick: i32, now: Millis, skipped_ids: u16) -> Self {
        let table = Self::of_server(SERVER_ID, tick, now);
        Self { next_id: table.next_id | i64::from(skipped_ids), ..table }
    }

    /// Creates the table of the server with that id.
    pub fn of_server(server: i64, tick: i32, now: Millis) -> Self {
        let (tick, next_id) = (i64::from(tick).max(1), first_id(server, now));
        Self { sessions: HashMap::new(), deadlines: BTreeSet::new(), tick, next_id }
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The session, if it exists.
    pub fn get(&self, id: SessionId) -> Option<SessionView> {
        self.sessions.get(&id).copied()
    }

    /// Every session, the first to expire first.
    pub fn iter(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.deadlines.iter().filter_map(|(_, id)| self.get(*id))
    }

    /// Every session, in no order: faster by far if there are many.
    pub fn unsorted(&self) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions.values().copied()
    }

    /// Whether a session was opened in process: by a client that ends with the server's process.
    pub fn is_in_process(id: SessionId) -> bool {
        id.0 >> IN_PROCESS_BITS == IN_PROCESS
    }

    /// The id of a new session that is opened in process. It follows from the time and from the zxid before it, which never go
    /// back together, so no later server on the same data gives it again.
    pub(crate) fn in_process_id(&self, now: Millis, last_zxid: Zxid) -> SessionId {
        const PER_MILLISECOND: i64 = 1 << 12;
        let mut number = now.0.wrapping_mul(PER_MILLISECOND).wrapping_add(last_zxid.0);
        loop {
            let id = SessionId((IN_PROCESS << IN_PROCESS_BITS) | (number & ((1 << IN_PROCESS_BITS) - 1)));
            if !self.sessions.contains_key(&id) {
                return id;
            }
            number = number.wrapping_add(1);
        }
    }

    /// Allocates the id of a new session.
    pub fn allocate_id(&mut self) -> SessionId {
        loop {
            let id = SessionId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            // If the clock was set back before a restart, an older session may have this id.
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }

    /// Skips this number of ids.
    pub(crate) fn skip_ids(&mut self, ids: i64) {
        self.next_id += ids;
    }

    /// Makes new ids follow one that was given before.
    pub(crate) fn continue_after(&mut self, id: SessionId) {
        if Self::is_in_process(id) {
            return;
        }
        self.next_id = self.next_id.max((SERVER_ID << 56) + counter(id) + 1);
    }

    /// The one of two ids that was given later. Ids of an ensemble are compared by their counter and not by the number of the
    /// server before it.
    pub fn later(one: SessionId, other: SessionId) -> SessionId {
        if counter(other) > counter(one) { other } else { one }
    }

    /// The ids and timeouts of all sessions, sorted.
    pub fn timeouts(&self) -> Vec<(SessionId, i32)> {
        let mut sessions: Vec<_> = self.sessions.iter().map(|(id, session)| (*id, session.timeout)).collect();
        sessions.sort_unstable();
        sessions
    }

    /// Adds a session that is due its whole timeout after `now`.
    pub fn insert(&mut self, id: SessionId, timeout: i32, conn: Option<ConnId>, now: Millis) {
        self.remove(id);
        let deadline = deadline(now, timeout, self.tick);
        self.deadlines.insert((deadline, id));
        self.sessions.insert(id, SessionView { id, timeout, deadline, conn });
    }

    /// Removes a session.
    pub fn remove(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.deadlines.remove(&(session.deadline, id));
        }
    }

    /// Removes every session. Their ids are not reused.
    pub fn clear(&mut self) {
        self.sessions.clear();
        self.deadlines.clear();
    }

    /// Attaches a session to `conn`, with a newly negotiated timeout.
    pub fn attach(&mut self, id: SessionId, timeout: i32, conn: ConnId, now: Millis) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.timeout = timeout;
            session.conn = Some(conn);
        }
        self.touch(id, now);
    }

    /// Detaches the session from `conn`, unless it is already attached to another connection.
    pub(crate) fn detach(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.conn = session.conn.filter(|attached| *attached != conn);
        }
    }

    /// Renews the deadline of a session. Cheap while the bucket stays the same.
    pub fn touch(&mut self, id: SessionId, now: Millis) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let deadline = deadline(now, session.timeout, self.tick);
        if deadline != session.deadline {
            self.deadlines.remove(&(session.deadline, id));
            self.deadlines.insert((deadline, id));
            session.deadline = deadline;
        }
    }

    /// Detaches every session and renews its deadline. Ids continue from the time of the restart and never decrease, so that
    /// none is reused.
    pub(crate) fn restart(&mut self, now: Millis) {
        self.next_id = self.next_id.max(first_id(SERVER_ID, now));
        self.deadlines.clear();
        for (id, session) in &mut self.sessions {
            session.conn = None;
            session.deadline = deadline(now, session.timeout, self.tick);
            self.deadlines.insert((session.deadline, *id));
        }
    }

    /// A session that has expired by `now`, the earliest first.
    pub fn expired(&self, now: Millis) -> Option<SessionId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    /// When the next session expires.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }
}

/// What servers count, from the time of their start: the bits after their own number.
fn counter(id: SessionId) -> i64 {
    id.0 & ((1 << 56) - 1)
}

fn deadline(now: Millis, timeout: i32, tick: i64) -> Millis {
    now.plus(i64::from(timeout)).next_multiple_of(tick)
}

/// The first session id of a server: its own id and its start time
/// (`SessionTrackerImpl.initializeNextSessionId`).
fn first_id(server: i64, now: Millis) -> i64 {
    // Java's unsigned shift.
    let time = ((now.0 << 24) as u64 >> 8) as i64;
    time | (server << 56)
}

/// What makes session passwords unguessable: 32 random bytes that only the server knows.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(pub [u8; 32]);

// Hand-written, to keep it out of logs.
impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(not shown)")
    }
}

impl CoreConfig {
    /// The password of a session.
    pub(crate) fn session_password(&self, id: SessionId) -> Bytes {
        match &self.session_secret {
            Some(secret) => secret_password(secret, id),
            None => java_password(id),
        }
    }

    /// Whether `given` is the password of the session. Constant-time.
    pub fn password_matches(&self, id: SessionId, given: Option<&Bytes>) -> bool {
        given.is_some_and(|given| self.session_password(id).ct_eq(given).into())
    }

    /// The response that grants a session.
    pub fn connect_response(
        &self,
        session: SessionId,
        timeout: i32,
        read_only: Option<bool>,
    ) -> ConnectResponse {
        let password = self.session_password(session);
        ConnectResponse { protocol_version: 0, timeout, session, password, read_only }
    }
}

/// A hash of secret and id. Both have a fixed length and half of the hash stays hidden, so a keyed prefix suffices.
fn secret_password(secret: &SessionSecret, id: SessionId) -> Bytes {
    let hash = Sha256::new().chain_update(secret.0).chain_update(id.0.to_be_bytes()).finalize();
    Bytes::copy_from_slice(&hash[..PASSWORD_LEN])
}

/// The password that ZooKeeper gives a session (`ZooKeeperServer.generatePasswd`): a function of its id, so anybody who sees
/// the id can compute it. It is valid after a restart and on another server that takes over the data directory.
fn java_password(id: SessionId) -> Bytes {
    const MASK: u64 = (1 << 48) - 1;
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    // As `java.util.Random` does it.
    let mut state = ((id.0 as u64 ^ 0xB341_5C00) ^ MULTIPLIER) & MASK;
    let mut out = Vec::with_capacity(PASSWORD_LEN);
    for _ in 0..PASSWORD_LEN / 4 {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        // `next(32)`.
        out.extend(((state >> 16) as u32).to_le_bytes());
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_one_zookeeper_gives_the_session() {
        let expected =
            [0x98, 0x15, 0x0f, 0xa1, 0x45, 0xf3, 0x87, 0xa5, 0x36, 0x5e, 0x0f, 0x61, 0x96, 0xe9, 0x99, 0x65];
        let id = SessionId(0x0100_0016_3e86_0000);
        let config = CoreConfig::default();
        assert_eq!(config.session_password(id)[..], expected);
        assert!(config.password_matches(id, Some(&Bytes::copy_from_slice(&expected))));
        assert!(!config.password_matches(id, Some(&Bytes::copy_from_slice(&expected[..15]))));
        assert!(!config.password_matches(id, None));
    }

    #[test]
    fn with_a_secret_a_password_follows_from_secret_and_id() {
        let [one, other] = [1, 2].map(|byte| {
            let session_secret = Some(SessionSecret([byte; 32]));
            CoreConfig { session_secret, ..CoreConfig::default() }
        });
        let password = one.session_password(SessionId(7));
        assert_eq!(password.len(), PASSWORD_LEN);
        assert!(one.password_matches(SessionId(7), Some(&password)));
        assert!(!one.password_matches(SessionId(8), Some(&password)));
        assert!(!other.password_matches(SessionId(7), Some(&password)));
        assert!(!one.password_matches(SessionId(7), Some(&java_password(SessionId(7)))));
        assert!(!format!("{:?}", one.session_secret).contains('1'), "not shown");
    }

    #[test]
    fn a_session_expires_at_the_first_tick_after_its_timeout() {
        let mut table = SessionTable::new(1000, Millis(0), 0);
        let id = table.allocate_id();
        table.insert(id, 3000, None, Millis(1500));
        assert_eq!(table.next_deadline(), Some(Millis(5000)));
        assert_eq!(table.expired(Millis(4999)), None);
        table.touch(id, Millis(2100));
        assert_eq!(table.expired(Millis(5000)), None);
        assert_eq!(table.expired(Millis(6000)), Some(id));
    }

    #[test]
    fn the_id_of_an_existing_session_is_not_allocated() {
        let mut table = SessionTable::new(1000, Millis(0), 0);
        let taken = SessionId(table.next_id);
        table.insert(taken, 3000, None, Millis(0));
        assert_eq!(table.allocate_id(), SessionId(taken.0 + 1));
    }

    #[test]
    fn of_two_ids_the_one_with_the_higher_counter_was_given_later() {
        let (early, late) = (SessionId((3 << 56) | 7), SessionId((1 << 56) | 8));
        let of_server_200 = SessionId((200i64 << 56) | 9);
        assert_eq!(SessionTable::later(early, late), late);
        assert_eq!(SessionTable::later(late, early), late);
        assert_eq!(SessionTable::later(late, of_server_200), of_server_200);
        let mut table = SessionTable::new(1000, Millis(0), 0);
        table.continue_after(of_server_200);
        assert_eq!(table.allocate_id(), SessionId((1 << 56) | 10));
    }

    #[test]
    fn servers_that_start_in_the_same_millisecond_can_give_different_session_ids() {
        let [mut one, mut other] = [0, 65].map(|skipped| SessionTable::new(1000, Millis(5), skipped));
        assert_eq!(other.allocate_id().0 - one.allocate_id().0, 65);
    }

    #[test]
    fn no_real_server_gives_the_id_of_a_session_that_was_opened_in_process() {
        const YEAR: i64 = 31_556_952_000;
        for server in 0..=255 {
            // From 2010 on; only the number 0, which no server may have, has years before and after these.
            for year in 40..71 {
                let id = SessionId(first_id(server, Millis(year * YEAR)));
                assert!(!SessionTable::is_in_process(id), "{id} of server {server}");
            }
        }
        let table = SessionTable::new(1000, Millis(0), 0);
        for (now, zxid) in [(0, 0), (56 * YEAR, 1), (70 * YEAR, i64::MAX), (i64::MAX, -1)] {
            assert!(SessionTable::is_in_process(table.in_process_id(Millis(now), Zxid(zxid))));
        }
    }

    #[test]
    fn a_session_in_process_gets_another_id_than_the_one_at_an_earlier_zxid_or_beside_it() {
        let mut table = SessionTable::new(1000, Millis(0), 0);
        let now = Millis(1_767_225_600_000);
        let one = table.in_process_id(now, Zxid(7));
        assert_eq!(table.in_process_id(now, Zxid(8)).0, one.0 + 1, "the clock may stand still");
        assert!(table.in_process_id(Millis(now.0 + 1), Zxid(7)).0 > one.0);
        table.insert(one, 3000, None, now);
        assert_eq!(table.in_process_id(now, Zxid(7)).0, one.0 + 1, "as after a step of the clock");
        table.continue_after(one);
        assert_eq!(table.allocate_id().0 >> 56, SERVER_ID);
    }

    #[test]
    fn session_ids_contain_the_server_id_and_increase() {
        let mut table = SessionTable::new(1000, Millis(1_763_600_000_000), 0);
        let (one, two) = (table.allocate_id(), table.allocate_id());
        assert_eq!(one.0 >> 56, SERVER_ID);
        assert_eq!(two.0, one.0 + 1);
    }
}
