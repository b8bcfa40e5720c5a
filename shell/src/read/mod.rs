//! Commands that read.

pub(crate) mod access;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod find;
pub(crate) mod grep;
pub(crate) mod list;
pub(crate) mod locks;
pub(crate) mod sessions;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod words;

use zoolet_client::{Error, ErrorCode, path};

use crate::failure::ShellResult;
use crate::shell::Shell;
use crate::walk::{Reading, Unreadable, Visit, Walk};

/// Walks a tree and does something with each znode, which may be unreadable. What is, is reported at the end.
pub(crate) async fn walk(
    shell: &mut Shell<'_>,
    root: &str,
    reading: Reading,
    each: &mut dyn FnMut(&mut Shell<'_>, &str, &Visit) -> ShellResult,
) -> ShellResult {
    let client = shell.client.clone();
    let mut walk = Walk::new(&client, root, reading, shell.timeout);
    let mut unreadable = Unreadable::default();
    while let Some((path, visit)) = found(shell, walk.next().await)? {
        each(shell, &path, &visit)?;
        unreadable.note(visit.error);
    }
    shell.complete(unreadable)
}

/// The outcome of a request for a znode that the command needs.
fn found<T>(shell: &Shell<'_>, outcome: Result<T, Error>) -> ShellResult<T> {
    outcome.or_else(|error| {
        let parent = error.context().map_or("/", |context| path::parent(context.path()));
        let hint = format!("`ls {parent}` shows what is there");
        shell.answered_unless(Err(error), ErrorCode::NoNode, &hint)
    })
}
