//! `zoolet data dump`: the znodes and sessions that a server would begin with.

use std::process::ExitCode;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::Tree;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::read_with;

use super::print::{Detail, ZNODE_COLUMNS, znode_line};
use super::progress::Progress;
use super::{Source, json, warn_of, zxid};
use crate::failure::Failure;
use crate::output::Lines;

/// The arguments of `zoolet data dump`.
#[derive(Debug, clap::Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    source: Source,

    /// The znodes after this transaction, such as 0x2b, instead of after the last one
    #[arg(long, value_name = "ZXID", value_parser = zxid)]
    at: Option<Zxid>,

    /// Only this znode and those below it
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true)]
    path: String,

    /// Print JSON: an object with the zxid and the sessions, and then one for each znode, each in a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    detail: Detail,
}

impl Dump {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let options = self.source.options()?;
        let recovered =
            Progress::during("reading", |report| read_with(&RealDisk, &options, self.at, report))?;
        warn_of(&recovered.report);
        let mut tree = recovered.tree;
        if let Some(at) = self.at.filter(|at| tree.last_zxid() < *at) {
            return Err(Failure::NoSuchTransaction { at, last: tree.last_zxid() });
        }
        if tree.get(&self.path).is_none() {
            return Err(Failure::NoSuchZnode { path: self.path });
        }
        let mut lines = Lines::new();
        self.header(&tree, &recovered.sessions, &mut lines)?;
        tree.begin_snapshot();
        let below = format!("{}/", self.path.trim_end_matches('/'));
        let show = if self.json { json::znode } else { znode_line };
        let (mut more, mut znodes) = (true, Vec::new());
        while more {
            more = tree.next_slice(1_000, 1 << 20, &mut |znode| znodes.push(znode));
            for znode in znodes.drain(..) {
                if *znode.path == self.path || znode.path.starts_with(&below) {
                    lines.line(&show(&znode, self.detail))?;
                }
            }
        }
        lines.end()
    }

    fn header(&self, tree: &Tree, sessions: &[(SessionId, i32)], lines: &mut Lines) -> Result<(), Failure> {
        if self.json {
            return lines.line(&json::dump_header(tree.last_zxid(), sessions));
        }
        lines.line(&format!(
            "# zxid {}, znodes {}, sessions {}",
            tree.last_zxid(),
            tree.len(),
            sessions.len()
        ))?;
        for (id, timeout) in sessions {
            lines.line(&format!("# session {id}, timeout {timeout} ms"))?;
        }
        let data = if self.detail.data { "\tdata" } else { "" };
        lines.line(&format!("# {ZNODE_COLUMNS}{data}"))
    }
}
