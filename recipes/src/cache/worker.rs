//! The task of a cache: passes items of the feed to the mirror, and its reads to the feed, session after session.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use zoolet_client::internal::{
    ClientExt as _, Feed, FeedItem, FeedReply, FeedRequest, Reply, SessionsExt as _, records::SetWatches,
};
use zoolet_client::{Error, ErrorCode, ServerFeature, Sessions, Zxid};

use super::entry::UnreadableReason;
use super::error::CacheError;
use super::mirror::{Mirror, MirrorConfig, Read, ReadReply, WatchStyle};
use super::publish::Board;
use crate::requests::or_never;

/// Most reads in flight, so that a ping or a lock on the same session waits for no more than these; servers throttle at
/// 1,000 requests of all their clients.
const WINDOW: usize = 128;
/// Fewer, if the replies are long: about this much is in flight then. Always a few.
const WINDOW_BYTES: usize = 1 << 20;
const LEAST_WINDOW: usize = 4;

/// Bytes of paths in one request that sets one-shot watches, as in the Java client.
const WATCHES_CHUNK: usize = 128 * 1024;

/// How often to read again what could not be read: servers report no change of an ACL, and a recursive watch none of a
/// directory whose listing was too large. Such a listing is sent again each time, so not more often.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);
/// How long to wait before sending again what the server was too busy for, or has refused to watch.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Who gets the zxid of a sync, and its epoch.
pub(super) type SyncWaiter = oneshot::Sender<(Zxid, u64)>;

pub(super) struct Worker<T> {
    sessions: Sessions,
    mirror: Mirror<T>,
    board: Arc<Board<T>>,
    /// Who asks for a sync; closed when the last handle is gone.
    syncs: mpsc::UnboundedReceiver<SyncWaiter>,
    /// Who waits for a sync that is not sent.
    waiting: Vec<SyncWaiter>,
    /// About the size of a reply.
    reply_size: usize,
}

/// The requests of one connection.
struct Link {
    feed: Feed,
    /// `None` without a connection.
    generation: Option<u64>,
    next_tag: u64,
    in_flight: HashMap<u64, Flight>,
    reads: usize,
    /// What is still to be sent to set the watches; one at a time.
    arming: VecDeque<FeedRequest>,
    /// When to read again what could not be read, send what the server was too busy for, and set refused watches.
    unreadable_at: Option<Instant>,
    busy: Vec<Read>,
    busy_until: Option<Instant>,
    /// Whether to set the watches again then.
    rearm: bool,
}

enum Flight {
    Read(Read),
    Arm,
    Sync(Vec<SyncWaiter>),
}

/// Why a session is left.
enum Left {
    SessionOver,
    Failed(CacheError),
    /// Nobody has a handle any more.
    Unused,
}

impl<T> Drop for Worker<T> {
    /// Readers learn that the task is gone, also if a decoder panics.
    fn drop(&mut self) {
        self.board.end(CacheError::Gone);
    }
}

impl<T: Send + Sync + 'static> Worker<T> {
    pub(super) fn new(
        sessions: Sessions,
        config: MirrorConfig<T>,
        board: Arc<Board<T>>,
        syncs: mpsc::UnboundedReceiver<SyncWaiter>,
    ) -> Self {
        Self { sessions, mirror: Mirror::new(config), board, syncs, waiting: Vec::new(), reply_size: 0 }
    }

    pub(super) async fn run(mut self) {
        let sessions = self.sessions.clone();
        let mut number = 0;
        loop {
            let term = tokio::select! {
                biased;
                term = sessions.term_after(number) => match term {
                    Ok(term) => term,
                    Err(error) => return self.board.end(CacheError::SessionsEnded(error)),
                },
                waiting = self.syncs.recv() => {
                    let Some(waiting) = waiting else { return };
                    self.waiting.push(waiting);
                    continue;
                }
            };
            number = term.number;
            if self.mirror.epoch() != term.epoch {
                self.mirror.reset(term.epoch);
            }
            // Only the feed is kept, and not the client, which would keep open a session that is to be replaced.
            let mut link = Link::new(term.client.feed());
            drop(term);
            let Err(left) = self.follow(&mut link).await;
            match left {
                Left::SessionOver => self.lose(&mut link),
                Left::Failed(error) => return self.board.end(error),
                Left::Unused => return,
            }
        }
    }

    /// Follows one session to its end.
    async fn follow(&mut self, link: &mut Link) -> Result<Infallible, Left> {
        let mut items = Vec::new();
        loop {
            let clock = self.sessions.clock().clone();
            let due = link.next_timeout();
            let timer = or_never(due.map(|due| clock.sleep_until(due)));
            tokio::select! {
                biased;
                () = link.feed.fill(&mut items) => {}
                waiting = self.syncs.recv() => match waiting {
                    Some(waiting) => self.waiting.push(waiting),
                    None => return Err(Left::Unused),
                },
                () = timer => {}
            }
            // A feed that is never empty must not keep the runtime from other tasks.
            tokio::task::consume_budget().await;
            for item in items.drain(..) {
                self.handle(link, item)?;
            }
            while let Ok(waiting) = self.syncs.try_recv() {
                self.waiting.push(waiting);
            }
            if self.syncs.is_closed() {
                return Err(Left::Unused);
            }
            self.handle_timeouts(link);
            self.send(link);
            self.publish(link);
        }
    }

    fn handle(&mut self, link: &mut Link, item: FeedItem) -> Result<(), Left> {
        match item {
            FeedItem::Connected { generation } => {
                link.generation = Some(generation);
                let style = match link.feed.supports(ServerFeature::AddWatch) {
                    Some(false) => WatchStyle::OneShot,
                    _ => WatchStyle::Tree,
                };
                self.begin(link, style);
            }
            FeedItem::Reply(reply) => self.handle_reply(link, reply).map_err(Left::Failed)?,
            FeedItem::Event(event) => self.mirror.event(&event),
            FeedItem::Reached(zxid) => self.mirror.reached(Some(zxid)),
            // What was missed shows in the comparison. To set a watch that stands does no harm.
            FeedItem::Missed | FeedItem::Disarmed => {
                self.mark_stale();
                let style = self.mirror.style();
                self.begin(link, style);
            }
            FeedItem::Lost => self.lose(link),
            FeedItem::Ended(_) => return Err(Left::SessionOver),
            _ => {}
        }
        Ok(())
    }

    /// Sets the watches of this connection and begins to compare.
    fn begin(&mut self, link: &mut Link, style: WatchStyle) {
        self.take_back(link);
        self.mirror.begin(style);
        link.arming = match style {
            WatchStyle::Tree => [FeedRequest::WatchTree(self.mirror.root().into())].into(),
            WatchStyle::OneShot => set_watches(&self.mirror),
        };
        self.arm(link);
    }

    /// Sends the next request that sets watches. The reads need not wait for its reply: they are executed after it.
    fn arm(&mut self, link: &mut Link) {
        match link.arming.pop_front() {
            Some(request) => link.send(Flight::Arm, request),
            None => self.mirror.armed(),
        }
    }

    fn lose(&mut self, link: &mut Link) {
        link.generation = None;
        self.take_back(link);
        self.mark_stale();
    }

    /// Nothing that is in flight will be answered, or its reply is of no use.
    fn take_back(&mut self, link: &mut Link) {
        for flight in link.in_flight.drain().map(|(_, flight)| flight) {
            if let Flight::Sync(waiting) = flight {
                self.waiting.extend(waiting);
            }
        }
        link.reads = 0;
        link.busy.clear();
        link.arming.clear();
    }

    fn mark_stale(&mut self) {
        if let Some((snapshot, changes)) = self.mirror.stale(self.sessions.clock().now()) {
            self.board.publish(snapshot, changes);
        }
    }

    fn handle_reply(&mut self, link: &mut Link, reply: FeedReply) -> Result<(), CacheError> {
        let FeedReply { tag, zxid, outcome } = reply;
        // Of a comparison that was begun anew since.
        let Some(flight) = link.in_flight.remove(&tag) else { return Ok(()) };
        match (flight, outcome) {
            (Flight::Read(read), outcome) => {
                link.reads -= 1;
                self.handle_read(link, read, zxid, outcome)?;
            }
            (Flight::Sync(waiting), outcome) => {
                self.mirror.reached(zxid);
                match (outcome, zxid) {
                    // Whoever has given up waiting does not need it.
                    (Ok(_), Some(zxid)) => {
                        let synced = (zxid, self.mirror.epoch());
                        waiting.into_iter().for_each(|waiting| _ = waiting.send(synced));
                    }
                    // Refused by a server that is cut off, for example.
                    _ => {
                        self.waiting.extend(waiting);
                        self.wait_while_busy(link);
                    }
                }
            }
            (Flight::Arm, Ok(_)) => {
                self.mirror.reached(zxid);
                self.arm(link);
            }
            (Flight::Arm, Err(error)) if error.code() == Some(ErrorCode::Unimplemented) => {
                tracing::info!(
                    root = self.mirror.root(),
                    "the server has no persistent watches; using one-shot watches"
                );
                self.begin(link, WatchStyle::OneShot);
            }
            (Flight::Arm, Err(error)) => {
                tracing::warn!(root = self.mirror.root(), %error, "the server refused to set watches; trying again");
                self.take_back(link);
                link.rearm = true;
                self.wait_while_busy(link);
            }
        }
        Ok(())
    }

    fn handle_read(
        &mut self,
        link: &mut Link,
        read: Read,
        zxid: Option<Zxid>,
        outcome: Result<Reply, Error>,
    ) -> Result<(), CacheError> {
        let size = match &outcome {
            Ok(Reply::Data(Some(data), _)) => data.len(),
            Ok(Reply::Children2(names, _)) => names.len() * 32,
            _ => 0,
        };
        // Follows the size of the replies of about a window.
        self.reply_size = (self.reply_size * 63 + size) / 64;
        let reply = match &outcome {
            Ok(Reply::Data(data, stat)) => ReadReply::Data(data.as_deref().unwrap_or_default(), *stat),
            Ok(Reply::Stat(stat)) => ReadReply::Stat(*stat),
            Ok(Reply::Children2(names, stat)) => ReadReply::Children(names, *stat),
            Ok(_) => ReadReply::Unreadable(UnreadableReason::Refused),
            Err(Error::ReplyTooLarge { .. }) => ReadReply::Unreadable(UnreadableReason::TooLarge),
            Err(error) => match error.code() {
                Some(ErrorCode::NoNode) => ReadReply::Absent,
                Some(ErrorCode::NoAuth) => ReadReply::Unreadable(UnreadableReason::NoAuth),
                // It was not executed. Of a session that is lost the feed tells by itself.
                _ if error.is_retryable() || error.is_session_over() => {
                    link.busy.push(read);
                    self.wait_while_busy(link);
                    return Ok(());
                }
                _ => ReadReply::Unreadable(UnreadableReason::Refused),
            },
        };
        self.mirror.reply(&read, zxid, reply)
    }

    fn wait_while_busy(&self, link: &mut Link) {
        link.busy_until.get_or_insert_with(|| self.sessions.clock().now() + BUSY_PAUSE);
    }

    fn handle_timeouts(&mut self, link: &mut Link) {
        if link.next_timeout().is_none() {
            return;
        }
        let now = self.sessions.clock().now();
        if link.busy_until.is_some_and(|until| until <= now) {
            link.busy_until = None;
            mem::take(&mut link.busy).into_iter().for_each(|read| self.mirror.send_again(read));
            if mem::take(&mut link.rearm) && link.generation.is_some() {
                let style = self.mirror.style();
                self.begin(link, style);
            }
        }
        if link.unreadable_at.is_some_and(|at| at <= now) {
            link.unreadable_at = None;
            if link.generation.is_some() {
                self.mirror.ask_for_unreadable();
            }
        }
    }

    /// Sends what there is to read, as far as the window allows.
    fn send(&mut self, link: &mut Link) {
        if link.generation.is_none() {
            return;
        }
        if !self.waiting.is_empty() && link.busy_until.is_none() {
            let request = FeedRequest::Sync(self.mirror.root().into());
            link.send(Flight::Sync(mem::take(&mut self.waiting)), request);
        }
        let window = (WINDOW_BYTES / (self.reply_size + 1)).clamp(LEAST_WINDOW, WINDOW);
        while link.reads < window {
            let Some(read) = self.mirror.next_read() else { break };
            let request = self.mirror.request_of(&read);
            link.reads += 1;
            link.send(Flight::Read(read), request);
        }
    }

    fn publish(&mut self, link: &mut Link) {
        if !link.busy.is_empty() {
            return;
        }
        if let Some((snapshot, changes)) = self.mirror.snapshot() {
            self.board.publish(snapshot, changes);
        }
        if self.mirror.has_unreadable() && link.unreadable_at.is_none() {
            link.unreadable_at = Some(self.sessions.clock().now() + UNREADABLE_PAUSE);
        }
    }
}

impl Link {
    fn new(feed: Feed) -> Self {
        Self {
            feed,
            generation: None,
            next_tag: 0,
            in_flight: HashMap::new(),
            reads: 0,
            arming: VecDeque::new(),
            unreadable_at: None,
            busy: Vec::new(),
            busy_until: None,
            rearm: false,
        }
    }

    fn send(&mut self, flight: Flight, request: FeedRequest) {
        let Some(generation) = self.generation else { return };
        self.next_tag += 1;
        self.in_flight.insert(self.next_tag, flight);
        self.feed.send(generation, self.next_tag, request);
    }

    fn next_timeout(&self) -> Option<Instant> {
        [self.unreadable_at, self.busy_until].into_iter().flatten().min()
    }
}

/// The requests that set one-shot watches on all that the base has, and report what has changed since.
fn set_watches<T>(mirror: &Mirror<T>) -> VecDeque<FeedRequest> {
    let mut requests = VecDeque::new();
    let Some((relative_zxid, nodes)) = mirror.known() else { return requests };
    let (mut paths, mut bytes) = (Vec::new(), 0);
    let mut flush = |paths: &mut Vec<String>| {
        let data = mem::take(paths);
        if !data.is_empty() {
            let (exist, child) = (Vec::new(), data.clone());
            requests.push_back(FeedRequest::SetWatches(SetWatches { relative_zxid, data, exist, child }));
        }
    };
    for path in nodes.keys() {
        // In both lists, each time with its length.
        let length = 2 * (path.len() + 4);
        if bytes + length > WATCHES_CHUNK {
            flush(&mut paths);
            bytes = 0;
        }
        bytes += length;
        paths.push((**path).to_owned());
    }
    flush(&mut paths);
    requests
}
