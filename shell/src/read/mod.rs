//! Commands that read.

mod access;
mod config;
mod data;
mod find;
mod grep;
mod list;
mod locks;
mod sessions;
mod tree;
mod usage;
mod wait;
mod watch;
mod words;

pub use access::{AclArguments, WhoAmI};
pub use config::ConfigArguments;
pub use data::{Get, StatArguments};
pub use find::Find;
pub use grep::Grep;
pub use list::Ls;
pub use locks::Locks;
pub use sessions::SessionsArguments;
pub use tree::TreeArguments;
pub(crate) use usage::descendants;
pub use usage::{ChildCount, Du};
pub use wait::ZnodeWait;
pub use watch::WatchArguments;
pub use words::Words;

use zoolet_client::{ErrorCode, path};

use crate::failure::ShellError;
use crate::shell::Shell;
use crate::walk::{Reading, Unreadable, Visit, Walk};

/// Walks a tree and does something with each znode, which may be unreadable. What is, is reported at the end.
pub(crate) async fn walk(
    shell: &mut Shell<'_>,
    root: &str,
    reading: Reading,
    each: &mut dyn FnMut(&mut Shell<'_>, &str, &Visit) -> Result<(), ShellError>,
) -> Result<(), ShellError> {
    let client = shell.client.clone();
    let mut walk = Walk::new(&client, root, reading, shell.timeout);
    let mut unreadable = Unreadable::default();
    while let Some((path, visit)) = walk.next().await.map_err(|error| absent(shell, &error))? {
        each(shell, &path, &visit)?;
        unreadable.note(visit.error);
    }
    shell.complete(unreadable)
}

/// An error of a command that needs the znode.
fn absent(shell: &Shell<'_>, error: &zoolet_client::Error) -> ShellError {
    let parent = error.context().map_or("/", |context| path::parent(context.path()));
    shell.failed_because(error, ErrorCode::NoNode, &format!("`ls {parent}` shows what is there"))
}
