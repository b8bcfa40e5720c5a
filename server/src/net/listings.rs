//! The four-letter words whose answers list watches, sessions or ephemerals. There may be millions: a turn copies a slice
//! of them, and the text is made outside of turns, one answer at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use tokio::task::yield_now;
use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Core, Millis};

use crate::engine::Engine;
use crate::net::flow::limits::LISTED;
use crate::net::java_format::{Date, Endpoint};
use crate::net::registry::Peer;
use crate::shared::Shared;

/// A path with the connection that watches it.
type Watch = (Arc<str>, ConnId);

impl Shared {
    pub(crate) async fn wchs(&self, at: usize) -> Option<String> {
        let watches = self.watches(at).await?;
        let all = watches.len();
        let (mut paths, mut conns) = (HashSet::new(), HashSet::new());
        for (made, (path, conn)) in watches.into_iter().enumerate() {
            paths.insert(path);
            conns.insert(conn);
            pause(made).await;
        }
        let (paths, conns) = (paths.len(), conns.len());
        Some(format!("{conns} connections watching {paths} paths\nTotal watches:{all}\n"))
    }

    pub(crate) async fn wchc(&self, at: usize) -> Option<String> {
        let (watches, names) = self.named_watches(at).await?;
        let text = grouped(watches.iter().map(|(path, conn)| (&*names[conn], &**path))).await;
        drop_in_slices(watches).await;
        Some(text)
    }

    pub(crate) async fn wchp(&self, at: usize) -> Option<String> {
        let (watches, names) = self.named_watches(at).await?;
        let text = grouped(watches.iter().map(|(path, conn)| (&**path, &*names[conn]))).await;
        drop_in_slices(watches).await;
        Some(text)
    }

    /// The watches on znodes themselves, and the names of the sessions of all connections that have watches.
    async fn named_watches(&self, at: usize) -> Option<(Vec<Watch>, HashMap<ConnId, String>)> {
        let name = |core: &Core, conn| core.session_of(conn).unwrap_or_default().to_string();
        let mut names = HashMap::new();
        let watches = self.watches(at).await?;
        for (made, (_, conn)) in watches.iter().enumerate() {
            pause(made).await;
            if !names.contains_key(conn) {
                let conn = *conn;
                names.insert(conn, self.read(at, move |core| name(core, conn)).await?);
            }
        }
        Some((watches, names))
    }

    /// The watches on znodes themselves.
    async fn watches(&self, at: usize) -> Option<Vec<Watch>> {
        let conns = self.read(at, |core| core.watches().connections()).await?;
        let mut watches = Vec::new();
        for conn in conns {
            let mut after: Option<Arc<str>> = None;
            loop {
                let slice = move |core: &Core| -> Vec<_> {
                    let paths = core.watches().paths_of(conn, after.as_deref());
                    paths.take(LISTED).map(|(path, on_data)| (Arc::clone(path), on_data)).collect()
                };
                let slice = self.read(at, slice).await?;
                let more = slice.len() == LISTED;
                after = slice.last().map(|(path, _)| Arc::clone(path));
                watches
                    .extend(slice.into_iter().filter(|(_, on_data)| *on_data).map(|(path, _)| (path, conn)));
                if !more {
                    break;
                }
            }
        }
        Some(watches)
    }

    /// Reads the state of a replica.
    async fn read<T: Send + 'static>(
        &self,
        at: usize,
        question: impl FnOnce(&Core) -> T + Send + 'static,
    ) -> Option<T> {
        self.act_later(move |engine, _| question(engine.bus.machine().replica(at))).await
    }

    /// Calls the engine after the sockets were polled: a task that is answered each time it asks keeps a runtime of one
    /// thread from that.
    pub(crate) async fn act_later<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine, Millis) -> T + Send + 'static,
    ) -> Option<T> {
        yield_now().await;
        self.turns.act(act)
    }

    pub(crate) async fn dump(&self) -> Option<String> {
        let mut text = "SessionTracker dump:\nSession ".to_owned();
        let expiring = |core: &Core| -> Vec<_> {
            core.sessions().iter().map(|session| (session.deadline.0, session.id)).collect()
        };
        let (sessions, owners) = self.turns.read(move |core| (expiring(core), core.tree().owners()))?;
        expiry(&mut text, sessions.into_iter().map(|(deadline, id)| (deadline, id.to_string()))).await;
        let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len());
        for owner in owners {
            let _ = writeln!(text, "{owner}:");
            let mut after: Option<Arc<str>> = None;
            loop {
                let slice = move |core: &Core| -> Vec<_> {
                    core.tree().ephemerals_after(owner, after.as_deref()).take(LISTED).cloned().collect()
                };
                let paths = self.act_later(move |engine, _| slice(engine.bus.core())).await?;
                paths.iter().for_each(|path| _ = writeln!(text, "\t{path}"));
                if paths.len() < LISTED {
                    break;
                }
                after = paths.into_iter().last();
            }
        }
        text.push_str("Connections dump:\nConnections ");
        let mut peers = self.registry.all().into_iter();
        let mut connections = Vec::with_capacity(peers.len());
        while peers.len() > 0 {
            let slice: Vec<_> = peers.by_ref().take(LISTED).collect();
            let question = move |engine: &mut Engine, _| -> Vec<_> {
                let deadline = |id, peer: &Peer| {
                    let heard = engine.bus.conn_stats(id).last_response;
                    expiring_connection(engine.bus.core(), id, heard.unwrap_or(peer.established))
                };
                slice.into_iter().map(|(id, peer)| (deadline(id, &peer), peer)).collect()
            };
            connections.extend(self.act_later(question).await?);
        }
        let line =
            |session: SessionId, peer: &Peer| format!("ip: {} sessionId: {session}", Endpoint(peer.addr));
        let connections = connections.into_iter();
        expiry(&mut text, connections.map(|((deadline, session), peer)| (deadline, line(session, &peer))))
            .await;
        Some(text)
    }
}

/// Entries by the time at which they expire, as `ExpiryQueue.dump` prints them.
async fn expiry(text: &mut String, things: impl ExactSizeIterator<Item = (i64, String)>) {
    let all = things.len();
    let mut buckets: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for (made, (deadline, thing)) in things.enumerate() {
        buckets.entry(deadline).or_default().push(thing);
        pause(made).await;
    }
    let _ = writeln!(text, "Sets ({})/({all}):", buckets.len());
    for (deadline, things) in buckets {
        let _ = writeln!(text, "{} expire at {}:", things.len(), Date(deadline));
        for (made, thing) in things.iter().enumerate() {
            let _ = writeln!(text, "\t{thing}");
            pause(made).await;
        }
    }
}

/// When a real server would close a connection that sends nothing, and its session. This server only closes one without a
/// session: the others close when their sessions expire.
fn expiring_connection(core: &Core, id: ConnId, heard: Millis) -> (i64, SessionId) {
    let session = core.session_of(id).and_then(|session| core.sessions().get(session));
    let interval = core.config().sessionless_timeout.max(1);
    let timeout = session.map_or(interval, |session| session.timeout.into());
    let deadline = heard.plus(timeout).next_multiple_of(interval).0;
    (deadline, session.map(|session| session.id).unwrap_or_default())
}

/// Each heading with its lines, and an empty line at the end.
async fn grouped<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> String {
    let mut sorted = BTreeSet::new();
    for (made, pair) in pairs.enumerate() {
        sorted.insert(pair);
        pause(made).await;
    }
    let mut text = String::new();
    let mut before = None;
    for (made, (heading, line)) in sorted.into_iter().enumerate() {
        if before != Some(heading) {
            let _ = writeln!(text, "{heading}");
        }
        before = Some(heading);
        let _ = writeln!(text, "\t{line}");
        pause(made).await;
    }
    text.push('\n');
    text
}

/// Frees the memory of a long list in slices.
async fn drop_in_slices(watches: Vec<Watch>) {
    for (freed, watch) in watches.into_iter().enumerate() {
        drop(watch);
        pause(freed).await;
    }
}

/// Lets other tasks run now and then.
async fn pause(made: usize) {
    if made % LISTED == LISTED - 1 {
        yield_now().await;
    }
}
