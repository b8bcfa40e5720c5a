//! `import`: the znodes of a file.

use std::path::PathBuf;

use super::apply::{Applying, TransferMode, apply};
use super::compare::Source;
use super::format::read;
use crate::failure::{ExitReason, ShellResult, read_file};
use crate::shell::Shell;
use crate::walk::Reading;

/// The arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It reads files of `export`, of zk-shell and of ZooNavigator. An import that was interrupted goes on where it \
    stopped. Example: zoolet import app.json /app"
)]
pub struct Import {
    /// The file; - for standard input
    file: PathBuf,
    /// Where its root is placed
    path: String,
    /// Replace data and ACLs of znodes that are there and differ
    #[arg(long)]
    overwrite: bool,
    /// Give everybody all rights, whatever the file says
    #[arg(long)]
    no_acl: bool,
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Import {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let to = shell.path(&self.path);
        let place = self.file.display().to_string();
        let text = match &*place {
            "-" => shell.read_input("name the file").await?,
            _ => read_file(&self.file)?.into(),
        };
        let mut znodes =
            read(&text).map_err(|why| shell.fail(ExitReason::Usage, format!("{place}: {why}")))?;
        if self.no_acl {
            znodes.values_mut().for_each(|znode| znode.acl = None);
        }
        let client = shell.client.clone();
        let reading = Reading { data: true, acl: !self.no_acl, depth: None };
        let sources = (Source::file(znodes), Source::target(&client, &to, reading, shell.timeout));
        let mode = if self.dry_run { TransferMode::Print } else { TransferMode::Write };
        let what = Applying { overwrite: self.overwrite, delete: false, mode };
        let applied = apply(shell, &client, &to, sources, what).await?;
        if self.dry_run { applied.check_kept(shell) } else { applied.finish(shell) }
    }
}
