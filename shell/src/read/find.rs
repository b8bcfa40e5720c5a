//! `find`: the paths of a tree that match.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glob::Pattern;
use regex::Regex;
use zoolet_client::{SessionId, Stat, path};

use super::walk;
use crate::connect::interval;
use crate::failure::ShellResult;
use crate::json;
use crate::shell::Shell;
use crate::walk::{Reading, Visit};

/// The arguments of `find`. A znode must match all of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet find /jobs --name 'job-*' --larger 1000 --newer 1h")]
pub struct Find {
    /// Where to begin
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// Whose name matches: * and ? as in a shell
    #[arg(long, value_name = "GLOB")]
    name: Option<Pattern>,
    /// Whose path matches a regular expression
    #[arg(long, value_name = "REGEX")]
    regex: Option<Regex>,
    /// How many levels below
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Ephemerals
    #[arg(long)]
    ephemeral: bool,
    /// Ephemerals of a session, such as 0x100000a2b3c0001
    #[arg(long, value_name = "SESSION", value_parser = session)]
    owner: Option<SessionId>,
    /// Znodes without children
    #[arg(long)]
    leaf: bool,
    /// Znodes without data
    #[arg(long)]
    empty: bool,
    /// With more bytes of data
    #[arg(long, value_name = "BYTES")]
    larger: Option<i32>,
    /// Whose data was set in this time, such as 1h
    #[arg(long, value_name = "TIME", value_parser = interval)]
    newer: Option<Duration>,
    /// Whose data was not set in this time
    #[arg(long, value_name = "TIME", value_parser = interval)]
    older: Option<Duration>,
}

/// A session id as it is printed.
fn session(text: &str) -> Result<SessionId, String> {
    let hex = text.strip_prefix("0x").unwrap_or(text);
    let id = u64::from_str_radix(hex, 16)
        .map_err(|_| "must be a session id as it is printed, such as 0x100000a2b3c0001")?;
    Ok(SessionId(i64::from_ne_bytes(id.to_ne_bytes())))
}

impl Find {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let reading = Reading { depth: self.depth, ..Reading::default() };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        walk(shell, &root, reading, &mut |shell, path, visit| {
            if !self.matches(path, visit, now) {
                return Ok(());
            }
            if shell.json {
                return shell.json_line(&json::visit(path, visit));
            }
            let name = shell.znode_name(path, visit.stat);
            shell.line(name)
        })
        .await
    }

    fn matches(&self, path: &str, visit: &Visit, now: Duration) -> bool {
        let by_path = self.name.as_ref().is_none_or(|name| name.matches(path::name(path)))
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(path));
        // A znode that could not be read matches nothing that its Stat would show.
        let is = |test: &dyn Fn(Stat) -> bool| visit.stat.is_some_and(test);
        let age = |stat: Stat| now.saturating_sub(Duration::from_millis(stat.mtime.try_into().unwrap_or(0)));
        by_path
            && (!self.ephemeral || is(&|stat| stat.ephemeral_owner.0 != 0))
            && self.owner.is_none_or(|owner| is(&|stat| stat.ephemeral_owner == owner))
            && (!self.leaf || is(&|stat| stat.num_children == 0))
            && (!self.empty || is(&|stat| stat.data_length == 0))
            && self.larger.is_none_or(|than| is(&|stat| stat.data_length > than))
            && self.newer.is_none_or(|time| is(&|stat| age(stat) <= time))
            && self.older.is_none_or(|time| is(&|stat| age(stat) > time))
    }
}
