//! `rm`: one znode, or a tree.

use std::collections::VecDeque;
use std::future::IntoFuture as _;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep_until};
use zoolet_client::{Error, ErrorCode, ReplyFuture};

use crate::address::{below, is_of_server};
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::json;
use crate::read::{usage::descendants, walk};
use crate::shell::Shell;
use crate::text::{count, shown};
use crate::walk::{Reading, UNLIMITED, Unreadable, Walk};

/// Most deletes in flight.
const WINDOW: usize = 128;
/// How often a tree is walked again because others create znodes in it.
const ROUNDS: usize = 16;
/// Between two reports of progress.
const REPORT: Duration = Duration::from_secs(1);

/// The arguments of `rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet rm -r --dry-run /jobs/done")]
pub struct Rm {
    /// The znode
    path: String,
    /// Everything below it too
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask before deleting a tree
    #[arg(short, long)]
    yes: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Most znodes to delete in a second
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), requires = "recursive")]
    rate: Option<u32>,
    /// Only if its data has this version
    #[arg(short = 'v', long, value_name = "VERSION", conflicts_with = "recursive")]
    if_version: Option<i32>,
}

impl Rm {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        if path == "/" || is_of_server(&shell.server, &path) {
            return Err(
                shell.fail(ExitReason::Usage, format!("{path} belongs to the server and is never deleted"))
            );
        }
        if self.dry_run {
            return self.list(shell, &path).await;
        }
        if !self.recursive {
            let deleted = shell.client.delete(&path).version(self.if_version).await;
            return shell.answered_unless(deleted, ErrorCode::NotEmpty, "-r deletes what is below it too");
        }
        let below = descendants(shell, &path).await?;
        if !self.yes {
            shell.confirm(&format!("Delete {} and the {} below it?", shown(&path), count(below, "znode")))?;
        }
        let client = shell.client.clone();
        let mut removal = Removal {
            shell,
            client: &client,
            rate: self.rate,
            begun: Instant::now(),
            sent: 0,
            deleted: 0,
            total: below + 1,
            reported: Instant::now(),
        };
        let outcome = removal.run(&path).await;
        let deleted = removal.deleted;
        match shell.json {
            true => shell.json_line(&json!({"path": path, "deleted": deleted}))?,
            false => shell.note(format!("{} deleted", count(deleted, "znode"))),
        }
        outcome
    }

    async fn list(&self, shell: &mut Shell<'_>, path: &str) -> ShellResult {
        let depth = if self.recursive { None } else { Some(0) };
        let reading = Reading { depth, ..Reading::default() };
        walk(shell, path, reading, &mut |shell, path, visit| {
            shell.line_or_json(shown(path), &json::visit(path, visit))
        })
        .await
    }
}

/// A tree that is being deleted, children first.
struct Removal<'s, 'io> {
    shell: &'s mut Shell<'io>,
    client: &'s zoolet_client::Client,
    rate: Option<u32>,
    begun: Instant,
    sent: u32,
    deleted: usize,
    total: usize,
    reported: Instant,
}

/// What came of the deletes of one walk.
#[derive(Default)]
struct Round {
    in_flight: VecDeque<ReplyFuture<()>>,
    is_changed: bool,
    refused: Unreadable,
    /// Znodes whose children are not known.
    unlisted: Unreadable,
}

impl Removal<'_, '_> {
    /// Walks the tree until it is gone, as others may create znodes in it meanwhile.
    async fn run(&mut self, root: &str) -> ShellResult {
        for round in 0..ROUNDS {
            let outcome = self.round(root).await;
            let Round { is_changed, refused, unlisted, .. } = match outcome {
                // Somebody else has finished it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && round > 0 => return Ok(()),
                outcome => self.shell.answered(outcome)?,
            };
            // What may not be deleted keeps everything above it.
            if let Some((number, first)) = refused.into_first() {
                let error = self.shell.failed(&first);
                let message = format!(
                    "{} and what is above could not be deleted; the first: {error}",
                    count(number, "znode")
                );
                return Err(ShellError::new(error.reason(), message));
            }
            if !is_changed {
                return Ok(());
            }
            self.shell.complete(unlisted)?;
        }
        let message =
            format!("{} is not gone: others create znodes in it faster than they are deleted", shown(root));
        Err(self.shell.fail(ExitReason::Conflict, message))
    }

    async fn round(&mut self, root: &str) -> Result<Round, Error> {
        let mut round = Round::default();
        let mut walk = Walk::new(self.client, root, Reading::default(), self.shell.timeout);
        // The znodes above the present one. One is deleted when the walk has left what is below it.
        let mut above: Vec<String> = Vec::new();
        while let Some((path, visit)) = walk.next().await? {
            // It is deleted nevertheless, which succeeds if it has no children.
            round.unlisted.note(visit.error);
            while above.last().is_some_and(|above| below(above, &path).is_none()) {
                let Some(left) = above.pop() else { break };
                self.delete(&left, &mut round).await?;
            }
            above.push(path);
        }
        while let Some(left) = above.pop() {
            self.delete(&left, &mut round).await?;
        }
        while let Some(reply) = round.in_flight.pop_front() {
            self.receive(reply, &mut round).await?;
        }
        Ok(round)
    }

    /// Sends a delete. Deletes are executed in this order, so those of children need not be awaited.
    async fn delete(&mut self, path: &str, round: &mut Round) -> Result<(), Error> {
        while round.in_flight.len() >= WINDOW {
            let Some(reply) = round.in_flight.pop_front() else { break };
            self.receive(reply, round).await?;
        }
        if let Some(rate) = self.rate {
            sleep_until(self.begun + Duration::from_secs(1) * self.sent / rate).await;
        }
        self.sent += 1;
        round.in_flight.push_back(self.client.delete(path).timeout(UNLIMITED).into_future());
        Ok(())
    }

    async fn receive(&mut self, reply: ReplyFuture<()>, round: &mut Round) -> Result<(), Error> {
        match reply.await {
            Ok(()) => self.deleted += 1,
            Err(error) => match error.code() {
                Some(ErrorCode::NoNode) => {}
                Some(ErrorCode::NotEmpty) => round.is_changed = true,
                Some(ErrorCode::NoAuth) => round.refused.note(Some(error)),
                _ => return Err(error),
            },
        }
        if self.shell.io.is_terminal && self.reported.elapsed() >= REPORT {
            self.reported = Instant::now();
            self.shell.note(format!("{} of {}", self.deleted, self.total));
        }
        Ok(())
    }
}
