//! `cp`, `mirror` and `diff`: two trees, of one cluster or of two.

use super::MovedZnode;
use super::apply::{Applying, TransferMode, apply, note_ephemerals};
use super::compare::{Comparison, Difference, Source};
use crate::address::{below, hosts, is_of_server, whole_path};
use crate::clusters::named_cluster;
use crate::diff;
use crate::failure::{ExitReason, ShellResult};
use crate::shell::{OtherServers, OtherSession, Shell};
use crate::text::{acl_entry, count, shown};
use crate::walk::Reading;
use serde_json::json;

/// Two places.
#[derive(Debug, clap::Args)]
struct Places {
    /// The tree
    from: String,
    /// The other one, by the path of its root
    to: String,
    /// The servers of the other one, if they are not the same
    #[arg(long, value_name = "ADDRESS")]
    to_server: Option<String>,
    /// Leave ACLs aside
    #[arg(long)]
    no_acl: bool,
}

impl Places {
    fn reading(&self, depth: Option<usize>) -> Reading {
        Reading { data: true, acl: !self.no_acl, depth }
    }

    /// The address of the other place.
    fn to_address(&self, shell: &Shell<'_>) -> ShellResult<String> {
        let Some(address) = &self.to_server else { return Ok(shell.server.clone()) };
        Ok(named_cluster(address)?.map_or_else(|| address.clone(), |cluster| cluster.address))
    }

    /// The session of the other place, and both roots.
    async fn open<'a>(
        &'a self,
        shell: &Shell<'_>,
        access: fn(&'a str) -> OtherServers<'a>,
    ) -> ShellResult<(OtherSession, String, String)> {
        let (from, to) = (shell.path(&self.from), shell.path(&self.to));
        let to_address = self.to_address(shell)?;
        let (whole_from, whole_to) = (whole_path(&shell.server, &from), whole_path(&to_address, &to));
        let servers = self.to_server.as_deref().map(access);
        let is_one_cluster = match servers {
            None => true,
            Some(OtherServers::Write(_)) => {
                let here = hosts(&shell.server);
                hosts(&to_address).iter().any(|to| here.contains(to))
            }
            // Nothing happens to either tree.
            Some(_) => false,
        };
        let inner = below(&whole_from, &whole_to).or(below(&whole_to, &whole_from));
        if is_one_cluster && inner.is_some() {
            return Err(shell.fail(
                ExitReason::Usage,
                format!("{whole_from} and {whole_to} are not two places: one has the other in it"),
            ));
        }
        let other = shell.open_if_other(servers).await?;
        Ok((other, from, to))
    }
}

/// The arguments of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 if they differ. Example: zoolet diff /app /app --to-server zk2:2181")]
pub struct DiffArguments {
    #[command(flatten)]
    places: Places,
}

impl DiffArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let (other, from, to) = self.places.open(shell, OtherServers::Read).await?;
        let client = shell.client.clone();
        let (reading, patience) = (self.places.reading(None), shell.timeout);
        let left = Source::live(&client, &from, reading, patience);
        let right = Source::live(&other.client, &to, reading, patience);
        let mut compared = shell.answered(Comparison::new(left, right).await)?;
        let mut differences = 0;
        while let Some((path, difference)) = shell.answered(compared.next().await)? {
            differences += 1;
            print(shell, path.as_str(), &difference)?;
        }
        note_ephemerals(shell, compared.ephemerals());
        match differences {
            0 => Ok(()),
            more => {
                Err(shell
                    .fail(ExitReason::Absent, format!("{} of {from} and {to} differ", count(more, "znode"))))
            }
        }
    }
}

/// `-` is for what only the first tree has, `+` for what only the other has, and `~` for what differs.
fn print(shell: &mut Shell<'_>, path: &str, difference: &Difference) -> ShellResult {
    let (sign, object) = match difference {
        Difference::OnlyLeft(_) => ("-", json!({"path": path, "only": "left"})),
        Difference::OnlyRight => ("+", json!({"path": path, "only": "right"})),
        Difference::Changed { left, right } => {
            ("~", json!({"path": path, "data": left.data != right.data, "acl": left.acl != right.acl}))
        }
    };
    if shell.json {
        return shell.json_line(&object);
    }
    shell.difference(&format!("{sign} {}", shown(path)))?;
    let Difference::Changed { left, right } = difference else { return Ok(()) };
    if left.data != right.data {
        shell.difference(&diff::of_data(&left.data, &right.data))?;
    }
    let entries = |znode: &MovedZnode| {
        let entries: Vec<_> = znode.acl.iter().flatten().map(acl_entry).collect();
        entries.join(",")
    };
    if left.acl == right.acl {
        Ok(())
    } else {
        shell.line(format!("  acl {} is {}", entries(left), entries(right)))
    }
}

/// The arguments of `cp`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A copy that was interrupted goes on where it stopped. Example: zoolet cp -r /app /app --to-server zk2:2181"
)]
pub struct Cp {
    #[command(flatten)]
    places: Places,
    /// Everything below it too
    #[arg(short, long)]
    recursive: bool,
    /// Replace data and ACLs of znodes that are there and differ
    #[arg(long)]
    overwrite: bool,
}

impl Cp {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let (other, from, to) = self.places.open(shell, OtherServers::Write).await?;
        let depth = if self.recursive { None } else { Some(0) };
        let (client, reading, patience) = (shell.client.clone(), self.places.reading(depth), shell.timeout);
        let left = Source::live(&client, &from, reading, patience);
        let sources = (left, Source::target(&other.client, &to, reading, patience));
        let what = Applying { overwrite: self.overwrite, delete: false, mode: TransferMode::Write };
        apply(shell, &other.client, &to, sources, what).await.and_then(|applied| applied.finish(shell))
    }
}

/// The arguments of `mirror`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet mirror --dry-run /app /app --to-server zk2:2181")]
pub struct Mirror {
    #[command(flatten)]
    places: Places,
    /// Do not ask before changing the other tree
    #[arg(short, long)]
    yes: bool,
    /// Print what would be done, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Mirror {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let to = shell.path(&self.places.to);
        if to == "/" || is_of_server(&self.places.to_address(shell)?, &to) {
            return Err(
                shell.fail(ExitReason::Usage, format!("{to} belongs to the server and is never replaced"))
            );
        }
        let (other, from, to) = self.places.open(shell, OtherServers::Write).await?;
        let (client, reading, patience) = (shell.client.clone(), self.places.reading(None), shell.timeout);
        let sources = || {
            let left = Source::live(&client, &from, reading, patience);
            (left, Source::target(&other.client, &to, reading, patience))
        };
        let what = |mode| Applying { overwrite: true, delete: true, mode };
        if self.dry_run {
            return apply(shell, &other.client, &to, sources(), what(TransferMode::Print)).await.map(drop);
        }
        if !self.yes {
            // The same comparison twice: once to count, once to change.
            let planned = apply(shell, &other.client, &to, sources(), what(TransferMode::Count)).await?;
            shell.confirm(&format!("At {}: {planned}?", shown(&to)))?;
        }
        let applied = apply(shell, &other.client, &to, sources(), what(TransferMode::Write)).await?;
        applied.finish(shell)
    }
}
