//! A server without a network: a core, its storage, and clients that do random things.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Acl, Perms, Request, Xid, Zxid, frame};
use zoolet_server_core::{ConnId, Core, CoreConfig, Input, Millis, Origin, StateMachine, Tree};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::{Recovered, SnapshotWriter, Storage, StorageError, StorageOptions};
use zoolet_test_support::*;

use crate::truth::{State, Truth};

const NAMES: &[&str] = &["/a", "/b", "/a/a", "/a/b", "/a/b/c", "/b/e", "/c", "/c/x"];

/// What the disk has to know at a step.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The last step that was done.
    pub step: u64,
    /// The last transaction that was acknowledged.
    pub committed: Zxid,
    /// The last transaction that may be on disk.
    pub appended: Zxid,
}

pub struct Server {
    disk: SimulatedDisk,
    truth: Truth,
    marks: Vec<Mark>,
    options: StorageOptions,
    storage: Storage,
    core: Core,
    /// The same tree as the core's, one transaction after the other.
    tree: Tree,
    snapshot: Option<SnapshotWriter>,
    /// Whether the storage has returned an error.
    has_failed: bool,
    committed: Zxid,
    now: Millis,
    conns: Vec<ConnId>,
    opened: u64,
    dice: Dice,
}

impl Server {
    /// A server that goes on with what was recovered, which is the beginning of `truth`.
    pub fn new(
        disk: &SimulatedDisk,
        options: &StorageOptions,
        storage: Storage,
        recovered: Recovered,
        truth: Truth,
        now: Millis,
        seed: u64,
    ) -> Self {
        let mut config = CoreConfig::default();
        config.logged = true;
        config.extended_types = true;
        config.container_max_never_used = Some(60_000);
        let Recovered { mut tree, sessions, highest_session, .. } = recovered;
        let copy = copy(&mut tree, options.digests);
        let committed = tree.last_zxid();
        let mut core = Core::restore(config, tree, sessions, highest_session, now);
        core.end_in_process_sessions(now);
        let mut server = Self {
            disk: disk.clone(),
            truth,
            marks: Vec::new(),
            options: options.clone(),
            storage,
            core,
            tree: copy,
            snapshot: None,
            has_failed: false,
            committed,
            now,
            conns: Vec::new(),
            opened: 0,
            dice: Dice::new(seed),
        };
        server.mark();
        server
    }

    pub fn now(&self) -> Millis {
        self.now
    }

    /// Does so many things, and mostly commits them.
    pub fn turns(&mut self, turns: usize) -> Result<(), StorageError> {
        (0..turns).try_for_each(|_| self.turn())
    }

    fn turn(&mut self) -> Result<(), StorageError> {
        self.now = self.now.plus(1 + self.dice.below(200) as i64);
        match self.dice.below(20) {
            0 if self.conns.len() < 5 => self.connect(),
            1 if !self.conns.is_empty() => self.end_session(),
            2 => {
                self.now = self.now.plus(61_000);
                // Sessions expire, and containers and TTL znodes are deleted.
                self.core.handle_timeout(self.now);
                self.conns.retain(|conn| self.core.session_of(*conn).is_some());
            }
            3 => self.begin_snapshot()?,
            4 => self.roll()?,
            5 => self.purge()?,
            _ => {}
        }
        self.append()?;
        for _ in 0..self.dice.below(6) {
            self.request();
            self.append()?;
        }
        self.snapshot_slice()?;
        if self.dice.chance(70) {
            self.commit()?;
            self.end_snapshot()?;
        }
        let last = self.truth.last();
        let difference = State::new(self.core.tree(), last.sessions.clone()).difference(last);
        assert!(difference.is_none(), "the model differs from the core: {difference:?}");
        Ok(())
    }

    /// Appends more than is kept in memory before it is written, so that a batch is several writes.
    pub fn write_more_than_is_kept(&mut self) -> Result<(), StorageError> {
        self.connect();
        let conn = self.conns[self.conns.len() - 1];
        for _ in 0..3 {
            let byte = self.dice.below(256) as u8;
            self.ask(conn, create("/large").data(vec![byte; 600_000]));
            self.ask(conn, delete("/large"));
            self.append()?;
        }
        Ok(())
    }

    /// After an error nothing is acknowledged any more.
    pub fn assert_failed(&mut self) {
        if self.has_failed {
            assert!(self.storage.commit().is_err(), "a commit after an error");
            assert!(self.storage.roll().is_err(), "a roll after an error");
        }
    }

    pub fn end(self) -> (Vec<Mark>, Option<Arc<Truth>>) {
        (self.marks, Some(Arc::new(self.truth)))
    }

    pub fn commit(&mut self) -> Result<(), StorageError> {
        self.store(Storage::commit)?;
        self.committed = self.truth.last().zxid;
        self.mark();
        // If the disk fails meanwhile, the log does without.
        if let Some(spare) = self.storage.spare_job().and_then(|job| job.run(&AtomicBool::new(false))) {
            self.storage.put_spare(spare);
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<(), StorageError> {
        self.append()?;
        self.store(Storage::roll)?;
        self.committed = self.truth.last().zxid;
        self.mark();
        Ok(())
    }

    fn purge(&mut self) -> Result<(), StorageError> {
        let Some(retain) = self.options.retain else { return Ok(()) };
        self.storage.snapshots().purge(retain).map(drop)
    }

    fn append(&mut self) -> Result<(), StorageError> {
        for txn in self.core.take_effects().txns {
            self.truth.append(&mut self.tree, &txn);
            self.mark();
            self.store(|storage| storage.append(&txn))?;
        }
        Ok(())
    }

    fn store(
        &mut self,
        run: impl FnOnce(&mut Storage) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let result = run(&mut self.storage);
        self.has_failed |= result.is_err();
        result
    }

    fn mark(&mut self) {
        let (step, appended) = (self.disk.steps(), self.truth.last().zxid);
        self.marks.push(Mark { step, committed: self.committed, appended });
    }

    fn begin_snapshot(&mut self) -> Result<(), StorageError> {
        if self.snapshot.is_some() {
            return Ok(());
        }
        self.roll()?;
        let (header, sessions) = self.core.begin_snapshot();
        let writer = self.storage.snapshots().begin(header, &sessions)?;
        self.snapshot = Some(writer);
        Ok(())
    }

    fn snapshot_slice(&mut self) -> Result<(), StorageError> {
        let Some(writer) = &mut self.snapshot else { return Ok(()) };
        let mut result = Ok(());
        self.core.next_slice(1 + self.dice.below(40), 1 << 20, &mut |znode| {
            if result.is_ok() {
                result = writer.add(&znode);
            }
        });
        result
    }

    /// Ends the snapshot that is under way, if there is one. What it shows is durable since the roll.
    fn end_snapshot(&mut self) -> Result<(), StorageError> {
        if self.dice.chance(50) {
            return Ok(());
        }
        let Some(mut writer) = self.snapshot.take() else { return Ok(()) };
        let mut result = Ok(());
        while self.core.next_slice(100, 1 << 20, &mut |znode| {
            if result.is_ok() {
                result = writer.add(&znode);
            }
        }) {}
        self.core.end_snapshot();
        result?;
        writer.finish()?;
        self.purge()
    }

    fn connect(&mut self) {
        self.opened += 1;
        let conn = ConnId(self.opened);
        let in_process = self.dice.chance(30);
        self.core.handle(
            self.now,
            conn,
            Input::Open(Origin { in_process, ..IpAddr::from([127, 0, 0, 1]).into() }),
        );
        let hello = Hello::new().timeout_ms(self.dice.of(&[6_000, 30_000, 60_000]));
        let Hello(request) = hello;
        self.core.handle(self.now, conn, Input::Connect(ConnectRequest { ..request }));
        self.conns.push(conn);
    }

    fn end_session(&mut self) {
        let conn = self.conns.swap_remove(self.dice.below(self.conns.len()));
        if self.dice.chance(50) {
            self.ask(conn, close_session());
        } else if let Some(session) = self.core.session_of(conn) {
            self.core.expire(self.now, session);
        }
    }

    fn request(&mut self) {
        if self.conns.is_empty() {
            self.connect();
        }
        let conn = self.dice.of(&self.conns);
        let request = self.draw();
        self.ask(conn, request);
    }

    fn ask(&mut self, conn: ConnId, request: Request) {
        let mut wire = bytes::BytesMut::new();
        request.encode_frame(Xid(1), &mut wire);
        let incoming = zoolet_proto::Incoming::parse(&wire[frame::PREFIX..]).expect("a whole header");
        self.core.handle(self.now, conn, Input::Request(incoming));
    }

    fn draw(&mut self) -> Request {
        let path = self.dice.of(NAMES);
        let data = self.data();
        match self.dice.below(17) {
            16 => self.quota(),
            0..=3 => create(path).data(data).acl(self.acl()),
            4 => create(path).flags(self.dice.below(4) as i32).data(data),
            5 => sequential("/s-").data(data),
            6 => create2(path).flags(1).data(data),
            7 => container(path),
            8 => create_ttl(path, 5, 1 + self.dice.below(100_000) as i64),
            9 | 10 => set_data(path, data),
            11 => set_acl(path, self.acl()),
            12 | 13 => delete(path),
            14 => delete("/missing"),
            _ => {
                let parts = 1 + self.dice.below(5);
                let parts: Vec<_> = (0..parts).map(|_| self.part()).collect();
                multi(parts)
            }
        }
    }

    fn quota(&mut self) -> Request {
        const QUOTA: &str = "/zookeeper/quota/a";
        match self.dice.below(4) {
            0 => create(QUOTA),
            1 => create(&format!("{QUOTA}/zookeeper_limits")).data("count=9,bytes=900"),
            2 => create(&format!("{QUOTA}/zookeeper_stats")).data("count=0,bytes=0"),
            _ => delete(&format!("{QUOTA}/zookeeper_limits")),
        }
    }

    fn part(&mut self) -> Request {
        let path = self.dice.of(&NAMES[..6]);
        match self.dice.below(5) {
            0 => check("/", -1),
            1 => create(path),
            2 => sequential("/m-").data(self.data()),
            3 => sequential("/e-").flags(3),
            _ => set_data("/", self.data()),
        }
    }

    fn data(&mut self) -> Vec<u8> {
        let len = match self.dice.below(10) {
            0 => 0,
            1 => 1 + self.dice.below(6_000),
            _ => self.dice.below(100),
        };
        // Some of it is like the zeros of reserved room.
        let byte = if self.dice.chance(20) { 0 } else { self.dice.below(256) as u8 };
        vec![byte; len]
    }

    fn acl(&mut self) -> Vec<Acl> {
        match self.dice.below(6) {
            0 => anyone(Perms(27)),
            1 => only(Perms::ALL, "ip", "127.0.0.1"),
            _ => Acl::open(),
        }
    }
}

/// A copy of a tree, by way of a snapshot.
fn copy(tree: &mut Tree, digests: bool) -> Tree {
    let mut loader = zoolet_server_core::TreeLoader::new(digests);
    let header = tree.begin_snapshot();
    while tree.next_slice(1000, usize::MAX, &mut |znode| loader.insert(znode).expect("a tree")) {}
    tree.end_snapshot();
    loader.finish(header.zxid).expect("a tree")
}
