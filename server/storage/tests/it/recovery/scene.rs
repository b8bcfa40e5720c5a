//! A directory to damage, and what is to become of it.

use std::path::PathBuf;
use std::sync::Arc;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Owner, TxnOp, ZnodeRecord};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::disk::Disk;
use zoolet_storage::{Damage, Recovered, StorageError, StorageOptions, open, read};

use super::support::{self, SESSION, Writer, entries, files, options, path, push_entry, znodes};

/// `snapshot.0`; `log.1` with the transactions 1 to 10; `snapshot.a`; `log.b` with those from 11 to 20, in batches that begin with
/// 11, 12, 14, 17 and 18.
pub(crate) struct Scene {
    pub(crate) disk: SimulatedDisk,
    pub(crate) options: StorageOptions,
    /// The znodes after each transaction.
    pub(crate) states: Vec<Vec<ZnodeRecord>>,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    /// Where the entries of both files are: file, offset, length, zxid.
    places: Vec<(&'static str, usize, usize, i64)>,
}

/// What becomes of a damaged directory.
#[derive(Debug)]
pub(crate) enum Expected {
    /// It is refused, for damage at this place.
    Refused { file: PathBuf, offset: Option<usize>, reason: String },
    /// This is the last transaction, the log is cut here, and these are the warnings.
    Recovered { last: i64, cut: Option<(PathBuf, usize)>, warnings: Vec<String> },
}

pub(crate) fn refused(file: &str, offset: impl Into<Option<usize>>, reason: &str) -> Expected {
    Expected::Refused { file: path(file), offset: offset.into(), reason: reason.to_owned() }
}

/// With warnings that have these words.
pub(crate) fn recovered(last: i64, warnings: &[&str]) -> Expected {
    let warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
    Expected::Recovered { last, cut: None, warnings }
}

pub(crate) fn cut(last: i64, file: &str, offset: usize) -> Expected {
    Expected::Recovered { last, cut: Some((path(file), offset)), warnings: Vec::new() }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        let mut server = Writer::open(&disk);
        let mut states = vec![znodes(&mut server.tree)];
        let mut done = |server: &mut Writer| states.push(znodes(&mut server.tree));
        for zxid in 1..=20 {
            match zxid {
                1 => server.append(TxnOp::CreateSession { timeout: 10_000 }).unwrap(),
                2 => server.create("/a", Owner::PERSISTENT),
                3 => server.create("/a/e", Owner::session(SESSION)),
                4 => server.create("/a/c", Owner::CONTAINER),
                5 | 15 => server.refuse(),
                8 => server.create("/k", Owner::PERSISTENT),
                13 => server.create("/b", Owner::PERSISTENT),
                _ => server.set("/a", format!("value {zxid}").as_bytes()),
            }
            done(&mut server);
            if [1, 4, 10, 11, 13, 16, 17, 20].contains(&zxid) {
                server.commit();
            }
            if zxid == 10 {
                server.snapshot();
            }
        }
        let places = ["log.1", "log.b"].into_iter().flat_map(|name| {
            entries(&disk, name).into_iter().map(move |(offset, len, zxid)| (name, offset, len, zxid))
        });
        Self { options: options(), states, sessions: server.sessions.clone(), places: places.collect(), disk }
    }

    /// The same one, on a disk of its own.
    pub(crate) fn fork(&self) -> Self {
        Self {
            disk: self.disk.fork(),
            options: self.options.clone(),
            states: self.states.clone(),
            sessions: self.sessions.clone(),
            places: self.places.clone(),
        }
    }

    /// Where the entry of a transaction begins.
    pub(crate) fn at(&self, zxid: i64) -> usize {
        self.place(zxid).1
    }

    /// Where it ends.
    pub(crate) fn end(&self, zxid: i64) -> usize {
        let (_, offset, len, _) = self.place(zxid);
        offset + len
    }

    fn place(&self, zxid: i64) -> (&'static str, usize, usize, i64) {
        *self.places.iter().find(|place| place.3 == zxid).unwrap()
    }

    pub(crate) fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.disk.read(path(name)).unwrap();
        change(&mut bytes);
        self.disk.write(path(name), bytes).unwrap();
    }

    /// Changes the log file that has this transaction, from where its entry begins.
    pub(crate) fn damage(&self, zxid: i64, change: impl FnOnce(&mut [u8])) {
        let (file, offset, ..) = self.place(zxid);
        self.edit(file, |log| change(&mut log[offset..]));
    }

    /// Changes the payload of the entry of a transaction, and sums it again.
    pub(crate) fn rewrite(&self, zxid: i64, change: impl FnOnce(&mut Vec<u8>)) {
        let (file, offset, len, _) = self.place(zxid);
        self.edit(file, |log| {
            let mut payload = log[offset + 12..offset + len - 1].to_vec();
            change(&mut payload);
            let mut entry = Vec::new();
            push_entry(&mut entry, &payload);
            log.splice(offset..offset + len, entry);
        });
    }

    /// Makes the last log one that Apache wrote.
    pub(crate) fn as_apache(&mut self) {
        support::without_markers(&self.disk, "log.b");
        for (name, offset, len, zxid) in &mut self.places {
            if *name == "log.b" {
                *offset -= 4 * (*zxid as usize - 11);
                *len -= 4;
            }
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        self.disk.remove(&path(name)).unwrap();
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        self.disk.rename(&path(from), &path(to)).unwrap();
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.disk.write(path(name), bytes).unwrap();
    }

    /// Ends the last log before this transaction, and begins another file with it.
    pub(crate) fn split(&self, zxid: i64) {
        let bytes = self.disk.read(path("log.b")).unwrap();
        let at = self.at(zxid);
        self.write(
            &format!("log.{zxid:x}"),
            [&bytes[..16], &bytes[at..bytes.len().min(self.end(20))]].concat(),
        );
        self.write("log.b", &bytes[..at]);
    }

    pub(crate) fn check(&self, name: &str, expected: &Expected) {
        let before = files(&self.disk);
        let found = read(&self.disk, &self.options);
        assert_eq!(files(&self.disk), before, "{name}: a read changes nothing");
        match expected {
            Expected::Refused { file, offset, reason } => {
                let Err(StorageError::Damaged(damage)) = found else { panic!("{name}: {found:?}") };
                let place = (&damage.file, damage.offset.map(|offset| offset as usize));
                assert_eq!(place, (file, *offset), "{name}: {damage}");
                assert!(damage.reason.contains(reason), "{name}: {damage}");
                assert!(!damage.hint.is_empty(), "{name}: {damage}");
                self.check_refused_to_open(name, &damage);
                assert_eq!(files(&self.disk), before, "{name}: nothing is changed");
            }
            Expected::Recovered { last, cut, warnings } => {
                let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
                self.check_recovered(name, found, *last, cut, warnings);
                self.check_goes_on(name, *last);
            }
        }
    }

    fn check_refused_to_open(&self, name: &str, damage: &Damage) {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        match open(disk, self.options.clone()) {
            Err(StorageError::Damaged(again)) => assert_eq!(again, *damage, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn check_recovered(
        &self,
        name: &str,
        mut found: Recovered,
        last: i64,
        cut: &Option<(PathBuf, usize)>,
        warnings: &[String],
    ) {
        let report = &found.report;
        let place = report.cut.as_ref().map(|cut| (cut.file.clone(), cut.offset as usize));
        assert_eq!((report.last_zxid, &place), (Zxid(last), cut), "{name}");
        let texts: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
        let match_up =
            texts.len() == warnings.len() && texts.iter().zip(warnings).all(|(a, b)| a.contains(b));
        assert!(match_up, "{name}: {texts:#?} instead of {warnings:#?}");
        assert_eq!(znodes(&mut found.tree), self.states[last as usize], "{name}");
        assert_eq!(found.tree.last_zxid(), Zxid(last), "{name}");
        let sessions = if last == 0 { &[][..] } else { &self.sessions };
        assert_eq!(found.sessions, sessions, "{name}");
    }

    /// Opens it, writes, and reads it again: nothing is left of a torn end.
    fn check_goes_on(&self, name: &str, last: i64) {
        let mut server = Writer::open_with(&self.disk, self.options.clone());
        server.create("/later", Owner::PERSISTENT);
        server.set("/later", b"value");
        server.commit();
        let expected = znodes(&mut server.tree);
        drop(server);
        let mut found =
            read(&self.disk, &self.options).unwrap_or_else(|error| panic!("{name}, later: {error}"));
        assert_eq!(found.report.cut, None, "{name}: cut once");
        assert_eq!(
            (found.tree.last_zxid(), znodes(&mut found.tree)),
            (Zxid(last + 2), expected),
            "{name}, later"
        );
    }
}
