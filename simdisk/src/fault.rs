//! Faults of a simulated disk: which operations on which files go wrong, and how.

use std::ffi::OsStr;
use std::fmt;
use std::io;

use crate::glob;

/// An operation of a disk. Those that change something are numbered steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskOp {
    /// Creates a directory.
    CreateDir,
    /// Lists a directory.
    List,
    /// Locks a directory.
    Lock,
    /// Opens a file.
    Open,
    /// Creates a file, or empties one.
    Create,
    /// Renames a file. It is matched by the new name.
    Rename,
    /// Removes a file.
    Remove,
    /// Makes the names in a directory durable.
    SyncDir,
    /// Reads from a file.
    Read,
    /// Writes to a file.
    Write,
    /// Cuts or extends a file.
    SetLen,
    /// Reserves room for a file.
    Reserve,
    /// Makes a file durable.
    Sync,
}

impl DiskOp {
    /// Whether it changes the disk, so that it is a step.
    pub fn is_step(self) -> bool {
        !matches!(self, Self::List | Self::Lock | Self::Open | Self::Read)
    }

    /// This operation, on every file.
    pub fn any(self) -> DiskMatcher {
        DiskMatcher { op: self, pattern: None, nth: None }
    }

    /// This operation on files whose name matches, without their directory: `*` stands for any text.
    pub fn on(self, pattern: &str) -> DiskMatcher {
        DiskMatcher { pattern: Some(pattern.to_owned()), ..self.any() }
    }
}

impl fmt::Display for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateDir => "create the directory",
            Self::List => "list",
            Self::Lock => "lock",
            Self::Open => "open",
            Self::Create => "create",
            Self::Rename => "rename to",
            Self::Remove => "remove",
            Self::SyncDir => "sync the directory",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLen => "set the length of",
            Self::Reserve => "reserve room for",
            Self::Sync => "sync",
        })
    }
}

/// Which operations a fault is for, from [`DiskOp::on`] or [`DiskOp::any`]. Without [`nth`](Self::nth) it fires for every match until it
/// is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a matcher is for `SimulatedDisk::place`"]
pub struct DiskMatcher {
    op: DiskOp,
    pattern: Option<String>,
    nth: Option<u64>,
}

impl DiskMatcher {
    /// Only the nth match, counted from 1 and from when the fault is placed.
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    fn matches(&self, op: DiskOp, name: &OsStr) -> bool {
        let fits = |pattern: &String| {
            glob::matches(pattern.as_bytes(), name.as_encoded_bytes(), &b'*', PartialEq::eq)
        };
        self.op == op && self.pattern.as_ref().is_none_or(fits)
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskFault {
    /// The operation fails as `EIO` does and changes nothing. After a failed sync of a file its changes count as synced, as
    /// on Linux: a second sync succeeds, and some of them never reach the disk. Names stay unsynced after a failed sync of
    /// their directory, as a journal keeps them.
    Fail,
    /// The operation fails as `ENOSPC` does, otherwise like [`Fail`](Self::Fail). To fill the disk for real, see
    /// [`SimulatedDisk::set_free_space`](crate::SimulatedDisk::set_free_space).
    Full,
    /// A write fails after its first bytes; a read returns no more than these, which is not an error.
    Short {
        /// How many bytes at most.
        bytes: usize,
    },
    /// A sync succeeds and makes nothing durable, as a disk with a volatile cache does. A later honest sync makes up for it.
    Lie,
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail => f.write_str("fail"),
            Self::Full => f.write_str("fail as if the disk were full"),
            Self::Short { bytes } => write!(f, "stop after {bytes} bytes"),
            Self::Lie => f.write_str("do nothing and succeed"),
        }
    }
}

impl DiskFault {
    fn fits(self, op: DiskOp) -> bool {
        match self {
            Self::Fail => true,
            Self::Full => op.is_step(),
            Self::Short { .. } => matches!(op, DiskOp::Read | DiskOp::Write),
            Self::Lie => matches!(op, DiskOp::Sync | DiskOp::SyncDir),
        }
    }

    /// The error that the operation returns.
    pub(crate) fn error(self) -> io::Error {
        match self {
            Self::Full => full(),
            _ => io::Error::other("simulated I/O error (EIO)"),
        }
    }
}

pub(crate) fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on the simulated disk (ENOSPC)")
}

/// Why a fault cannot be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiskFaultError {
    /// The operation cannot go wrong in this way.
    #[error("to {op} cannot {fault}")]
    NoEffect {
        /// The operation.
        op: DiskOp,
        /// The fault.
        fault: DiskFault,
    },
    /// Matches are counted from 1.
    #[error("matches are counted from 1: nth(0) never fires")]
    NthZero,
}

/// A placed fault, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskFaultId(u64);

/// A fault that fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredDiskFault {
    /// The fault.
    pub id: DiskFaultId,
    /// The number of the last step, this one included if the operation is one.
    pub step: u64,
    /// The operation.
    pub op: DiskOp,
    /// The name of the file or directory, without the directory that it is in.
    pub name: String,
    /// What went wrong.
    pub fault: DiskFault,
}

impl fmt::Display for FiredDiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {} {}: {}", self.step, self.op, self.name, self.fault)
    }
}

/// The faults that are placed. The oldest is tried first, and at most one fires for an operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskRules {
    rules: Vec<DiskRule>,
    placed: u64,
    pub(crate) fired: Vec<FiredDiskFault>,
}

#[derive(Debug, Clone)]
struct DiskRule {
    id: DiskFaultId,
    matcher: DiskMatcher,
    fault: DiskFault,
    matched: u64,
}

impl DiskRules {
    pub(crate) fn place(
        &mut self,
        matcher: DiskMatcher,
        fault: DiskFault,
    ) -> Result<DiskFaultId, DiskFaultError> {
        if !fault.fits(matcher.op) {
            return Err(DiskFaultError::NoEffect { op: matcher.op, fault });
        }
        if matcher.nth == Some(0) {
            return Err(DiskFaultError::NthZero);
        }
        self.placed += 1;
        let id = DiskFaultId(self.placed);
        self.rules.push(DiskRule { id, matcher, fault, matched: 0 });
        Ok(id)
    }

    pub(crate) fn remove(&mut self, id: DiskFaultId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn fire(&mut self, op: DiskOp, name: &OsStr, step: u64) -> Option<DiskFault> {
        let mut fired = None;
        for rule in self.rules.iter_mut().filter(|rule| rule.matcher.matches(op, name)) {
            rule.matched += 1;
            if fired.is_none() && rule.matcher.nth.is_none_or(|nth| nth == rule.matched) {
                fired = Some((rule.id, rule.fault));
            }
        }
        let (id, fault) = fired?;
        let name = name.to_string_lossy().into_owned();
        self.fired.push(FiredDiskFault { id, step, op, name, fault });
        Some(fault)
    }
}
