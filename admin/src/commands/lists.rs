//! The commands that list connections, sessions and watches. There may be millions: other tasks run in between.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::yield_now;
use zoolet_server::{ObservedConnection, Observer};

use super::json::JsonWriter;

/// Values that are written before other tasks run.
const AT_ONCE: usize = 500;

/// `connections`; with `is_brief` the end of `stats`.
pub(super) async fn connections(observer: &Observer, json: &mut JsonWriter, is_brief: bool) -> Option<()> {
    let connections = observer.connections().await?;
    for (key, is_secure) in [("connections", false), ("secure_connections", true)] {
        json.key(key).array();
        let listed = connections.iter().filter(|connection| connection.is_secure == is_secure);
        for (made, connection) in listed.enumerate() {
            json.object();
            brief(json, connection);
            if !is_brief {
                rest(json, connection);
            }
            json.end();
            pause(made).await;
        }
        json.end();
    }
    Some(())
}

fn brief(json: &mut JsonWriter, connection: &ObservedConnection) {
    json.key("remote_socket_address").string(&connection.addr.to_string());
    json.key("interest_ops").plain(i32::from(connection.is_read));
    json.key("outstanding_requests").plain(connection.outstanding);
    json.key("packets_received").plain(connection.received);
    json.key("packets_sent").plain(connection.sent);
}

fn rest(json: &mut JsonWriter, connection: &ObservedConnection) {
    /// What Apache shows of a connection without a session, which is closed after it.
    const SESSIONLESS: i32 = 10_000;
    let (session, timeout) = connection.session.map_or((0, SESSIONLESS), |(id, timeout)| (id.0, timeout));
    let latency = connection.latency;
    json.key("session_id").plain(session);
    json.key("last_operation");
    match (connection.session, connection.last_op) {
        (None, _) => json.null(),
        (Some(_), Some(op)) => json.string(op.short_name()),
        // Since the statistics were reset.
        (Some(_), None) => json.string("NA"),
    }
    json.key("established").plain(connection.established.0);
    json.key("session_timeout").plain(timeout);
    json.key("last_cxid").plain(connection.last_xid.map_or(-1, |xid| xid.0));
    json.key("last_zxid").plain(connection.last_zxid.map_or(-1, |zxid| zxid.0));
    json.key("last_response_time").plain(connection.last_response.map_or(0, |at| at.0));
    json.key("last_latency").plain(connection.last_latency);
    json.key("min_latency").plain(latency.min.trunc());
    json.key("avg_latency").plain(latency.avg.trunc());
    json.key("max_latency").plain(latency.max.trunc());
}

pub(super) async fn dump(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    {
        let sessions = observer.sessions().await?;
        json.key("expiry_time_to_session_ids").object();
        let mut made = 0;
        for expiring in sessions.chunk_by(|one, next| one.deadline == next.deadline) {
            let time = expiring[0].deadline.0.to_string();
            group(json, &mut made, &time, expiring, |json, session| json.plain(session.id.0)).await;
        }
        json.end();
    }
    let owners = observer.ephemerals().await?;
    json.key("session_id_to_ephemeral_paths").object();
    let mut made = 0;
    for (owner, paths) in owners.iter() {
        group(json, &mut made, &owner.0.to_string(), paths, |json, path| json.string(path)).await;
    }
    json.end();
    Some(())
}

pub(super) async fn watch_summary(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let watches = observer.watches().await?;
    let (mut paths, mut conns) = (BTreeSet::new(), BTreeSet::new());
    for (made, watch) in watches.iter().enumerate() {
        paths.insert(&*watch.path);
        conns.insert(watch.conn);
        pause(made).await;
    }
    json.key("num_connections").plain(conns.len());
    json.key("num_paths").plain(paths.len());
    json.key("num_total_watches").plain(watches.len());
    Some(())
}

pub(super) async fn watches(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let watches = observer.watches().await?;
    let mut by_session = BTreeMap::<i64, BTreeSet<&str>>::new();
    for (made, watch) in watches.iter().enumerate() {
        by_session.entry(watch.session.0).or_default().insert(&watch.path);
        pause(made).await;
    }
    json.key("session_id_to_watched_paths").object();
    let mut made = 0;
    for (session, paths) in by_session {
        group(json, &mut made, &session.to_string(), paths, JsonWriter::string).await;
    }
    json.end();
    Some(())
}

pub(super) async fn watches_by_path(observer: &Observer, json: &mut JsonWriter) -> Option<()> {
    let watches = observer.watches().await?;
    let mut by_path = BTreeMap::<&str, BTreeSet<i64>>::new();
    for (made, watch) in watches.iter().enumerate() {
        by_path.entry(&watch.path).or_default().insert(watch.session.0);
        pause(made).await;
    }
    json.key("path_to_session_ids").object();
    let mut made = 0;
    for (path, sessions) in by_path {
        group(json, &mut made, path, sessions, |json, session| json.plain(session)).await;
    }
    json.end();
    Some(())
}

/// Lets other tasks run now and then.
async fn pause(made: usize) {
    if made % AT_ONCE == AT_ONCE - 1 {
        yield_now().await;
    }
}

/// A list by its key. `made` counts the values of all lists of an object.
async fn group<T>(
    json: &mut JsonWriter,
    made: &mut usize,
    key: &str,
    values: impl IntoIterator<Item = T>,
    write: fn(&mut JsonWriter, T),
) {
    json.key(key).array();
    for value in values {
        write(json, value);
        *made += 1;
        pause(*made).await;
    }
    json.end();
}
