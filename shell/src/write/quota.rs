//! `quota` and `set-quota`: limits of a tree, which servers keep as znodes below `/zookeeper/quota`.

use serde_json::json;
use zoolet_client::{ErrorCode, path};

use crate::address::chroot;
use crate::failure::{ExitReason, ShellResult};
use crate::shell::Shell;
use crate::text::shown;
use crate::walk::{Reading, Walk};

const QUOTA: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The arguments of `quota`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet quota /app")]
pub struct Quota {
    /// The tree
    path: String,
}

/// Limits; -1 is none. Soft ones are logged by the servers, hard ones are kept if they are configured for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    count: i64,
    bytes: i64,
    hard_count: i64,
    hard_bytes: i64,
}

impl Limits {
    const NONE: Self = Self { count: -1, bytes: -1, hard_count: -1, hard_bytes: -1 };

    fn parse(text: &[u8]) -> Self {
        let of = |key| number(text, key).unwrap_or(-1);
        Self {
            count: of("count"),
            bytes: of("bytes"),
            hard_count: of("countHardLimit"),
            hard_bytes: of("byteHardLimit"),
        }
    }

    /// As zkCli writes it (`StatsTrack.toString`); servers before 3.7 read the part before the semicolon.
    fn text(self) -> String {
        let Self { count, bytes, hard_count, hard_bytes } = self;
        match (hard_count, hard_bytes) {
            (-1, -1) => format!("count={count},bytes={bytes}"),
            _ => {
                format!("count={count},bytes={bytes}=;byteHardLimit={hard_bytes};countHardLimit={hard_count}")
            }
        }
    }
}

fn number(text: &[u8], key: &str) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split([',', ';']).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        (name.trim() == key).then(|| value.trim_end_matches('=').trim().parse().ok())?
    })
}

/// Quotas are outside of every chroot, and the root has none.
fn check(shell: &Shell<'_>, path: &str) -> ShellResult {
    let message = if !chroot(&shell.server).trim_end_matches('/').is_empty() {
        "quotas are outside of the chroot: give the address without it"
    } else if path == "/" {
        "the root has no quota: name a znode below it"
    } else {
        return Ok(());
    };
    Err(shell.fail(ExitReason::Usage, message))
}

impl Quota {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        check(shell, &path)?;
        let read = async |name| shell.client.get_data(format!("{QUOTA}{path}/{name}")).await;
        let (limits, usage) = (read(LIMITS).await, read(STATS).await);
        let limits = limits.map_err(|error| match error.code() {
            Some(ErrorCode::NoNode) => {
                shell.fail(ExitReason::Absent, format!("{} has no quota; `set-quota` sets one", shown(&path)))
            }
            _ => shell.failed(&error),
        })?;
        let usage = usage.map(|(usage, _)| usage).unwrap_or_default();
        let Limits { count, bytes, hard_count, hard_bytes } = Limits::parse(&limits.0);
        let (used_count, used_bytes) =
            (number(&usage, "count").unwrap_or(-1), number(&usage, "bytes").unwrap_or(-1));
        if shell.json {
            return shell.json_line(&json!({
                "path": path, "znodes": used_count, "bytes": used_bytes, "znodesLimit": count, "bytesLimit": bytes,
                "znodesHardLimit": hard_count, "bytesHardLimit": hard_bytes,
            }));
        }
        let line = |used: i64, soft: i64, hard: i64| {
            let limit = |limit: i64| if limit < 0 { "none".to_owned() } else { limit.to_string() };
            format!("{used}, limit {}, hard limit {}", limit(soft), limit(hard))
        };
        shell.line(format!("znodes: {}", line(used_count, count, hard_count)))?;
        shell.line(format!("bytes:  {}", line(used_bytes, bytes, hard_bytes)))
    }
}

/// The arguments of `set-quota`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Limits that are not given stay; -1 is none. Servers keep hard limits with `enforceQuota`, and log the others. \
    Example: zoolet set-quota /app --count 10000 --hard-bytes 100000000"
)]
pub struct SetQuota {
    /// The tree
    path: String,
    /// Znodes, by a warning in the log
    #[arg(long, value_name = "ZNODES", allow_negative_numbers = true)]
    count: Option<i64>,
    /// Bytes of data, by a warning in the log
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    bytes: Option<i64>,
    /// Znodes, by a refusal
    #[arg(long, value_name = "ZNODES", allow_negative_numbers = true)]
    hard_count: Option<i64>,
    /// Bytes of data, by a refusal
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    hard_bytes: Option<i64>,
    /// Remove the quota
    #[arg(long, conflicts_with_all = ["count", "bytes", "hard_count", "hard_bytes"])]
    delete: bool,
}

impl SetQuota {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        check(shell, &path)?;
        let top = format!("{QUOTA}{path}");
        let client = shell.client.clone();
        if self.delete {
            let both = client.multi().delete(format!("{top}/{LIMITS}")).delete(format!("{top}/{STATS}"));
            shell.answered(both.commit().await)?;
            // As zkCli does: what has nothing below it any longer goes too.
            let mut empty = &*top;
            while empty != QUOTA && client.delete(empty).await.is_ok() {
                empty = path::parent(empty);
            }
            return Ok(());
        }
        shell.stat(&path).await?;
        let (old, version) = match client.get_data(format!("{top}/{LIMITS}")).await {
            Ok((old, stat)) => (Limits::parse(&old), Some(stat.version)),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => (Limits::NONE, None),
            Err(error) => return Err(shell.failed(&error)),
        };
        let limits = Limits {
            count: self.count.unwrap_or(old.count),
            bytes: self.bytes.unwrap_or(old.bytes),
            hard_count: self.hard_count.unwrap_or(old.hard_count),
            hard_bytes: self.hard_bytes.unwrap_or(old.hard_bytes),
        };
        if version.is_some() {
            let set = client.set_data(format!("{top}/{LIMITS}"), limits.text()).version(version);
            return shell.answered(set.await).map(drop);
        }
        self.refuse_nested(shell, &path).await?;
        match client.create(&top, "").parents().await {
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => return Err(shell.failed(&error)),
            _ => {}
        }
        // The statistics come second: their create makes the server count the tree.
        let both = client
            .multi()
            .create(format!("{top}/{LIMITS}"), limits.text())
            .create(format!("{top}/{STATS}"), "count=0,bytes=0");
        shell.answered(both.commit().await).map(drop)
    }

    /// Servers count a znode for one quota only, the nearest above it, so zkCli refuses one inside another too.
    async fn refuse_nested(&self, shell: &Shell<'_>, path: &str) -> ShellResult {
        let mut above = path::parent(path);
        while above != "/" {
            let limits = format!("{QUOTA}{above}/{LIMITS}");
            if shell.answered(shell.client.exists(limits).await)?.is_some() {
                let message = format!("{} above it has a quota, which counts all below", shown(above));
                return Err(shell.fail(ExitReason::Conflict, message));
            }
            above = path::parent(above);
        }
        let top = format!("{QUOTA}{path}");
        let mut below = Walk::new(&shell.client, &top, Reading::default(), shell.timeout);
        loop {
            match below.next().await {
                Ok(Some((znode, _))) if path::name(&znode) == LIMITS => {
                    let message = format!("something below {} has a quota", shown(path));
                    return Err(shell.fail(ExitReason::Conflict, message));
                }
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => return Err(shell.failed(&error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written() {
        for limits in [Limits::NONE, Limits { count: 5, bytes: -1, hard_count: -1, hard_bytes: 100 }] {
            assert_eq!(Limits::parse(limits.text().as_bytes()), limits);
        }
        assert_eq!(Limits::parse(b"count=5,bytes=-1=;byteHardLimit=100;countHardLimit=-1").hard_bytes, 100);
    }
}
