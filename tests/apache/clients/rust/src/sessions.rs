//! Reconnects, silence, expiry and the end of a session.

use zookeeper_client::{AddWatchMode, Client, Error, EventType, SessionState, StateWatcher};

use crate::checks::{check, control, env, equal, eventually, hold, in_time, refused, Outcome};
use crate::watches::told;
use crate::{address, connect, connector, EPHEMERAL, PERSISTENT};

pub async fn run(client: Client, outside: &Client) -> Outcome {
    client.create("/live", b"", PERSISTENT).await?;
    client.create("/live/mine", b"", EPHEMERAL).await?;
    check("reconnect: same session, ephemeral kept, watches told and armed again", reconnect(&client, outside)).await;
    check("reconnect: a persistent watch's holder is told", persistent(&client)).await;
    check("reconnect: after silence, same session", silence()).await;
    check("expiry: the ephemeral goes, others are notified, the client sees it", expiry(outside)).await;
    check("a session is handed over with its id and password", handed_over(outside)).await;
    check("close: the session's ephemerals go", closing(client, outside)).await;
    Ok(())
}

async fn until(states: &mut StateWatcher, state: SessionState) -> Outcome {
    in_time(&format!("state {state}"), async { while states.changed().await != state {} }).await
}

async fn reconnect(client: &Client, outside: &Client) -> Outcome {
    client.create("/live/quiet", b"", PERSISTENT).await?;
    let (_, _, data) = client.get_and_watch_data("/live").await?;
    let (_, children) = client.list_and_watch_children("/live").await?;
    let (_, created) = client.check_and_watch_stat("/live/new").await?;
    let (_, quiet) = client.check_and_watch_stat("/live/quiet").await?;
    let session = client.session_id();
    let mut states = client.state_watcher();
    states.state();
    control("refuse").await?;
    until(&mut states, SessionState::Disconnected).await?;
    outside.set_data("/live", b"changed", None).await?;
    outside.create("/live/new", b"", PERSISTENT).await?;
    control("heal").await?;
    until(&mut states, SessionState::SyncConnected).await?;
    equal(client.session_id(), session)?;
    let stat = outside.check_stat("/live/mine").await?.ok_or("the ephemeral is gone")?;
    equal(stat.ephemeral_owner, session.0)?;
    told(data, EventType::NodeDataChanged, "/live").await?;
    told(children, EventType::NodeChildrenChanged, "/live").await?;
    told(created, EventType::NodeCreated, "/live/new").await?;
    outside.set_data("/live/quiet", b"1", None).await?;
    told(quiet, EventType::NodeDataChanged, "/live/quiet").await
}

/// What the crate does not do, on any server: it does not send its persistent watches again after a reconnect, so
/// they tell nothing more. All that can be checked is that their holder is told to look again.
async fn persistent(client: &Client) -> Outcome {
    let mut watcher = client.watch("/live", AddWatchMode::PersistentRecursive).await?;
    control("cut").await?;
    for state in [SessionState::Disconnected, SessionState::SyncConnected] {
        let event = in_time("the event", watcher.changed()).await?;
        equal((event.event_type, event.session_state), (EventType::Session, state))?;
    }
    Ok(())
}

async fn silence() -> Outcome {
    let client = connect(4000).await?;
    let mut states = client.state_watcher();
    states.state();
    control("stall").await?;
    until(&mut states, SessionState::Disconnected).await?;
    control("heal").await?;
    until(&mut states, SessionState::SyncConnected).await
}

async fn expiry(outside: &Client) -> Outcome {
    let client = connect(1000).await?;
    client.create("/expiring", b"", EPHEMERAL).await?;
    let (_, gone) = outside.check_and_watch_stat("/expiring").await?;
    let mut states = client.state_watcher();
    control("refuse").await?;
    told(gone, EventType::NodeDeleted, "/expiring").await?;
    equal(outside.check_stat("/expiring").await?, None)?;
    control("heal").await?;
    until(&mut states, SessionState::Expired).await?;
    refused(client.check_stat("/").await, Error::SessionExpired)
}

async fn handed_over(outside: &Client) -> Outcome {
    let first = connector(6000).with_detached().connect(&crate::hosts()).await?;
    first.create("/handed", b"", EPHEMERAL).await?;
    let id = first.session_id();
    let session = first.into_session();
    let hosts = address(&env("ZK_DIRECT")) + &env("ZK_ROOT");
    let second = connector(6000).with_session(session).connect(&hosts).await?;
    equal(second.session_id(), id)?;
    let stat = outside.check_stat("/handed").await?.ok_or("the ephemeral is gone")?;
    equal(stat.ephemeral_owner, id.0)
}

async fn closing(client: Client, outside: &Client) -> Outcome {
    eventually("connected", || async { Ok(client.state() == SessionState::SyncConnected) }).await?;
    hold("there", outside.check_stat("/live/mine").await?.is_some())?;
    drop(client);
    eventually("gone", || async { Ok(outside.check_stat("/live/mine").await?.is_none()) }).await
}
