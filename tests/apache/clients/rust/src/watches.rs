//! One-shot, persistent and recursive watches.

use zookeeper_client::{AddWatchMode, Client, EventType, OneshotWatcher, PersistentWatcher};

use crate::checks::{check, equal, hold, in_time, Outcome};
use crate::PERSISTENT;

/// The watch reports this.
pub async fn told(watcher: OneshotWatcher, kind: EventType, path: &str) -> Outcome {
    let event = in_time("the event", watcher.changed()).await?;
    equal((event.event_type, event.path.as_str()), (kind, path))?;
    Ok(())
}

/// The watch reports this next, changes of the session left out.
pub async fn next(watcher: &mut PersistentWatcher, kind: EventType, path: &str) -> Outcome {
    loop {
        let event = in_time("the event", watcher.changed()).await?;
        if event.event_type != EventType::Session {
            hold("the event has a zxid", event.zxid > 0)?;
            return equal((event.event_type, event.path.as_str()), (kind, path));
        }
    }
}

pub async fn run(client: &Client, other: &Client) -> Outcome {
    other.create("/w", b"", PERSISTENT).await?;
    check("watch: data changed, deleted", data(client, other)).await;
    check("watch: exists, created", exists(client, other)).await;
    check("watch: children", children(client, other)).await;
    check("persistent watch: znode and its children, again and again", persistent(client, other)).await;
    check("persistent recursive watch: all below", recursive(client, other)).await;
    check("watch: dropped ones do not disturb others", dropped(client, other)).await;
    Ok(())
}

async fn data(client: &Client, other: &Client) -> Outcome {
    let (_, _, watcher) = client.get_and_watch_data("/w").await?;
    other.set_data("/w", b"1", None).await?;
    told(watcher, EventType::NodeDataChanged, "/w").await?;
    let (_, _, watcher) = client.get_and_watch_data("/w").await?;
    other.delete("/w", None).await?;
    told(watcher, EventType::NodeDeleted, "/w").await
}

async fn exists(client: &Client, other: &Client) -> Outcome {
    let (stat, watcher) = client.check_and_watch_stat("/w").await?;
    equal(stat, None)?;
    other.create("/w", b"", PERSISTENT).await?;
    told(watcher, EventType::NodeCreated, "/w").await
}

async fn children(client: &Client, other: &Client) -> Outcome {
    let (_, watcher) = client.list_and_watch_children("/w").await?;
    other.create("/w/c", b"", PERSISTENT).await?;
    told(watcher, EventType::NodeChildrenChanged, "/w").await?;
    let (_, _, watcher) = client.get_and_watch_children("/w").await?;
    other.delete("/w/c", None).await?;
    told(watcher, EventType::NodeChildrenChanged, "/w").await
}

async fn persistent(client: &Client, other: &Client) -> Outcome {
    let mut watcher = client.watch("/pw", AddWatchMode::Persistent).await?;
    other.create("/pw", b"", PERSISTENT).await?;
    other.set_data("/pw", b"1", None).await?;
    other.create("/pw/c", b"", PERSISTENT).await?;
    other.set_data("/pw/c", b"1", None).await?;
    other.delete("/pw/c", None).await?;
    other.delete("/pw", None).await?;
    next(&mut watcher, EventType::NodeCreated, "/pw").await?;
    next(&mut watcher, EventType::NodeDataChanged, "/pw").await?;
    next(&mut watcher, EventType::NodeChildrenChanged, "/pw").await?;
    next(&mut watcher, EventType::NodeChildrenChanged, "/pw").await?;
    next(&mut watcher, EventType::NodeDeleted, "/pw").await
}

async fn recursive(client: &Client, other: &Client) -> Outcome {
    let mut watcher = client.watch("/rw", AddWatchMode::PersistentRecursive).await?;
    other.create("/rw", b"", PERSISTENT).await?;
    other.create("/rw/a", b"", PERSISTENT).await?;
    other.create("/rw/a/b", b"", PERSISTENT).await?;
    other.set_data("/rw/a/b", b"1", None).await?;
    other.delete("/rw/a/b", None).await?;
    next(&mut watcher, EventType::NodeCreated, "/rw").await?;
    next(&mut watcher, EventType::NodeCreated, "/rw/a").await?;
    next(&mut watcher, EventType::NodeCreated, "/rw/a/b").await?;
    next(&mut watcher, EventType::NodeDataChanged, "/rw/a/b").await?;
    next(&mut watcher, EventType::NodeDeleted, "/rw/a/b").await
}

/// A dropped watcher is removed from the server, as the client sends removeWatches for the last one of a path.
async fn dropped(client: &Client, other: &Client) -> Outcome {
    let (_, _, first) = client.get_and_watch_data("/w").await?;
    let (_, second) = client.check_and_watch_stat("/w").await?;
    drop(first);
    other.set_data("/w", b"2", None).await?;
    told(second, EventType::NodeDataChanged, "/w").await?;
    drop(client.watch("/w", AddWatchMode::PersistentRecursive).await?);
    client.sync("/w").await?;
    let (_, third) = client.check_and_watch_stat("/w").await?;
    other.set_data("/w", b"3", None).await?;
    told(third, EventType::NodeDataChanged, "/w").await
}
