//! `tree`: a drawing of a znode and all below it.

use super::walk;
use crate::failure::ShellResult;
use crate::json;
use crate::shell::Shell;
use crate::text::count;
use crate::walk::{Reading, Visit, depth_below};

/// The arguments of `tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet tree --depth 2 /")]
pub struct TreeArguments {
    /// The znode
    #[arg(default_value = ".", hide_default_value = true)]
    path: String,
    /// How many levels to show
    #[arg(long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Also print the bytes of each, and which are ephemeral
    #[arg(short, long)]
    long: bool,
}

impl TreeArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let reading = Reading { depth: self.depth, ..Reading::default() };
        // Of each znode above the present one below the root, whether it is the last in its listing.
        let mut above: Vec<bool> = Vec::new();
        walk(shell, &root, reading, &mut |shell, path, visit| {
            if shell.json {
                return shell.json_line(&json::visit(path, visit));
            }
            let depth = depth_below(&root, path);
            if depth == 0 {
                let name = shell.znode_name(path, visit.stat);
                return shell.line(name + &self.detail(visit));
            }
            above.truncate(depth - 1);
            let mut line: String =
                above.iter().map(|is_last| if *is_last { "    " } else { "│   " }).collect();
            above.push(visit.is_last);
            line.push_str(if visit.is_last { "└── " } else { "├── " });
            line.push_str(&shell.znode_name(zoolet_client::path::name(path), visit.stat));
            line.push_str(&self.detail(visit));
            shell.line(line)
        })
        .await
    }

    fn detail(&self, visit: &Visit) -> String {
        match visit.stat.filter(|_| self.long) {
            Some(stat) => {
                let bytes = count(usize::try_from(stat.data_length).unwrap_or(0), "byte");
                let ephemeral = if stat.ephemeral_owner.0 == 0 { "" } else { ", ephemeral" };
                format!("  ({bytes}{ephemeral})")
            }
            None => String::new(),
        }
    }
}
