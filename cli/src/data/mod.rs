//! `zoolet data`: commands for data directories. None of them needs a server, and only `snapshot` changes a directory.
//!
//! The result goes to stdout, everything else to stderr. The exit code is 0, or 1 if the directory is damaged or the system fails, or 2
//! if the command is wrong.

mod copy;
mod dump;
mod inspect;
mod json;
mod log;
mod print;
mod progress;
mod snapshot;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use zoolet_proto::Zxid;
use zoolet_storage::{RecoveryReport, StorageOptions};

use crate::failure::Failure;
use crate::output::{until_reader_leaves, warn};
use crate::settings;

/// The subcommands of `zoolet data`.
#[derive(clap::Subcommand)]
pub(crate) enum Data {
    /// List the files of a directory, and what is in each
    Inspect(inspect::Inspect),
    /// Check everything in a directory, and list all faults
    Verify(verify::Verify),
    /// Print the znodes that a server would begin with
    Dump(dump::Dump),
    /// Print the transactions of the log
    Log(log::Log),
    /// Write a snapshot of a directory that no server uses
    Snapshot(snapshot::Snapshot),
    /// Copy a damaged directory into a new one, as far as a transaction
    Repair(copy::Repair),
    /// Copy a directory into a new one, for a server of Apache ZooKeeper
    Export(copy::Export),
    /// Copy a directory of Apache ZooKeeper into a new one
    Import(copy::Directories),
}

impl Data {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        until_reader_leaves(match self {
            Self::Inspect(inspect) => inspect.run(),
            Self::Verify(verify) => verify.run(),
            Self::Dump(dump) => dump.run(),
            Self::Log(log) => log.run(),
            Self::Snapshot(snapshot) => snapshot.run(),
            Self::Repair(repair) => repair.run(),
            Self::Export(export) => export.run(),
            Self::Import(directories) => directories.copy(None, |_| {}),
        })
    }
}

/// A data directory that exists.
#[derive(Debug, clap::Args)]
struct Source {
    /// The data directory, which contains version-2
    #[arg(value_name = "DIR", value_parser = settings::directory)]
    dir: PathBuf,

    /// The directory of the transaction log, if it is another one
    #[arg(long, value_name = "DIR", value_parser = settings::directory)]
    log_dir: Option<PathBuf>,

    /// Read a log without a snapshot, as a directory of ZooKeeper 3.4 may be
    #[arg(long)]
    trust_empty_snapshot: bool,
}

impl Source {
    /// Settings to read it.
    fn options(&self) -> Result<StorageOptions, Failure> {
        check_exists(&self.dir)?;
        let mut options = StorageOptions::new(&self.dir);
        if let Some(log_dir) = &self.log_dir {
            check_exists(log_dir)?;
            options.log_dir = Some(log_dir.clone()).filter(|log_dir| *log_dir != self.dir);
        }
        options.trust_empty_snapshot = self.trust_empty_snapshot;
        options.create_directories = false;
        options.create_database = false;
        Ok(options)
    }
}

/// Checks that `dir` has what a server has written.
fn check_exists(dir: &Path) -> Result<(), Failure> {
    const VERSION_DIR: &str = "version-2";
    let refused = |hint: &str| Err(Failure::NotADataDirectory { dir: dir.to_owned(), hint: hint.to_owned() });
    let is_denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if dir.join(VERSION_DIR).is_dir() {
        Ok(())
    } else if fs::metadata(dir.join(VERSION_DIR)).is_err_and(is_denied) {
        refused("permission denied; run this as the user of the server")
    } else if dir.is_file() {
        refused(name_the_directory_of(dir).as_deref().unwrap_or("it is a file"))
    } else if dir.file_name().is_some_and(|name| name == VERSION_DIR) {
        refused("name its parent, as in a zoo.cfg")
    } else if dir.is_dir() {
        refused("it has no version-2; name the directory that dataDir or dataLogDir of a zoo.cfg names")
    } else {
        refused("there is no such directory")
    }
}

/// Reports what was not in order.
fn warn_of(report: &RecoveryReport) {
    report.cut.iter().for_each(|cut| warn(&cut.to_string()));
    report.warnings.iter().for_each(|warning| warn(&warning.to_string()));
}

/// What to name in place of a snapshot or a log, which the tools of ZooKeeper take.
fn name_the_directory_of(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let absolute = std::path::absolute(file).ok()?;
    let dir = absolute.parent()?.parent()?.display();
    let (kind, zxid) = name.split_once('.')?;
    let zxid = zxid.split('.').next().filter(|zxid| i64::from_str_radix(zxid, 16).is_ok())?;
    match kind {
        "snapshot" => Some(format!(
            "it is one file; name the data directory, {dir}, and the moment if not the last one: --at 0x{zxid} (dump), or \
             inspect, which shows each file"
        )),
        "log" => Some(format!(
            "it is one file; name the data directory, {dir}, and where to begin: --from 0x{zxid} (log)"
        )),
        _ => None,
    }
}

/// Parses a zxid as it is printed. Without the prefix it could be decimal.
fn zxid(text: &str) -> Result<Zxid, String> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with(['+', '-']));
    digits
        .and_then(|digits| i64::from_str_radix(digits, 16).ok())
        .map(Zxid)
        .ok_or_else(|| "must be a zxid as it is printed, such as 0x2b".to_owned())
}
