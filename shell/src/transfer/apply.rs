//! Makes one tree like another.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture as _;
use std::pin::Pin;

use serde_json::json;
use zoolet_client::{Acl, Client, Error};

use super::MovedZnode;
use super::compare::{Comparison, Difference};
use super::source::{Source, placed};
use crate::failure::{ExitReason, ShellError};
use crate::shell::Shell;
use crate::text::{count, shown};

/// Most writes in flight.
const WINDOW: usize = 128;

/// What a transfer does with differences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Applying {
    pub(super) overwrite: bool,
    /// Delete what only the target has.
    pub(super) delete: bool,
    pub(super) with_acl: bool,
    /// Only print it.
    pub(super) dry_run: bool,
}

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    created: usize,
    changed: usize,
    deleted: usize,
    /// What differs and was left as it is; and the first of it.
    kept: usize,
    first_kept: String,
    ephemerals: (usize, usize),
}

impl Applied {
    pub(super) fn finish(self, shell: &mut Shell<'_>) -> Result<(), ShellError> {
        let Self { created, changed, deleted, kept, first_kept, ephemerals } = self;
        note_ephemerals(shell, ephemerals);
        match shell.json {
            true => shell.json_line(&json!({
                "created": created, "changed": changed, "deleted": deleted, "kept": kept,
                "ephemeralsLeftOut": ephemerals.0,
            }))?,
            false => shell.note(format!("{created} created, {changed} changed, {deleted} deleted")),
        }
        match kept {
            0 => Ok(()),
            more => Err(shell.fail(
                ExitReason::Conflict,
                format!(
                    "{} there and different, the first {}; --overwrite replaces them",
                    count(more, "znode is"),
                    shown(&first_kept)
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

/// Counts what would be done.
pub(super) async fn plan(
    shell: &mut Shell<'_>,
    to: &str,
    (left, right): (Source<'_>, Source<'_>),
    what: Applying,
) -> Result<Applied, ShellError> {
    let mut applied = Applied::default();
    let mut compared =
        Comparison::new(left, right, what.with_acl).await.map_err(|error| shell.failed(&error))?;
    while let Some((below, difference)) = compared.next().await.map_err(|error| shell.failed(&error))? {
        applied.count(&placed(to, &below), &difference, what);
    }
    Ok(applied)
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
) -> Result<Applied, ShellError> {
    let mut applied = Applied::default();
    let mut compared =
        Comparison::new(left, right, what.with_acl).await.map_err(|error| shell.failed(&error))?;
    let mut writes = Writes { target, in_flight: VecDeque::new(), window: 0 };
    // Children before parents, once the whole tree is known.
    let mut surplus = Vec::new();
    while let Some((below, difference)) = compared.next().await.map_err(|error| shell.failed(&error))? {
        let path = placed(to, &below);
        if !applied.count(&path, &difference, what) {
            continue;
        }
        if what.dry_run {
            announce(shell, &path, &difference)?;
            continue;
        }
        check_acl(shell, &path, &difference, what)?;
        let write = match difference {
            Difference::OnlyLeft(znode) => writes.create(path, znode, what).await,
            Difference::Changed { left, right } => writes.change(path, left, right, what).await,
            Difference::OnlyRight => {
                surplus.push(path);
                Ok(())
            }
        };
        write.map_err(|error| shell.failed(&error))?;
    }
    for path in surplus.into_iter().rev() {
        writes.push(target.delete(path).into_future()).await.map_err(|error| shell.failed(&error))?;
    }
    writes.finish().await.map_err(|error| shell.failed(&error))?;
    applied.ephemerals = compared.ephemerals();
    Ok(applied)
}

/// Prints what would be done.
fn announce(shell: &mut Shell<'_>, path: &str, difference: &Difference) -> Result<(), ShellError> {
    let what = match difference {
        Difference::OnlyLeft(_) => "create",
        Difference::OnlyRight => "delete",
        Difference::Changed { .. } => "change",
    };
    shell.line_or_json(format!("{what} {}", shown(path)), &json!({"path": path, "would": what}))
}

/// The outcome of a write that is sent.
type Write<'c> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'c>>;

/// Writes in flight, executed in the order of sending.
struct Writes<'c> {
    target: &'c Client,
    in_flight: VecDeque<Write<'c>>,
    /// None besides the first create: a server of 3.4 answers it by closing the connection, and what is in flight is lost.
    window: usize,
}

impl<'c> Writes<'c> {
    /// Takes a write that is sent, and waits for others if there are too many.
    async fn push<T>(&mut self, write: impl Future<Output = Result<T, Error>> + 'c) -> Result<(), Error> {
        self.in_flight.push_back(Box::pin(async { write.await.map(drop) }));
        while self.in_flight.len() > self.window {
            let Some(first) = self.in_flight.pop_front() else { break };
            first.await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), Error> {
        while let Some(first) = self.in_flight.pop_front() {
            first.await?;
        }
        Ok(())
    }

    async fn create(&mut self, path: String, znode: MovedZnode, what: Applying) -> Result<(), Error> {
        let mut create = self.target.create(path, znode.data);
        if let Some(acl) = znode.acl.filter(|_| what.with_acl) {
            create = create.acl(acl);
        }
        // Only those of the root can be missing.
        self.push(create.parents().parent_acl(Acl::open()).into_future()).await?;
        self.window = WINDOW;
        Ok(())
    }

    async fn change(
        &mut self,
        path: String,
        left: MovedZnode,
        right: MovedZnode,
        what: Applying,
    ) -> Result<(), Error> {
        if left.data != right.data {
            self.push(self.target.set_data(&path, left.data).into_future()).await?;
        }
        match left.acl {
            Some(acl) if what.with_acl && right.acl.as_ref() != Some(&acl) => {
                self.push(self.target.set_acl(path, acl).into_future()).await
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an ACL whose digests the server has hidden, as it would let nobody in.
fn check_acl(
    shell: &Shell<'_>,
    path: &str,
    difference: &Difference,
    what: Applying,
) -> Result<(), ShellError> {
    let (Difference::OnlyLeft(znode) | Difference::Changed { left: znode, .. }) = difference else {
        return Ok(());
    };
    match znode.acl.as_ref().filter(|_| what.with_acl) {
        Some(acl) => check_not_masked(shell, &format!("the source of {}", shown(path)), acl),
        None => Ok(()),
    }
}

/// Refuses an ACL in which a server has replaced a hash by `x`, as it does for who may not set the ACL
/// (`PrepRequestProcessor.fixupACL`).
pub(super) fn check_not_masked(shell: &Shell<'_>, of: &str, acl: &[Acl]) -> Result<(), ShellError> {
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
