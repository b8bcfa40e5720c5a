//! The four-letter words whose answers list watches, sessions or ephemerals. There may be millions: a turn copies a slice
//! of them, and the text is made outside of turns, one answer at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use hashbrown::{HashMap, HashSet};
use zoolet_server_core::ConnId;

use crate::four_letter_words::java_format::{date, endpoint};
use crate::observer::{ObservedConnection, ObservedWatch, pause};
use crate::shared::Shared;

impl Shared {
    pub(crate) async fn wchs(&self, at: usize) -> Option<String> {
        let watches = self.watches(at).await?;
        let all = watches.len();
        let (mut paths, mut conns) = (HashSet::new(), HashSet::new());
        for (made, ObservedWatch { path, conn, .. }) in watches.into_iter().enumerate() {
            paths.insert(path);
            conns.insert(conn);
            pause(made).await;
        }
        let (paths, conns) = (paths.len(), conns.len());
        Some(format!("{conns} connections watching {paths} paths\nTotal watches:{all}\n"))
    }

    pub(crate) async fn wchc(&self, at: usize) -> Option<String> {
        self.grouped_watches(at, |session, path| (session, path)).await
    }

    pub(crate) async fn wchp(&self, at: usize) -> Option<String> {
        self.grouped_watches(at, |session, path| (path, session)).await
    }

    /// The watches on znodes themselves: `pair` makes a heading and a line of the name of a session and a path.
    async fn grouped_watches(
        &self,
        at: usize,
        pair: for<'t> fn(&'t str, &'t str) -> (&'t str, &'t str),
    ) -> Option<String> {
        let watches = self.watches(at).await?;
        let mut names = HashMap::<ConnId, String>::new();
        for (made, watch) in watches.iter().enumerate() {
            names.entry(watch.conn).or_insert_with(|| watch.session.to_string());
            pause(made).await;
        }
        let text = grouped(watches.iter().map(|watch| pair(&names[&watch.conn], &watch.path))).await;
        // The memory of a long list is freed in slices.
        for (freed, watch) in watches.into_iter().enumerate() {
            drop(watch);
            pause(freed).await;
        }
        Some(text)
    }

    pub(crate) async fn dump(&self) -> Option<String> {
        let mut text = "SessionTracker dump:\nSession ".to_owned();
        let sessions = self.sessions().await?.into_iter();
        expiry(&mut text, sessions.map(|session| (session.deadline.0, session.id.to_string()))).await;
        let ephemerals = self.ephemerals().await?;
        let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", ephemerals.len());
        for (owner, paths) in ephemerals {
            let _ = writeln!(text, "{owner}:");
            for (made, path) in paths.iter().enumerate() {
                let _ = writeln!(text, "\t{path}");
                pause(made).await;
            }
        }
        text.push_str("Connections dump:\nConnections ");
        let connections = self.connections(None).await?.into_iter();
        let line = |connection: ObservedConnection| {
            let session = connection.session.map(|(id, _)| id).unwrap_or_default();
            (connection.deadline.0, format!("ip: {} sessionId: {session}", endpoint(connection.addr)))
        };
        expiry(&mut text, connections.map(line)).await;
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
        let _ = writeln!(text, "{} expire at {}:", things.len(), date(deadline));
        for (made, thing) in things.iter().enumerate() {
            let _ = writeln!(text, "\t{thing}");
            pause(made).await;
        }
    }
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
