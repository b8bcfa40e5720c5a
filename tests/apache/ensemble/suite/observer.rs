//! An observer of an election.

use std::sync::Arc;

use zoolet::recipes::Leader;
use zoolet::{Client, LockError};

use super::contender::{Site, Stage};

/// Follows an election until all candidates have resigned for good; returns how many leaders it saw.
///
/// # Panics
/// If an earlier leader is reported after a later one.
pub async fn observe(site: Arc<Site>) -> usize {
    let mut leaders = 0;
    let mut stage = site.stage.subscribe();
    'session: loop {
        let options = Client::options().session_timeout(site.session_timeout);
        let zk = options.connect(&site.connect).await.expect("a session");
        let election = site.recipe.election(&zk, &site.places[0]).expect("an election");
        let mut news = election.observe();
        let mut last: Option<Leader> = None;
        let mut vacant = false;
        loop {
            if vacant && *stage.borrow() == Stage::Over {
                return leaders;
            }
            let told = tokio::select! {
                told = news.next() => told,
                _ = stage.changed() => continue,
            };
            match told {
                Some(Ok(Some(leader))) => {
                    let in_order = last.as_ref().is_none_or(|last| last.token < leader.token);
                    assert!(in_order, "{leader:?} reported after {last:?}");
                    (leaders, vacant, last) = (leaders + 1, false, Some(leader));
                }
                Some(Ok(None)) => vacant = true,
                Some(Err(LockError::SessionOver { .. })) | None => continue 'session,
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }
}
