//! `locks`: who holds a lock, and who waits, whichever client they use.

use std::collections::BTreeMap;

use serde_json::json;
use zoolet_client::{Stat, path};
use zoolet_proto::contender::{self, ContenderKind};

use super::walk;
use crate::failure::ShellResult;
use crate::json;
use crate::shell::Shell;
use crate::text::{shown, time};
use crate::walk::Reading;

/// The arguments of `locks`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It knows the names of Curator, kazoo, Go, Java and Zoolet. The token is the czxid of the znode, by which a store can \
    refuse an earlier holder. Example: zoolet locks /locks"
)]
pub struct Locks {
    /// Where to look for queues
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
}

/// One in a queue.
struct Queued {
    sequence: i64,
    kind: ContenderKind,
    recipe: &'static str,
    path: String,
    stat: Stat,
}

impl Locks {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let mut queues: BTreeMap<String, Vec<Queued>> = BTreeMap::new();
        let outcome = walk(shell, &root, Reading::default(), &mut |_, path, visit| {
            let name = path::name(path);
            if let (Some(parsed), Some(recipe), Some(stat)) =
                (contender::parse(name), contender::recipe(name), visit.stat)
            {
                let contender::ContenderName { sequence, kind } = parsed;
                let queued = Queued { sequence, kind, recipe, path: path.to_owned(), stat };
                queues.entry(path::parent(path).to_owned()).or_default().push(queued);
            }
            Ok(())
        })
        .await;
        for (lock, mut queue) in queues {
            queue.sort_by_key(|queued| queued.sequence);
            if !shell.json {
                let recipe = queue.first().map_or("", |first| first.recipe);
                shell.line(format!("{}  {recipe}", shown(&lock)))?;
            }
            // Readers hold together, up to the first that excludes others.
            let readers = queue.iter().take_while(|queued| queued.kind == ContenderKind::Shared).count();
            for (at, queued) in queue.iter().enumerate() {
                let holds = at < readers || at == 0 || queued.recipe == LEASES;
                print(shell, &lock, at, queued, holds)?;
            }
        }
        outcome
    }
}

/// All leases of a semaphore are held.
const LEASES: &str = "semaphore leases";

fn print(shell: &mut Shell<'_>, lock: &str, at: usize, queued: &Queued, holds: bool) -> ShellResult {
    let Queued { recipe, path, stat, .. } = queued;
    if shell.json {
        let head = json!({"lock": lock, "recipe": recipe, "position": at + 1, "holds": holds, "token": stat.czxid.0.to_string()});
        return shell.json_line(&json::joined([head, json::znode(path, stat)]));
    }
    let state = if holds { "holds" } else { "waits" };
    let (session, since, token) = (stat.ephemeral_owner, time(stat.ctime), stat.czxid);
    let name = shown(path::name(path));
    shell.line(format!("  {:>3} {state} since {since}  session {session}  token {token}  {name}", at + 1))
}
