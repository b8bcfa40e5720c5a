//! Makes one tree like another.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::pin::Pin;

use serde_json::json;
use zoolet_client::{Acl, Client, Error, ErrorCode};

use super::MovedZnode;
use super::compare::{Comparison, Difference, Source, placed};
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::shell::Shell;
use crate::text::{count, shown};
use crate::walk::UNLIMITED;

/// Most writes in flight.
const WINDOW: usize = 128;

/// Most bytes of data in flight: far less than a client takes, so that no write waits while a later one is sent.
const MOST_BYTES: usize = 4 << 20;

/// What a transfer does with differences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applying {
    pub(super) overwrite: bool,
    /// Delete what only the target has.
    pub(super) delete: bool,
    pub(super) mode: TransferMode,
}

/// Whether differences are only counted, or printed too, or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferMode {
    Count,
    Print,
    Write,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    created: usize,
    changed: usize,
    deleted: usize,
    /// What was to be deleted and has something below it: an ephemeral, or what somebody has created meanwhile.
    not_empty: usize,
    /// What differs and was left as it is; and the first of it.
    kept: usize,
    first_kept: String,
    ephemerals: (usize, usize),
}

impl Applied {
    pub(super) fn finish(self, shell: &mut Shell<'_>) -> ShellResult {
        let Self { created, changed, deleted, not_empty, kept, ephemerals, .. } = self;
        note_ephemerals(shell, ephemerals);
        match shell.json {
            true => shell.json_line(&json!({
                "created": created, "changed": changed, "deleted": deleted, "notEmpty": not_empty, "kept": kept,
                "ephemeralsLeftOut": ephemerals.0,
            }))?,
            false => shell.note(format!("{created} created, {changed} changed, {deleted} deleted")),
        }
        if not_empty > 0 {
            shell.note(format!("not deleted: {} with others below", count(not_empty, "znode")));
        }
        self.check_kept(shell)
    }

    /// Fails if something differs and was left as it is.
    pub(super) fn check_kept(&self, shell: &Shell<'_>) -> ShellResult {
        match self.kept {
            0 => Ok(()),
            more => Err(shell.fail(
                ExitReason::Conflict,
                format!(
                    "{} there and different, the first {}; --overwrite replaces them",
                    count(more, "znode is"),
                    shown(&self.first_kept)
                ),
            )),
        }
    }
}

pub(super) fn note_ephemerals(shell: &mut Shell<'_>, (left, right): (usize, usize)) {
    if left + right > 0 {
        shell.note(format!("left out: {} of the first tree, {right} of the other", count(left, "ephemeral")));
    }
}

impl Applied {
    /// Counts a difference; returns whether something is to be done about it.
    fn count(&mut self, path: &str, difference: &Difference, what: Applying) -> bool {
        let (counter, is_done) = match difference {
            Difference::OnlyLeft(_) => (&mut self.created, true),
            Difference::Changed { .. } if what.overwrite => (&mut self.changed, true),
            Difference::OnlyRight if what.delete => (&mut self.deleted, true),
            Difference::OnlyRight => return false,
            Difference::Changed { .. } => {
                if self.kept == 0 {
                    path.clone_into(&mut self.first_kept);
                }
                (&mut self.kept, false)
            }
        };
        *counter += 1;
        is_done
    }
}

/// Makes the target like the source. Repeating it does what is left to do.
pub(super) async fn apply(
    shell: &mut Shell<'_>,
    target: &Client,
    to: &str,
    (left, right): (Source<'_>, Source<'_>),
    what: Applying,
) -> ShellResult<Applied> {
    let mut applied = Applied::default();
    let mut compared = shell.answered(Comparison::new(left, right).await)?;
    let mut writes =
        Writes { target, in_flight: VecDeque::new(), bytes: 0, has_created: false, not_empty: 0 };
    // Children before parents, once the whole tree is known.
    let mut surplus = Vec::new();
    while let Some((below, difference)) = shell.answered(compared.next().await)? {
        let path = placed(to, &below);
        // The root comes first. Only an ephemeral is left out of the source.
        if what.delete && below.as_str() == "/" && matches!(difference, Difference::OnlyRight) {
            let message =
                format!("the source is an ephemeral, which is not copied: {} would be deleted", shown(&path));
            return Err(shell.fail(ExitReason::Conflict, message));
        }
        if !applied.count(&path, &difference, what) {
            continue;
        }
        check_acl(shell, &path, &difference)?;
        match what.mode {
            TransferMode::Count => continue,
            TransferMode::Print => {
                announce(shell, &path, &difference)?;
                continue;
            }
            TransferMode::Write => {}
        }
        let write = match difference {
            Difference::OnlyLeft(znode) => writes.create(path, znode, below.as_str() == "/").await,
            Difference::Changed { left, right } => writes.change(path, left, right).await,
            Difference::OnlyRight => {
                surplus.push(path);
                Ok(())
            }
        };
        write.map_err(|error| write_failed(shell, &error))?;
    }
    for path in surplus.into_iter().rev() {
        writes
            .push(0, true, target.delete(path).timeout(UNLIMITED))
            .await
            .map_err(|error| write_failed(shell, &error))?;
    }
    writes.finish().await.map_err(|error| write_failed(shell, &error))?;
    applied.deleted -= writes.not_empty;
    applied.not_empty = writes.not_empty;
    applied.ephemerals = compared.ephemerals();
    Ok(applied)
}

/// Prints what would be done.
fn announce(shell: &mut Shell<'_>, path: &str, difference: &Difference) -> ShellResult {
    let what = match difference {
        Difference::OnlyLeft(_) => "create",
        Difference::OnlyRight => "delete",
        Difference::Changed { .. } => "change",
    };
    shell.line_or_json(format!("{what} {}", shown(path)), &json!({"path": path, "would": what}))
}

/// The error of a write: what it is on, or the znode above it, may be gone since it was read.
fn write_failed(shell: &Shell<'_>, error: &Error) -> ShellError {
    match error.code() {
        Some(ErrorCode::NoNode) => {
            let failed = shell.failed_with(error, "somebody has deleted it, or its parent: repeat this");
            ShellError::new(ExitReason::Conflict, failed.to_string())
        }
        _ => shell.failed(error),
    }
}

/// A write that is sent.
struct Write<'c> {
    outcome: Pin<Box<dyn Future<Output = Result<(), Error>> + 'c>>,
    bytes: usize,
    is_delete: bool,
}

/// Writes in flight, executed in the order of sending.
struct Writes<'c> {
    target: &'c Client,
    in_flight: VecDeque<Write<'c>>,
    /// Of their data.
    bytes: usize,
    has_created: bool,
    /// Deletes that were refused for what is below.
    not_empty: usize,
}

impl<'c> Writes<'c> {
    /// Sends a write, once there is room for it.
    async fn push<T>(
        &mut self,
        bytes: usize,
        is_delete: bool,
        write: impl IntoFuture<Output = Result<T, Error>, IntoFuture: 'c>,
    ) -> Result<(), Error> {
        while self.in_flight.len() >= WINDOW || self.bytes + bytes > MOST_BYTES {
            if !self.receive().await? {
                break;
            }
        }
        self.bytes += bytes;
        let sent = write.into_future();
        let outcome = Box::pin(async { sent.await.map(drop) });
        self.in_flight.push_back(Write { outcome, bytes, is_delete });
        Ok(())
    }

    /// Waits for the oldest write; returns whether there was one.
    async fn receive(&mut self) -> Result<bool, Error> {
        let Some(Write { outcome, bytes, is_delete }) = self.in_flight.pop_front() else { return Ok(false) };
        self.bytes -= bytes;
        match outcome.await {
            Err(error) if is_delete => match error.code() {
                // Somebody else has deleted it.
                Some(ErrorCode::NoNode) => {}
                Some(ErrorCode::NotEmpty) => self.not_empty += 1,
                _ => return Err(error),
            },
            outcome => outcome?,
        }
        Ok(true)
    }

    async fn finish(&mut self) -> Result<(), Error> {
        while self.receive().await? {}
        Ok(())
    }

    async fn create(&mut self, path: String, znode: MovedZnode, is_root: bool) -> Result<(), Error> {
        // Nothing is in flight besides the first: a server of 3.4 answers it by closing the connection.
        let is_first = !mem::replace(&mut self.has_created, true);
        if is_first {
            self.finish().await?;
        }
        let bytes = znode.data.len();
        let mut create = self.target.create(path, znode.data).timeout(UNLIMITED);
        if let Some(acl) = znode.acl {
            create = create.acl(acl);
        }
        match is_root {
            true => self.push(bytes, false, create.parents().parent_acl(Acl::open())).await?,
            // Its parent is there, unless somebody has deleted it: then it must not come back open and empty.
            false => self.push(bytes, false, create).await?,
        }
        if is_first { self.finish().await } else { Ok(()) }
    }

    async fn change(&mut self, path: String, left: MovedZnode, right: MovedZnode) -> Result<(), Error> {
        if left.data != right.data {
            self.push(left.data.len(), false, self.target.set_data(&path, left.data).timeout(UNLIMITED))
                .await?;
        }
        match left.acl {
            Some(acl) if right.acl.as_ref() != Some(&acl) => {
                self.push(0, false, self.target.set_acl(path, acl).timeout(UNLIMITED)).await
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an ACL whose digests the server has hidden, as it would let nobody in.
fn check_acl(shell: &Shell<'_>, path: &str, difference: &Difference) -> ShellResult {
    let (Difference::OnlyLeft(znode) | Difference::Changed { left: znode, .. }) = difference else {
        return Ok(());
    };
    match &znode.acl {
        Some(acl) => check_not_masked(shell, &format!("the source of {}", shown(path)), acl),
        None => Ok(()),
    }
}

/// Refuses an ACL in which a server has replaced a hash by `x`, as it does for who may not set the ACL
/// (`PrepRequestProcessor.fixupACL`).
pub(super) fn check_not_masked(shell: &Shell<'_>, of: &str, acl: &[Acl]) -> ShellResult {
    if !acl.iter().any(|entry| entry.scheme == "digest" && entry.id.ends_with(":x")) {
        return Ok(());
    }
    let message = format!(
        "the ACL of {of} has digests that this session may not see: give credentials with the right `a`, or leave ACLs out with --no-acl"
    );
    Err(shell.fail(ExitReason::Refused, message))
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "create {}, change {}, delete {}", self.created, self.changed, self.deleted)
    }
}
