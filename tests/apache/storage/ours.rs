//! Data directories that our storage has written: a core whose transactions are logged, with snapshots and rolls at random
//! places, several starts, and ends of every kind.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use zoolet_proto::{Incoming, Request, Xid};
use zoolet_server_core::{ConnId, Core, CoreConfig, Input, Message, Millis, Origin, StateMachine};
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{Compression, SnapshotWriter, Storage, StorageOptions, open};
use zoolet_test_support::{Dice, Hello, close_session, create};

use crate::storage::bytes::tear;
use crate::storage::operations::{Limits, Operations, TOPS};
use crate::storage::state::State;

/// The clock at the first start.
const START: i64 = 1_790_000_000_000;
/// Session timeouts in milliseconds: of those that expire, and of those that are there at the end.
const TIMEOUTS: [i32; 3] = [400, 100_000, 3_000_000];
const CLIENTS: usize = 4;

/// What varies between directories.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub digests: bool,
    compression: Compression,
    pre_alloc: u64,
    retain: Option<usize>,
    lives: usize,
    turns: usize,
}

impl Kind {
    pub fn random(dice: &mut Dice) -> Self {
        Self {
            digests: !dice.chance(15),
            compression: dice.of(&[Compression::None, Compression::Gzip, Compression::Snappy]),
            pre_alloc: dice.of(&[0, 100, 4096, 1 << 16, 1 << 20]),
            retain: [None, Some(1), Some(3)][dice.below(3)],
            lives: 1 + dice.below(4),
            turns: dice.of(&[0, 10, 100, 300]),
        }
    }

    fn options(&self, dir: &Path) -> StorageOptions {
        let mut options = StorageOptions::new(dir);
        options.digests = self.digests;
        options.compression = self.compression;
        options.pre_alloc = self.pre_alloc;
        options.retain = self.retain;
        options
    }
}

/// How a server ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// With a snapshot, as a server that is stopped.
    Clean,
    /// In the middle of a snapshot, perhaps.
    Killed,
    /// The same, with the beginning of an entry after the last one.
    Torn,
}

/// Writes a directory. Returns what the last server showed at its end.
pub fn write(kind: &Kind, dir: &Path, dice: &mut Dice) -> State {
    let mut now = Millis(START);
    let mut state = None;
    for life in 0..kind.lives {
        let mut author = Author::start(kind, dir, now, dice.fork());
        if let Some(state) = &state {
            let differences = author.state().without_statistics().differences(state);
            assert!(differences.is_empty(), "{kind:?}, after {life} ends: {differences:#?}");
        }
        // What was found is compared; now it goes on as a server does that starts.
        author.core.end_in_process_sessions(now);
        author.log();
        for _ in 0..kind.turns {
            author.turn();
        }
        // The last end is one that leaves nothing to be cut: a real server would have to read it.
        let ends: &[End] = if life + 1 == kind.lives {
            &[End::Clean, End::Killed]
        } else {
            &[End::Clean, End::Killed, End::Torn]
        };
        let end = dice.of(ends);
        now = author.now.plus(dice.below(5_000) as i64);
        state = Some(author.end(end, dir).without_statistics());
    }
    state.expect("at least one life")
}

struct Author {
    core: Core,
    storage: Storage,
    snapshot: Option<SnapshotWriter>,
    operations: Operations,
    now: Millis,
    clients: Vec<ConnId>,
    last_conn: u64,
    retain: Option<usize>,
}

impl Author {
    fn start(kind: &Kind, dir: &Path, now: Millis, dice: Dice) -> Self {
        let (storage, recovered) = open(Arc::new(RealDisk), kind.options(dir)).expect("a directory of ours");
        let mut config = CoreConfig::default();
        config.logged = true;
        config.tick_time = 100;
        config.max_session_timeout = Some(i32::MAX);
        config.extended_types = true;
        config.container_check_interval = 1_000;
        let core = Core::restore(config, recovered.tree, recovered.sessions, recovered.highest_session, now);
        let limits = Limits { create2_in_multi: true, odd_flags: true, only_those_of_3_4: false };
        let operations = Operations::new(dice, limits);
        let (clients, snapshot, last_conn, retain) = (Vec::new(), None, 0, kind.retain);
        let mut author = Self { core, storage, snapshot, operations, now, clients, last_conn, retain };
        author.log();
        author
    }

    /// Some inputs, the transactions of which become durable together.
    fn turn(&mut self) {
        let dice = self.operations.dice();
        self.now = self.now.plus(dice.below(60) as i64);
        let inputs = 1 + dice.below(8);
        for _ in 0..inputs {
            self.input();
        }
        while self.core.next_timeout() <= self.now {
            self.core.handle_timeout(self.now);
        }
        self.log();
        let dice = self.operations.dice();
        match dice.below(40) {
            0 if self.snapshot.is_none() => self.begin_snapshot(),
            1 => self.storage.roll().expect("a new log file"),
            _ => {}
        }
        self.go_on_with_snapshot();
    }

    fn input(&mut self) {
        while self.clients.len() < CLIENTS {
            self.connect();
        }
        let dice = self.operations.dice();
        let (at, fate) = (dice.below(CLIENTS), dice.below(100));
        let conn = self.clients[at];
        match fate {
            0 => self.request(conn, close_session()),
            1 => {
                // Its session expires, or is there at the end.
                self.core.handle(self.now, conn, Input::Closed);
            }
            _ => {
                let request = self.operations.request();
                self.request(conn, request);
            }
        }
        if !self.core.is_open(conn) {
            self.clients.remove(at);
        }
    }

    fn connect(&mut self) {
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        let timeout = self.operations.dice().of(&TIMEOUTS);
        let in_process = self.operations.dice().chance(30);
        self.core.handle(
            self.now,
            conn,
            Input::Open(Origin { in_process, ..IpAddr::from([127, 0, 0, 1]).into() }),
        );
        self.core.handle(self.now, conn, Input::Connect(Hello::new().timeout_ms(timeout).0));
        self.clients.push(conn);
        for request in [Operations::login()].into_iter().chain(TOPS.map(create)) {
            self.request(conn, request);
        }
    }

    fn request(&mut self, conn: ConnId, request: Request) {
        let incoming = Incoming { xid: Xid(1), op: request.op().code(), body: Ok(request) };
        self.core.handle(self.now, conn, Input::Request(incoming));
    }

    /// Makes what was decided durable.
    fn log(&mut self) {
        let effects = self.core.take_effects();
        for txn in &effects.txns {
            self.storage.append(txn).expect("an entry");
        }
        self.storage.commit().expect("a sync");
        if let Some(last) = effects.txns.last() {
            self.core.set_durable(last.zxid);
        }
        for output in effects.outbound {
            output.for_each(|conn, message| {
                if matches!(message, Message::Close { .. }) {
                    self.clients.retain(|client| *client != conn);
                }
            });
        }
    }

    fn begin_snapshot(&mut self) {
        let (header, sessions) = self.core.begin_snapshot();
        self.storage.roll().expect("a new log file");
        let snapshots = self.storage.snapshots();
        let writer = snapshots.begin(header, &sessions);
        self.snapshot = Some(writer.expect("a snapshot"));
    }

    /// A slice of it between two turns.
    fn go_on_with_snapshot(&mut self) {
        let Some(mut writer) = self.snapshot.take() else { return };
        let most = 1 + self.operations.dice().below(60);
        let more = self.core.next_slice(most, 1 << 16, &mut |record| writer.add(&record).expect("a znode"));
        if more {
            self.snapshot = Some(writer);
            return;
        }
        self.core.end_snapshot();
        writer.finish().expect("a snapshot");
        if let Some(retain) = self.retain {
            self.storage.snapshots().purge(retain).expect("a purge");
        }
    }

    fn state(&self) -> State {
        State::of_tree(
            self.core.tree(),
            self.core.sessions().iter().map(|session| (session.id, session.timeout)),
        )
    }

    fn end(mut self, end: End, dir: &Path) -> State {
        if let End::Clean = end {
            if self.snapshot.is_none() {
                self.begin_snapshot();
            }
            while self.snapshot.is_some() {
                self.go_on_with_snapshot();
            }
        }
        let state = self.state();
        drop(self.snapshot);
        drop(self.storage);
        if let End::Torn = end {
            tear(dir, self.operations.dice());
        }
        state
    }
}
