//! `du` and `child-count`: how much is below a znode.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::json;
use zoolet_client::{ErrorCode, path};

use super::{found, walk};
use crate::failure::ShellResult;
use crate::shell::Shell;
use crate::text::shown;
use crate::walk::{Reading, WalkPath, depth_below};

/// The arguments of `du`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet du --sort size / | head")]
pub struct Du {
    /// The znode
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// How many levels to show; deeper ones are added up
    #[arg(long, value_name = "LEVELS", default_value_t = 1)]
    depth: usize,
    /// What comes first: paths in order, the most bytes, or the most znodes
    #[arg(long, value_name = "BY", default_value = "name")]
    sort: Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Measure {
    Name,
    Size,
    Znodes,
}

#[derive(Debug, Default, Clone, Copy)]
struct Total {
    bytes: u64,
    znodes: u64,
}

impl Du {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let mut totals: BTreeMap<WalkPath, Total> = BTreeMap::new();
        let outcome = walk(shell, &root, Reading::default(), &mut |_, path, visit| {
            let bytes = visit.stat.and_then(|stat| u64::try_from(stat.data_length).ok()).unwrap_or(0);
            let mut at = path;
            loop {
                let depth = depth_below(&root, at);
                if depth <= self.depth {
                    let total = totals.entry(WalkPath::new(at)).or_default();
                    total.bytes += bytes;
                    total.znodes += 1;
                }
                if depth == 0 {
                    return Ok(());
                }
                at = path::parent(at);
            }
        })
        .await;
        let mut totals: Vec<_> = totals.into_iter().collect();
        match self.sort {
            Measure::Name => {}
            Measure::Size => totals.sort_by_key(|(_, total)| std::cmp::Reverse(total.bytes)),
            Measure::Znodes => totals.sort_by_key(|(_, total)| std::cmp::Reverse(total.znodes)),
        }
        for (path, Total { bytes, znodes }) in totals {
            let path = path.as_str();
            let line = format!("{bytes:>12} {znodes:>8}  {}", shown(path));
            shell.line_or_json(line, &json!({"path": path, "bytes": bytes, "znodes": znodes}))?;
        }
        outcome
    }
}

/// The arguments of `child-count`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet child-count /jobs")]
pub struct ChildCount {
    /// The znode
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
}

impl ChildCount {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let count = descendants(shell, &path).await?;
        shell.line_or_json(count.to_string(), &json!({"path": path, "descendants": count}))
    }
}

/// The number of znodes below one. Servers before 3.6 cannot count, so there the tree is walked.
pub(crate) async fn descendants(shell: &mut Shell<'_>, path: &str) -> ShellResult<usize> {
    match shell.client.get_all_children_number(path).await {
        Err(error) if error.code() == Some(ErrorCode::Unimplemented) => {}
        counted => return found(shell, counted),
    }
    let mut count = 0;
    walk(shell, path, Reading::default(), &mut |_, visited, _| {
        count += usize::from(visited != path);
        Ok(())
    })
    .await?;
    Ok(count)
}
