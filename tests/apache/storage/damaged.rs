//! What each server makes of each kind of damage: the table in `docs/storage.md`.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{StorageError, StorageOptions, read};
use zoolet_test_support::Dice;

use crate::storage::damage::{Directory, KINDS, Kind, MayLose};
use crate::storage::load::Load;
use crate::storage::operations::Limits;
use crate::storage::server::{Process, Settings, Version};
use crate::storage::state::State;
use crate::storage::theirs::copy;
use crate::storage::{shown, shown_in_place};

/// What a server makes of a directory.
enum Outcome {
    /// All of it is there.
    Whole,
    /// Transactions at the end are missing.
    Lost(i64),
    /// A tree that never was.
    Wrong,
    Refused(String),
}

impl Outcome {
    fn text(&self, warns: bool) -> String {
        let how = if warns { "warns; " } else { "" };
        match self {
            Self::Whole => format!("{how}all there"),
            Self::Lost(1) => format!("{how}all but the last transaction"),
            Self::Lost(_) => format!("{how}**nothing after it**"),
            Self::Wrong => format!("{how}**wrong tree**"),
            Self::Refused(reason) => format!("refuses: {reason}"),
        }
    }
}

/// The same history, cut after any transaction.
struct Reference<'r> {
    base: &'r Path,
    process: Process,
    states: BTreeMap<i64, State>,
    last: i64,
}

impl Reference<'_> {
    async fn judge(&mut self, state: &State) -> Outcome {
        if state.zxid > self.last {
            return Outcome::Wrong;
        }
        if !self.states.contains_key(&state.zxid) {
            let dir = tempfile::tempdir().expect("a directory");
            copy(self.base, dir.path());
            Directory::new(dir.path()).cut_after(state.zxid);
            let (shown, _) = shown_in_place(&mut self.process, dir.path(), &Settings::new())
                .await
                .expect("a directory of theirs");
            self.states.insert(state.zxid, shown);
        }
        // Statistics of quotas depend on the snapshot that the server began with.
        let reference = self.states[&state.zxid].clone().without_statistics();
        if !reference.differences(&state.clone().without_statistics()).is_empty() {
            return Outcome::Wrong;
        }
        match self.last - state.zxid {
            0 => Outcome::Whole,
            lost => Outcome::Lost(lost),
        }
    }
}

/// Damages a directory in every way and returns a table of what the servers do.
///
/// # Panics
/// If ours shows what never was, or loses what may have been acknowledged.
pub async fn table(dice: &mut Dice) -> String {
    let base = tempfile::tempdir().expect("a directory");
    write(base.path(), dice).await;
    let last = Directory::new(base.path()).last_zxid();
    let reference = Process::new(Version::V39);
    let mut reference = Reference { base: base.path(), process: reference, states: BTreeMap::new(), last };
    let mut servers = Version::ALL.map(Process::new);
    let mut table = "| damage | 3.9.5 | 3.8.0 | Zoolet |\n| --- | --- | --- | --- |\n".to_owned();
    for kind in KINDS {
        table += &format!("| {} ", kind.name);
        for server in &mut servers {
            let dir = damaged(base.path(), kind);
            let text = match shown_in_place(server, dir.path(), &Settings::new()).await {
                Ok((state, log)) => reference.judge(&state).await.text(!log.is_empty()),
                Err(refused) => Outcome::Refused(short(&refused.reason, dir.path())).text(false),
            };
            table += &format!("| {text} ");
        }
        let dir = damaged(base.path(), kind);
        let (outcome, warns) = match read(&RealDisk, &StorageOptions::new(dir.path())) {
            Ok(recovered) => {
                let report = &recovered.report;
                let warns = report.cut.is_some() || !report.warnings.is_empty();
                (reference.judge(&State::of_recovered(&recovered)).await, warns)
            }
            Err(StorageError::Damaged(damage)) => {
                (Outcome::Refused(without(&damage.reason, dir.path())), false)
            }
            Err(refused) => panic!("{}: {refused}", kind.name),
        };
        let text = outcome.text(warns);
        let may_lose = match outcome {
            Outcome::Whole | Outcome::Refused(_) => true,
            Outcome::Lost(1) => kind.may_lose != MayLose::Nothing,
            Outcome::Lost(_) => kind.may_lose == MayLose::All,
            Outcome::Wrong => false,
        };
        assert!(may_lose, "{}: {text}", kind.name);
        table += &format!("| {text} |\n");
    }
    table
}

fn damaged(base: &Path, kind: &Kind) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    copy(base, dir.path());
    (kind.damage)(&Directory::new(dir.path()));
    dir
}

/// A directory of 3.9 with several logs and snapshots, of which 3.9 does not warn.
async fn write(dir: &Path, dice: &mut Dice) {
    let limits = Limits { create2_in_multi: false, odd_flags: false, only_those_of_3_4: false };
    let mut process = Process::new(Version::V39);
    std::fs::create_dir(dir.join("version-2")).expect("a directory");
    loop {
        let settings = Settings::new().with("snapCount", 300).with("preAllocSize", 64);
        let address = process.start(dir, &settings).expect("a server").address;
        Load::start(&[address], dice, limits, 60).finish().await;
        process.stop();
        if !Directory::new(dir).is_fit() {
            continue;
        }
        let shown = shown(&mut process, dir, &Settings::new()).await;
        if shown.is_ok_and(|(_, log)| log.is_empty()) {
            break;
        }
    }
}

/// The exception without its package and without what follows a line.
fn short(reason: &str, dir: &Path) -> String {
    let line = reason.split('\t').next().unwrap_or_default();
    let (class, text) = line.split_once(": ").unwrap_or((line, ""));
    without(&format!("{}: {text}", class.rsplit('.').next().unwrap_or(class)), dir)
}

/// A text for a cell of a table, without what is different in every run: the directory, and zxids.
fn without(text: &str, dir: &Path) -> String {
    let text = text.replace(&format!("{}/", dir.display()), "").replace('|', "\\|");
    let mut parts = text.split("0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "0x…" + part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit())
    })
}
