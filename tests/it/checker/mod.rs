//! A valid history and many ways to damage it: the checker must report the right rule for each.

mod events;
mod order;
mod results;
mod transactions;
mod unknown;

use std::time::Duration;
use zoolet::testing::FixtureExt as _;

use tokio::runtime::Builder;
use zoolet::client::Clock;
use zoolet::testing::{
    CheckError, Checker, Conn, History, HistoryEntry, HistoryEvent, Rule, Undecided, Verdict, decided,
};
use zoolet::{AddWatchMode, Client, Server};
use zoolet_proto::records::{OpResult, WatchedEvent};
use zoolet_proto::{EventType, Reply, ReplyHeader, Stat, WatcherType, Xid, Zxid};
use zoolet_server_core::Txn;

/// The connections of the valid history.
const A: Conn = Conn(0);
const B: Conn = Conn(1);
/// The connection with which B reconnects.
const B_AGAIN: Conn = Conn(2);

/// A history and the transactions of its server.
#[derive(Clone)]
struct Case {
    entries: Vec<HistoryEntry>,
    txns: Vec<Txn>,
}

fn run<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime").block_on(work)
}

async fn server() -> Server {
    zoolet_test_support::limit();
    // Where zxids begin at 0.
    let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_225_600));
    let server =
        Server::builder().clock(clock).tick_time(Duration::from_secs(1)).start().await.expect("a server");
    server.fixture();
    server
}

async fn client(server: &Server, history: &History) -> Client {
    Client::connect(history.tap(server.in_process())).await.expect("a session")
}

/// The recording of a client that does `work`.
fn recorded(work: impl AsyncFnOnce(&Server, &History, &Client)) -> Case {
    run(async {
        let (server, history) = (server().await, History::new());
        let zk = client(&server, &history).await;
        work(&server, &history, &zk).await;
        Case { entries: history.entries(), txns: server.fixture().transactions() }
    })
}

/// A history with some of everything. The comments give the xid and, for writes and events, the zxid.
fn valid() -> Case {
    run(async {
        let (server, history) = (server().await, History::new());
        let a = client(&server, &history).await; // session, 1
        let b = client(&server, &history).await; // session, 2
        a.create("/a", "one").await.expect("a1, 3");
        let (_, _, watch) = a.get_data("/a").watch().await.expect("a2");
        b.set_data("/a", "two").await.expect("b1, 4, and an event for A");
        b.get_data("/a").await.expect("b2, shows it");
        a.get_data("/a").await.expect("a3, shows it");
        watch.changed().await.expect("an event");
        // At the same time.
        let one = a.create("/s-", "").sequential().send(); // a4
        let other = b.create("/s-", "").sequential().send(); // b3
        one.await.and(other.await).expect("5 and 6");
        // In one write.
        let both = (a.exists("/a").send(), a.get_children("/").send()); // a5, a6
        both.0.await.expect("an answer");
        both.1.await.expect("an answer");
        let stream = a.add_watch("/w", AddWatchMode::Persistent).await.expect("a7");
        let multi = b.multi().create("/w", "").create("/w/x", "").set_data("/a", "three").check("/w", 0);
        multi.commit().await.expect("b4, 7, two events for A");
        a.get_children("/w").await.expect("a8");
        b.create("/a", "").await.expect_err("b5, 8: it exists");
        b.multi().set_data("/a", "four").create("/a", "").set_data("/w", "").await.expect_err("b6, 9");
        a.check_watches("/w", WatcherType::Persistent).await.expect("a9");
        b.create("/e", "").ephemeral().await.expect("b7, a");
        let (_, watch) = a.exists("/e").watch().await.expect("a10");
        let (_, _, children) = b.get_children("/w").watch().await.expect("b8");
        server.fixture().refuse_connections();
        server.fixture().disconnect(b.session_id()).await.expect("a session");
        a.create("/w/y", "").await.expect("a11, b, an event for A");
        server.fixture().accept_connections();
        b.get_ephemerals("/").await.expect("b9 after the setWatches with the event that B has missed");
        children.changed().await.expect("an event");
        b.close().await.expect("b10, c, an event for A");
        watch.changed().await.expect("an event");
        a.sync("/").await.expect("a12");
        drop(stream);
        a.close().await.expect("a13 after the removeWatches, d");
        Case { entries: history.entries(), txns: server.fixture().transactions() }
    })
}

impl Case {
    fn check(&self) -> Result<Verdict, CheckError> {
        Checker::new().check(&self.entries)
    }

    fn check_with_txns(&self) -> Result<Verdict, CheckError> {
        Checker::new().transactions(decided(&self.txns)).check(&self.entries)
    }

    /// The broken rule, for the history alone and with the transactions.
    fn rules(&self) -> [Option<Rule>; 2] {
        let rule = |outcome: Result<Verdict, CheckError>| outcome.err().and_then(|error| error.rule());
        [rule(self.check()), rule(self.check_with_txns())]
    }

    /// The index of the first match, which must exist.
    fn find(&self, name: &str, matches: impl Fn(&HistoryEntry) -> bool) -> usize {
        self.entries.iter().position(matches).unwrap_or_else(|| panic!("no {name} in the history"))
    }

    fn reply_at(&self, conn: Conn, xid: i32) -> usize {
        self.find("reply", |entry| {
            entry.conn == conn
                && matches!(&entry.event, HistoryEvent::Reply(header, _) if header.xid == Xid(xid))
        })
    }

    fn request_at(&self, conn: Conn, xid: i32) -> usize {
        self.find("request", |entry| {
            entry.conn == conn
                && matches!(&entry.event, HistoryEvent::Request(incoming) if incoming.xid == Xid(xid))
        })
    }

    fn event_at(&self, conn: Conn, kind: EventType, path: &str) -> usize {
        self.find("event", |entry| {
            let matches = |event: &WatchedEvent| event.kind == kind && event.path == path;
            entry.conn == conn && matches!(&entry.event, HistoryEvent::Event(_, event) if matches(event))
        })
    }

    fn reply(&mut self, conn: Conn, xid: i32) -> (&mut ReplyHeader, &mut Reply) {
        let at = self.reply_at(conn, xid);
        match &mut self.entries[at].event {
            HistoryEvent::Reply(header, Ok(reply)) => (header, reply),
            other => panic!("{other}"),
        }
    }

    fn stat(&mut self, conn: Conn, xid: i32) -> &mut Stat {
        match self.reply(conn, xid).1 {
            Reply::Stat(stat) | Reply::Data(_, stat) | Reply::Children2(_, stat) => stat,
            other => panic!("{other:?}"),
        }
    }

    /// Moves the entry at `from` before the one at `to`, with its time.
    fn shift(&mut self, from: usize, to: usize) {
        let mut entry = self.entries.remove(from);
        let to = if from < to { to - 1 } else { to };
        entry.at = self.entries[to].at;
        self.entries.insert(to, entry);
    }

    /// Adds to every zxid from `first` on, in replies, events and transactions.
    fn raise(&mut self, first: i64, by: i64) {
        let raise = |zxid: &mut Zxid| zxid.0 += if zxid.0 >= first { by } else { 0 };
        let stat =
            |stat: &mut Stat| [&mut stat.czxid, &mut stat.mzxid, &mut stat.pzxid].into_iter().for_each(raise);
        for entry in &mut self.entries {
            match &mut entry.event {
                HistoryEvent::Reply(header, reply) => {
                    raise(&mut header.zxid);
                    match reply {
                        Ok(Reply::Created2(_, it) | Reply::Stat(it) | Reply::Data(_, it)) => stat(it),
                        Ok(Reply::Acl(_, it) | Reply::Children2(_, it)) => stat(it),
                        Ok(Reply::Multi(parts)) => parts.iter_mut().for_each(|part| match part {
                            OpResult::Create2(_, it) | OpResult::SetData(it) => stat(it),
                            _ => {}
                        }),
                        _ => {}
                    }
                }
                HistoryEvent::Event(zxid, _) => raise(zxid),
                _ => {}
            }
        }
        self.txns.iter_mut().for_each(|txn| raise(&mut txn.zxid));
    }
}

/// The rule that both kinds of check report after this damage to the valid history.
#[track_caller]
fn broken_by(damage: impl FnOnce(&mut Case)) -> Rule {
    let mut case = valid();
    damage(&mut case);
    let [alone, with_txns] = case.rules();
    assert_eq!(alone, with_txns, "the transactions make no difference");
    alone.unwrap_or_else(|| panic!("the damage is not detected: {:?}", case.check().err()))
}

#[test]
fn a_valid_history_passes() {
    let case = valid();
    for verdict in [case.check(), case.check_with_txns()] {
        let verdict = verdict.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((verdict.writes, verdict.events, verdict.unanswered), (11, 6, 0));
        let paths: Vec<_> = verdict.model.paths().filter(|path| !path.starts_with("/zookeeper")).collect();
        assert_eq!(paths, ["/", "/a", "/s-0000000001", "/s-0000000002", "/w", "/w/x", "/w/y"]);
    }
}

#[test]
fn a_violation_names_the_rule_and_both_operations() {
    let mut case = valid();
    let at = case.event_at(A, EventType::NodeDataChanged, "/a");
    case.shift(at, case.reply_at(A, 4));
    let text = case.check().expect_err("a violation").to_string();
    let session = |conn: Conn| {
        let found = case.entries.iter().find_map(|entry| match entry.event {
            HistoryEvent::ConnectResponse { session } if entry.conn == conn => Some(session),
            _ => None,
        });
        found.expect("a session")
    };
    let expected = format!(
        "broken: an event comes before every reply that shows its change\n  \
         event NodeDataChanged /a (session {0}, zxid 0x4, connection 0)\n  \
         contradicts GetData(GetData {{ path: \"/a\", watch: false }}) (session {0}, xid 3, zxid 0x4, connection 0)\n  \
         expected: it before any message of zxid 0x4 or later\n  \
         seen:     it after that message",
        session(A)
    );
    assert_eq!(text, expected);
}
