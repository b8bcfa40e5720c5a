//! `acl` and `whoami`: who may do what.

use serde_json::json;

use super::{found, walk};
use crate::failure::ShellResult;
use crate::json;
use crate::shell::Shell;
use crate::text::{acl_entry, shown};
use crate::walk::Reading;

/// The arguments of `acl`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet acl -R /app")]
pub struct AclArguments {
    /// The znode
    path: String,
    /// Print those of everything below too
    #[arg(short = 'R', long)]
    recursive: bool,
}

impl AclArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        if !self.recursive {
            let (acl, stat) = found(shell, shell.client.get_acl(&root).await)?;
            if shell.json {
                return shell
                    .json_line(&json::joined([json::znode(&root, &stat), json!({"acl": json::acl(&acl)})]));
            }
            return acl.iter().try_for_each(|entry| shell.line(acl_entry(entry)));
        }
        walk(shell, &root, Reading { acl: true, ..Reading::default() }, &mut |shell, path, visit| {
            if shell.json {
                let acl = visit.acl.as_ref().map(|acl| json!({"acl": json::acl(acl)})).unwrap_or_default();
                return shell.json_line(&json::joined([json::visit(path, visit), acl]));
            }
            let Some(acl) = &visit.acl else { return Ok(()) };
            let entries: Vec<_> = acl.iter().map(acl_entry).collect();
            shell.line(format!("{} {}", entries.join(","), shown(path)))
        })
        .await
    }
}

/// The arguments of `whoami`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ZOOLET_AUTH=digest:bob:secret zoolet whoami")]
pub struct WhoAmI {}

impl WhoAmI {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let identities = shell.answered(shell.client.who_am_i().await)?;
        for identity in identities {
            let (scheme, user) = (identity.scheme, identity.user);
            let line = format!("{scheme}:{}", shown(&user));
            shell.line_or_json(line, &json!({"scheme": scheme, "user": user}))?;
        }
        Ok(())
    }
}
