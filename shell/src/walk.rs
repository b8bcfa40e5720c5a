//! Reads of a whole tree, pipelined: the one loop of `find`, `grep`, `du`, `tree` and all that is recursive.
//!
//! Znodes come out in the order of a listing: parents first, siblings by name. What is read next is always the first unread znode in
//! that order, so what waits to come out is bounded by the window for each level of the tree, and by the listings of the znodes above.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::future::IntoFuture as _;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zoolet_client::{Acl, Client, Error, ErrorCode, ReplyFuture, Stat, path};

/// Most requests in flight. A server takes turns between its connections, and a window of this size keeps a turn short.
const WINDOW: usize = 128;
/// The time for a request among many: none ends before its turn, which may come long after it was sent. A connection that is silent
/// ends them nevertheless.
pub(crate) const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);

/// A znode that a walk has read.
#[derive(Debug, Default, Clone)]
pub(crate) struct Visit {
    /// Absent if the znode could not be read.
    pub(crate) stat: Option<Stat>,
    /// Only if it was asked for.
    pub(crate) data: Option<Bytes>,
    /// Only if it was asked for.
    pub(crate) acl: Option<Vec<Acl>>,
    /// Whether there are no more siblings after it in its parent's listing.
    pub(crate) is_last: bool,
    /// Why it, or the list of its children, could not be read.
    pub(crate) error: Option<Error>,
}

/// What a walk reads of each znode besides the list of its children.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) data: bool,
    pub(crate) acl: bool,
    /// Levels below the root; none is all.
    pub(crate) depth: Option<usize>,
}

/// A path whose order is that of a walk: parents before children, siblings by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalkPath(Rc<str>);

impl WalkPath {
    pub(crate) fn new(path: &str) -> Self {
        Self(path.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for WalkPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, two) = (self.0.as_bytes(), other.0.as_bytes());
        match one.iter().zip(two).find(|(one, two)| one != two) {
            // A path ends before its children begin, and they before a sibling that is longer: `/a`, `/a/b`, `/a-b`.
            Some((b'/', _)) => Ordering::Less,
            Some((_, b'/')) => Ordering::Greater,
            Some((one, two)) => one.cmp(two),
            None => one.len().cmp(&two.len()),
        }
    }
}

impl PartialOrd for WalkPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

enum Request {
    Children(ReplyFuture<(Vec<String>, Stat)>),
    Data(ReplyFuture<(Bytes, Stat)>),
    Acl(ReplyFuture<(Vec<Acl>, Stat)>),
    /// Of a znode whose children do not matter.
    Stat(ReplyFuture<Option<Stat>>),
}

/// A walk in progress.
pub(crate) struct Walk<'c> {
    client: &'c Client,
    root: WalkPath,
    reading: Reading,
    /// Znodes that are listed, and whether each is the last of its listing.
    unread: BTreeMap<WalkPath, bool>,
    /// Znodes that are being read, or have been and have not come out.
    begun: BTreeMap<WalkPath, Begun>,
    in_flight: VecDeque<(WalkPath, Request)>,
    /// The longest time without any answer.
    patience: Duration,
}

#[derive(Default)]
struct Begun {
    visit: Visit,
    /// Answers that are missing.
    missing: usize,
    is_gone: bool,
}

impl<'c> Walk<'c> {
    /// It may take any time as long as answers come, each within `patience` of the last.
    pub(crate) fn new(client: &'c Client, root: &str, reading: Reading, patience: Duration) -> Self {
        let root = WalkPath::new(root);
        let unread = BTreeMap::from([(root.clone(), true)]);
        let (begun, in_flight) = (BTreeMap::new(), VecDeque::new());
        Self { client, root, reading, unread, begun, in_flight, patience }
    }

    /// The next znode. One that is deleted during the walk is left out, except for the root.
    ///
    /// # Errors
    /// `NoNode` for the root, and whatever ends the session or the connection. What a single znode refuses is in its visit.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Visit)>, Error> {
        loop {
            self.fill();
            while let Some((path, begun)) = self.take_first() {
                if !begun.is_gone {
                    return Ok(Some((path.as_str().to_owned(), begun.visit)));
                }
            }
            let Some((path, request)) = self.in_flight.pop_front() else { return Ok(None) };
            self.receive(path, request).await?;
        }
    }

    /// The first znode in the order of the walk, once it has been read.
    fn take_first(&mut self) -> Option<(WalkPath, Begun)> {
        let first = self.begun.first_entry().filter(|first| first.get().missing == 0)?;
        match self.unread.first_key_value() {
            Some((unread, _)) if unread < first.key() => None,
            _ => Some(first.remove_entry()),
        }
    }

    fn fill(&mut self) {
        while self.in_flight.len() < WINDOW {
            let Some((path, is_last)) = self.unread.pop_first() else { return };
            let visit = Visit { is_last, ..Visit::default() };
            self.begun.insert(path.clone(), Begun { visit, missing: 0, is_gone: false });
            let (client, of) = (self.client, path.as_str());
            let request = match (self.reading.data, self.is_above_the_deepest(&path)) {
                (true, _) => Request::Data(client.get_data(of).timeout(UNLIMITED).into_future()),
                (false, true) => Request::Children(client.get_children(of).timeout(UNLIMITED).into_future()),
                (false, false) => Request::Stat(client.exists(of).timeout(UNLIMITED).into_future()),
            };
            self.request(&path, request);
            if self.reading.acl {
                let request = Request::Acl(client.get_acl(of).timeout(UNLIMITED).into_future());
                self.request(&path, request);
            }
        }
    }

    fn request(&mut self, path: &WalkPath, request: Request) {
        if let Some(begun) = self.begun.get_mut(path) {
            begun.missing += 1;
        }
        self.in_flight.push_back((path.clone(), request));
    }

    async fn receive(&mut self, path: WalkPath, request: Request) -> Result<(), Error> {
        let outcome = match request {
            Request::Children(reply) => self.within_patience(reply).await.map(|(names, stat)| {
                self.note(&path, |visit| visit.stat = Some(stat));
                self.list(&path, names);
            }),
            Request::Data(reply) => self.within_patience(reply).await.map(|(data, stat)| {
                self.note(&path, |visit| (visit.data, visit.stat) = (Some(data), Some(stat)));
                // A znode that has children by now is listed by the next walk.
                if stat.num_children > 0 && self.is_above_the_deepest(&path) {
                    let reply = self.client.get_children(path.as_str()).timeout(UNLIMITED).into_future();
                    self.request(&path, Request::Children(reply));
                }
            }),
            Request::Acl(reply) => self
                .within_patience(reply)
                .await
                .map(|(acl, _)| self.note(&path, |visit| visit.acl = Some(acl))),
            Request::Stat(reply) => self.within_patience(reply).await.map(|stat| match stat {
                Some(stat) => self.note(&path, |visit| visit.stat = Some(stat)),
                None => self.forget(&path),
            }),
        };
        if let Err(error) = outcome {
            self.refuse(&path, error)?;
        }
        if let Some(begun) = self.begun.get_mut(&path) {
            begun.missing -= 1;
        }
        Ok(())
    }

    async fn within_patience<T>(&self, reply: ReplyFuture<T>) -> Result<T, Error> {
        within_patience(self.client, self.root.as_str(), reply, self.patience).await
    }

    fn refuse(&mut self, path: &WalkPath, error: Error) -> Result<(), Error> {
        match error.code() {
            Some(ErrorCode::NoNode) if *path != self.root => self.forget(path),
            // Since ZOOKEEPER-2590 not even the Stat can be read then.
            Some(ErrorCode::NoAuth) => self.note(path, |visit| visit.error = Some(error)),
            _ if matches!(error, Error::ReplyTooLarge { .. }) => {
                self.note(path, |visit| visit.error = Some(error));
            }
            _ => return Err(error),
        }
        Ok(())
    }

    fn note(&mut self, path: &WalkPath, note: impl FnOnce(&mut Visit)) {
        if let Some(begun) = self.begun.get_mut(path) {
            note(&mut begun.visit);
        }
    }

    /// It was deleted since its parent was listed.
    fn forget(&mut self, path: &WalkPath) {
        if let Some(begun) = self.begun.get_mut(path) {
            begun.is_gone = true;
        }
    }

    fn is_above_the_deepest(&self, path: &WalkPath) -> bool {
        self.reading.depth.is_none_or(|depth| depth_below(&self.root.0, &path.0) < depth)
    }

    fn list(&mut self, parent: &WalkPath, mut names: Vec<String>) {
        if !self.is_above_the_deepest(parent) {
            return;
        }
        names.sort_unstable();
        let last = names.len().saturating_sub(1);
        for (at, name) in names.into_iter().enumerate() {
            self.unread.insert(WalkPath::new(&path::join(parent.as_str(), &name)), at == last);
        }
    }
}

/// Waits for the reply to a read of `path` among many, which was sent with [`UNLIMITED`] time: fails if it does not come within
/// `patience`, although everything before it has.
pub(crate) async fn within_patience<T>(
    client: &Client,
    path: &str,
    mut reply: ReplyFuture<T>,
    patience: Duration,
) -> Result<T, Error> {
    loop {
        if let Ok(outcome) = timeout(patience, &mut reply).await {
            return outcome;
        }
        // Whatever keeps the answer keeps that of a request after it too, whose error says what it is.
        client.exists(path).timeout(Duration::from_millis(1)).await?;
    }
}

/// The number of levels between a znode and one above it.
pub(crate) fn depth_below(root: &str, path: &str) -> usize {
    let levels = |path: &str| if path == "/" { 0 } else { path.matches('/').count() };
    levels(path) - levels(root).min(levels(path))
}

/// What a walk could not read: counted, with the first as an example.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    count: usize,
    first: Option<Error>,
}

impl Unreadable {
    pub(crate) fn note(&mut self, error: Option<Error>) {
        if let Some(error) = error {
            self.count += 1;
            self.first.get_or_insert(error);
        }
    }

    /// How many, and why the first.
    pub(crate) fn into_first(self) -> Option<(usize, Error)> {
        Some((self.count, self.first?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_children_and_siblings_by_name() {
        let mut paths: Vec<_> =
            ["/a-b", "/a/c", "/", "/a", "/a.b/c", "/b"].map(|path| WalkPath(path.into())).into();
        paths.sort();
        let paths: Vec<_> = paths.iter().map(|path| path.as_str()).collect();
        assert_eq!(paths, ["/", "/a", "/a/c", "/a-b", "/a.b/c", "/b"]);
    }

    #[test]
    fn depth_counts_levels() {
        assert_eq!(depth_below("/", "/"), 0);
        assert_eq!(depth_below("/", "/a/b"), 2);
        assert_eq!(depth_below("/a", "/a/b"), 1);
    }
}
