//! `watch`: the changes of a znode or a tree, as they happen.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use zoolet_client::{Stat, Zxid};
use zoolet_recipes::{CacheChange, Entry};

use crate::colour;
use crate::diff;
use crate::failure::ShellResult;
use crate::json;
use crate::reach::{cache_failed, open_cache};
use crate::shell::{OtherServers, Shell};
use crate::text::{count, shown, time};

/// The arguments of `watch`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: zoolet watch -R /config\nExample: zoolet watch --json --count 1 /config | jq .data"
)]
pub struct WatchArguments {
    /// The znode, which need not exist
    path: String,
    /// Watch everything below too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// How many levels below to watch
    #[arg(long, value_name = "LEVELS", conflicts_with = "recursive")]
    depth: Option<usize>,
    /// Do not print what changed in the data
    #[arg(long)]
    no_data: bool,
    /// End after this number of changes
    #[arg(long, value_name = "CHANGES")]
    count: Option<usize>,
}

impl WatchArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let sessions = shell.open_sessions(OtherServers::Same)?;
        let depth = if self.recursive { usize::MAX } else { self.depth.unwrap_or(0) };
        let cache = open_cache(shell, &sessions, &root, depth).await?;
        let mut changes = cache.changes_since(&cache.snapshot());
        let znodes = count(changes.snapshot().len(), "znode");
        let as_of = changes.snapshot().as_of();
        shell.note(format!("watching {znodes} at {}, as of zxid {as_of}; Ctrl-C ends it", shown(&root)));
        let mut seen = 0;
        while self.count.is_none_or(|count| seen < count) {
            let Some(change) = changes.next().await else { break };
            seen += usize::from(change.path().is_some());
            self.print(shell, change)?;
            shell.flush()?;
        }
        drop(changes);
        sessions.close().await;
        Ok(())
    }

    fn print(&self, shell: &mut Shell<'_>, change: CacheChange<Bytes>) -> ShellResult {
        match change {
            CacheChange::Created(new) => self.znode(shell, "created", None, &new),
            CacheChange::Changed { old, new } => self.znode(shell, "changed", Some(&old), &new),
            CacheChange::Deleted(old) => self.znode(shell, "deleted", Some(&old), &old),
            CacheChange::Unreadable { path, reason } => {
                let reason = format!("{reason:?}");
                let line = format!("unreadable {}: {reason}", shown(&path));
                shell.line_or_json(line, &json!({"event": "unreadable", "path": &*path, "reason": reason}))
            }
            CacheChange::Stale { as_of } => {
                let note = "the connection is lost; changes come when it is back";
                about_all(shell, "stale", Some(as_of), note)
            }
            CacheChange::Restored { as_of } => {
                let note = "the connection is back; nothing is missing but values in between";
                about_all(shell, "restored", Some(as_of), note)
            }
            CacheChange::Reset => {
                about_all(shell, "reset", None, "the servers went back to an older state; all of it follows")
            }
            CacheChange::Ended(error) => Err(cache_failed(shell, &error)),
            _ => Ok(()),
        }
    }

    fn znode(
        &self,
        shell: &mut Shell<'_>,
        event: &str,
        old: Option<&Arc<Entry<Bytes>>>,
        new: &Arc<Entry<Bytes>>,
    ) -> ShellResult {
        let is_deleted = event == "deleted";
        if shell.json {
            let data = if self.no_data { Value::Null } else { json::data(&data(new)) };
            return shell.json_line(&json::joined([
                json!({"event": event}),
                json::znode(new.path(), new.stat()),
                data,
            ]));
        }
        let path = shown(new.path());
        // A deletion has no time of its own.
        match is_deleted {
            true => shell.styled_line(colour::of_event(event), format!("deleted {path}"))?,
            false => {
                let Stat { mtime, version, mzxid, .. } = *new.stat();
                let line = format!("{event} {path}  version {version}, zxid {mzxid}, {}", time(mtime));
                shell.styled_line(colour::of_event(event), line)?;
            }
        }
        if self.no_data || is_deleted {
            return Ok(());
        }
        let before = old.map(data).unwrap_or_default();
        shell.difference(&diff::of_data(&before, &data(new)))
    }
}

fn data(entry: &Arc<Entry<Bytes>>) -> Bytes {
    entry.value().cloned().unwrap_or_default()
}

/// What is not about one znode: an object among others, or a note.
fn about_all(shell: &mut Shell<'_>, event: &str, as_of: Option<Zxid>, note: &str) -> ShellResult {
    if shell.json {
        let as_of = as_of.map(|as_of| json!({"asOf": as_of.to_string()})).unwrap_or_default();
        return shell.json_line(&json::joined([json!({"event": event}), as_of]));
    }
    shell.note(note);
    Ok(())
}
