//! `ls`: the children of a znode.

use std::collections::HashMap;

use clap::ValueEnum;
use zoolet_client::{Stat, path};

use super::{found, walk};
use crate::failure::ShellResult;
use crate::json;
use crate::shell::Shell;
use crate::text::time;
use crate::walk::{Reading, Visit, Walk};

/// The arguments of `ls`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet ls -l --sort time /jobs")]
pub struct Ls {
    /// The znode
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// Also print what each is: e for ephemeral, the versions of data, children, bytes, when data was set
    #[arg(short, long)]
    long: bool,
    /// List everything below, with whole paths
    #[arg(short = 'R', long)]
    recursive: bool,
    /// What comes first: names in order, the latest change of data, or the most bytes
    #[arg(long, value_name = "BY", default_value = "name")]
    sort: SortBy,
    /// The other way round
    #[arg(long)]
    reverse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Name,
    Time,
    Size,
    Children,
}

impl Ls {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let is_in_order = self.sort == SortBy::Name && !self.reverse;
        if is_in_order && !self.long && !self.recursive && !shell.json {
            let (mut names, _) = found(shell, shell.client.get_children(&root).await)?;
            names.sort_unstable();
            let stats =
                if shell.is_coloured() { stats_of_children(shell, &root).await } else { HashMap::new() };
            return names.iter().try_for_each(|name| {
                let name = shell.znode_name(name, stats.get(name).copied());
                shell.line(name)
            });
        }
        let depth = if self.recursive { None } else { Some(1) };
        let reading = Reading { depth, ..Reading::default() };
        let mut listed = Vec::new();
        let outcome = walk(shell, &root, reading, &mut |shell, path, visit| {
            if path == root && !self.recursive {
                return Ok(());
            }
            match is_in_order {
                true => self.print(shell, path, visit),
                false => {
                    listed.push((path.to_owned(), visit.clone()));
                    Ok(())
                }
            }
        })
        .await;
        self.sort(&mut listed);
        listed.iter().try_for_each(|(path, visit)| self.print(shell, path, visit))?;
        outcome
    }

    fn sort(&self, listed: &mut [(String, Visit)]) {
        let of = |visit: &Visit| visit.stat.unwrap_or_default();
        match self.sort {
            SortBy::Name => {}
            SortBy::Time => listed.sort_by_key(|(_, visit)| -of(visit).mtime),
            SortBy::Size => listed.sort_by_key(|(_, visit)| -of(visit).data_length),
            SortBy::Children => listed.sort_by_key(|(_, visit)| -of(visit).num_children),
        }
        if self.reverse {
            listed.reverse();
        }
    }

    fn print(&self, shell: &mut Shell<'_>, path: &str, visit: &Visit) -> ShellResult {
        if shell.json {
            return shell.json_line(&json::visit(path, visit));
        }
        let name = shell.znode_name(if self.recursive { path } else { path::name(path) }, visit.stat);
        match visit.stat.filter(|_| self.long) {
            None => shell.line(name),
            Some(stat) => shell.line(format!(
                "{} {:>6} {:>8} {:>9}  {}  {name}",
                if stat.ephemeral_owner.0 == 0 { '-' } else { 'e' },
                stat.version,
                stat.num_children,
                stat.data_length,
                time(stat.mtime),
            )),
        }
    }
}

/// What the children of a znode are, for the colours of their names. Those that cannot be read have none.
async fn stats_of_children(shell: &Shell<'_>, root: &str) -> HashMap<String, Stat> {
    let client = shell.client.clone();
    let mut walk = Walk::new(&client, root, Reading { depth: Some(1), ..Reading::default() }, shell.timeout);
    let mut stats = HashMap::new();
    while let Ok(Some((path, visit))) = walk.next().await {
        stats.extend(visit.stat.map(|stat| (path::name(&path).to_owned(), stat)));
    }
    stats
}
