//! [`Life`]: a server from its start to its end, and what of it a later one must know.

use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::{Millis, Tree};
use zoolet_storage::disk::SimulatedDisk;
use zoolet_storage::{Recovered, Storage, StorageError, StorageOptions};

use crate::server::{Mark, Server};
use crate::truth::{State, Truth};

/// What was committed and written before a server starts.
#[derive(Clone)]
pub struct Known {
    truth: Arc<Truth>,
    /// At least this is recovered, and at most `appended`.
    committed: Zxid,
    appended: Zxid,
    now: Millis,
}

impl Known {
    /// Of a directory that does not exist.
    pub fn nothing(options: &StorageOptions) -> Self {
        let tree = Tree::default();
        let tree = if options.digests { tree.keeping_digest() } else { tree };
        let truth = Arc::new(Truth::new(State::new(&tree, [])));
        Self { truth, committed: Zxid(0), appended: Zxid(0), now: Millis(1_700_000_000_000) }
    }

    /// Without syncs a power loss takes any number of the last transactions.
    pub fn lose_power(&mut self) {
        self.committed = self.truth.first().zxid;
    }

    /// Opens the directory, and checks what is recovered.
    pub fn open(
        &self,
        disk: &SimulatedDisk,
        options: &StorageOptions,
    ) -> Result<(Storage, Recovered, State), StorageError> {
        let (storage, recovered) = zoolet_storage::open(Arc::new(disk.clone()), options.clone())?;
        let state = self.check(&recovered);
        Ok((storage, recovered, state))
    }

    /// Reads the directory, and checks what is recovered. Returns nothing of one that has no data.
    pub fn read(
        &self,
        disk: &SimulatedDisk,
        options: &StorageOptions,
    ) -> Result<Option<State>, StorageError> {
        let steps = disk.steps();
        let read = zoolet_storage::read(disk, options);
        assert_eq!(disk.steps(), steps, "reading changes nothing");
        match read {
            // No server has begun it completely.
            Err(StorageError::NoData(_)) if self.committed == Zxid(0) => Ok(None),
            result => result.map(|recovered| Some(self.check(&recovered))),
        }
    }

    /// Checks that an open has left nothing that a reader stumbles over, as Apache would.
    pub fn check_is_clean(&self, disk: &SimulatedDisk, options: &StorageOptions) {
        let report = zoolet_storage::read(disk, options).expect("an open directory").report;
        assert_eq!(report.cut, None, "the log ends cleanly");
        assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    }

    /// Checks what is recovered, and returns it.
    fn check(&self, recovered: &Recovered) -> State {
        let state = State::new(&recovered.tree, recovered.sessions.iter().copied());
        let Self { committed, appended, .. } = self;
        let found = state.zxid;
        assert!(
            (*committed..=*appended).contains(&found),
            "{found} is recovered; {committed} was committed, and written up to {appended}"
        );
        let expected = self.truth.at(found).unwrap_or_else(|| panic!("{found} was never given"));
        if let Some(difference) = state.difference(expected) {
            panic!("after {found} is recovered: {difference}");
        }
        state
    }
}

pub struct Life {
    pub disk: SimulatedDisk,
    /// The disk before each step.
    pub history: Vec<(u64, SimulatedDisk)>,
    pub error: Option<StorageError>,
    marks: Vec<Mark>,
    truth: Option<Arc<Truth>>,
    now: Millis,
}

impl Life {
    /// Starts a server, checks what it recovers, and lets it run for some turns or until the disk fails.
    pub fn run(
        disk: &SimulatedDisk,
        options: &StorageOptions,
        known: &Known,
        seed: u64,
        turns: usize,
    ) -> Self {
        let now = known.now.plus(1_000);
        let (disk, history) = (disk.clone(), Vec::new());
        let mut life = Self { disk, history, error: None, marks: Vec::new(), truth: None, now };
        life.error = life.serve(options, known, seed, turns).err();
        life.history = life.disk.take_history();
        life
    }

    fn serve(
        &mut self,
        options: &StorageOptions,
        known: &Known,
        seed: u64,
        turns: usize,
    ) -> Result<(), StorageError> {
        let (storage, recovered, state) = known.open(&self.disk, options)?;
        let mut server =
            Server::new(&self.disk, options, storage, recovered, Truth::new(state), self.now, seed);
        let mut result = (0..turns).try_for_each(|_| server.turn());
        if result.is_ok() && seed % 2 == 0 {
            result = server.commit();
        }
        if result.is_err() {
            server.assert_failed();
        }
        self.now = server.now();
        (self.marks, self.truth) = server.end();
        result
    }

    /// What is known if the machine stops before this step.
    pub fn known_at(&self, step: u64, before: &Known) -> Known {
        let marks = self.marks.partition_point(|mark| mark.step < step);
        self.known_after(marks, before)
    }

    pub fn known_at_end(&self, before: &Known) -> Known {
        self.known_after(self.marks.len(), before)
    }

    fn known_after(&self, marks: usize, before: &Known) -> Known {
        let (Some(truth), Some(last)) = (&self.truth, marks.checked_sub(1)) else { return before.clone() };
        let Mark { committed, appended, .. } = self.marks[last];
        Known { truth: Arc::clone(truth), committed, appended, now: self.now }
    }
}
