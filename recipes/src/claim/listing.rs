//! Reads the queue of a directory: its listing, and the transactions of the znodes in it where their numbers do not suffice.

use zoolet_client::Stat;

use super::order::{self, DirPosition, LockMode, QueuedNode};
use crate::config::LockConfig;
use crate::error::LockError;
use crate::path::child;

/// The contenders in `dir`, first in line first.
pub(crate) async fn queue(config: &LockConfig, dir: &str) -> Result<Vec<QueuedNode>, LockError> {
    ordered(config, dir, config.list(dir).await?).await
}

/// The contenders among `names`, the children of `dir`, first in line first.
pub(crate) async fn ordered(
    config: &LockConfig,
    dir: &str,
    names: Vec<String>,
) -> Result<Vec<QueuedNode>, LockError> {
    let mut queue = order::contenders(config.foreign, dir, names)?;
    if order::sort(&mut queue) {
        return Ok(queue);
    }
    read_czxids(config, dir, &mut queue).await?;
    // Those without a number that tells the time may be gone by now.
    Ok(if order::sort(&mut queue) { queue } else { order::ranked(queue) })
}

/// Finds the contender with these `prefixes` among `names`, the children of `dir`; see [`order::find`].
pub(super) async fn find(
    config: &LockConfig,
    dir: &str,
    names: Vec<String>,
    prefixes: &[&str],
    mode: LockMode,
    companion: Option<&str>,
) -> Result<Option<DirPosition>, LockError> {
    let mut queue = order::contenders(config.foreign, dir, names)?;
    if !order::numbers_decide(&queue, prefixes) {
        read_czxids(config, dir, &mut queue).await?;
    }
    Ok(order::find(&queue, prefixes, mode, companion))
}

/// Adds the transactions, and removes contenders that are gone.
async fn read_czxids(config: &LockConfig, dir: &str, queue: &mut Vec<QueuedNode>) -> Result<(), LockError> {
    let exists = |queued: &QueuedNode| config.client.exists(child(dir, &queued.name)).into_future();
    let sent: Vec<_> = queue.iter().map(exists).collect();
    let mut stats: Vec<Option<Stat>> = Vec::with_capacity(sent.len());
    for (sent, queued) in sent.into_iter().zip(queue.iter()) {
        let stat = config.ask_sent(sent, || exists(queued)).await;
        stats.push(stat.map_err(|error| config.error(error))?);
    }
    let mut stats = stats.into_iter();
    queue.retain_mut(|queued| {
        let stat = stats.next().flatten();
        queued.czxid = stat.as_ref().map_or(0, |stat| stat.czxid.0);
        stat.is_some()
    });
    Ok(())
}
