//! [`Life`]: a server from its start to its end, and what of it a later one must know.

use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::{Millis, Tree};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::{Durability, Recovered, RecoveryWarning, Storage, StorageError, StorageOptions};

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

    /// Damage can look like the torn write of the last batch, but no more than that may be missing.
    pub fn lose_batch(&mut self, before: Zxid) {
        self.committed = before;
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

    /// As [`open`](Self::open), if nothing but crashes has happened to the disk.
    pub fn restart(
        &self,
        disk: &SimulatedDisk,
        options: &StorageOptions,
    ) -> Result<(Storage, Recovered, State), StorageError> {
        let (storage, recovered, state) = self.open(disk, options)?;
        if disk.fired().is_empty() && options.durability == Durability::Sync {
            // Anything else would mean that the server before had gone on over something torn.
            let expected = |warning: &RecoveryWarning| {
                matches!(warning, RecoveryWarning::EmptyLog { .. } | RecoveryWarning::Leftover { .. })
            };
            assert!(recovered.report.warnings.iter().all(expected), "{:?}", recovered.report.warnings);
        }
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
    /// Starts a server, checks what it recovers, and lets it live until the disk fails or it has enough.
    pub fn run(
        disk: &SimulatedDisk,
        options: &StorageOptions,
        known: &Known,
        seed: u64,
        live: impl FnOnce(&mut Server) -> Result<(), StorageError>,
    ) -> Self {
        let now = known.now.plus(1_000);
        let (disk, history) = (disk.clone(), Vec::new());
        let mut life = Self { disk, history, error: None, marks: Vec::new(), truth: None, now };
        life.error = life.serve(options, known, seed, live).err();
        life.history = life.disk.take_history();
        life
    }

    fn serve(
        &mut self,
        options: &StorageOptions,
        known: &Known,
        seed: u64,
        live: impl FnOnce(&mut Server) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let (storage, recovered, state) = known.restart(&self.disk, options)?;
        let mut server =
            Server::new(&self.disk, options, storage, recovered, Truth::new(state), self.now, seed);
        let mut result = live(&mut server);
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

    /// What was committed before the last batch.
    pub fn committed_before(&self) -> Zxid {
        let last = self.marks.last().map_or(Zxid(0), |mark| mark.committed);
        let before = self.marks.iter().rev().map(|mark| mark.committed).find(|committed| *committed < last);
        before.unwrap_or(last)
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
