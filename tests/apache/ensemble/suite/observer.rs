//! Somebody who only wants to know who leads.

use std::sync::Arc;

use zoolet::recipes::Leader;
use zoolet::{Client, LockError};

use super::contender::{Site, Stage};

/// Follows an election until everybody has resigned for good; how many leaders it was told of.
///
/// # Panics
/// When an earlier leader is told behind a later one.
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
                    assert!(in_order, "{leader:?} told behind {last:?}");
                    (leaders, vacant, last) = (leaders + 1, false, Some(leader));
                }
                Some(Ok(None)) => vacant = true,
                Some(Err(LockError::SessionOver { .. })) | None => continue 'session,
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }
}
