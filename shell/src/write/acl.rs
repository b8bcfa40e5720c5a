//! `set-acl`: who may do what with a znode, or with a tree.

use zoolet_client::ErrorCode;

use super::data::AclList;
use crate::failure::ShellResult;
use crate::shell::Shell;
use crate::text::{count, shown};
use crate::walk::{Reading, UNLIMITED, Unreadable, Walk};

/// The arguments of `set-acl`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet set-acl -R /app auth::cdrwa,world:anyone:r")]
pub struct SetAclArguments {
    /// The znode
    path: String,
    /// SCHEME:ID:PERMS, with commas in between; auth::cdrwa is everybody that this session is
    #[arg(value_parser = AclList::parse)]
    acl: AclList,
    /// Everything below it too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Only if its ACL has this version, the aversion of `stat`
    #[arg(short = 'v', long, value_name = "VERSION", conflicts_with = "recursive")]
    if_version: Option<i32>,
}

impl SetAclArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let acl = self.acl.checked(shell)?;
        if !self.recursive {
            let stat = shell.answered(shell.client.set_acl(&root, acl).version(self.if_version).await)?;
            return shell.written(&root, &stat);
        }
        let client = shell.client.clone();
        let mut walk = Walk::new(&client, &root, Reading::default(), shell.timeout);
        let (mut refused, mut changed) = (Unreadable::default(), 0);
        while let Some((path, mut visit)) = shell.answered(walk.next().await)? {
            refused.note(visit.error.take());
            match client.set_acl(&path, acl.clone()).timeout(UNLIMITED).await {
                Ok(stat) => {
                    changed += 1;
                    shell.written(&path, &stat)?;
                }
                Err(error) if error.code() == Some(ErrorCode::NoAuth) => refused.note(Some(error)),
                // It is gone.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => return Err(shell.failed(&error)),
            }
        }
        shell.note(format!("{} of {} changed", count(changed, "ACL"), shown(&root)));
        shell.complete(refused)
    }
}
