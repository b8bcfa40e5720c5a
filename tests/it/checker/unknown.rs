//! Writes whose outcome no client knows, and what the server does by itself.

use zoolet::testing::FixtureExt as _;
use zoolet_proto::{Acl, OpCode, Perms};

use super::*;

use zoolet::testing::op;

#[test]
fn a_write_without_a_reply_is_undecided_without_the_transactions() {
    let outcomes = [true, false].map(|happens| {
        let case = recorded(async |server, _, zk| {
            zk.create("/a", "one").await.expect("a znode");
            let fault = server.fixture().faults().on(op(OpCode::SetData).nth(1));
            let placed = if happens { fault.lose_reply() } else { fault.drop_request() };
            placed.expect("a fault");
            zk.set_data("/a", "two").await.expect_err("unknown outcome");
            zk.get_data("/a").await.expect("one or two");
            zk.close().await.expect("an end");
        });
        let error = case.check().expect_err("undecided");
        let unknown =
            matches!(&error, CheckError::Undecided(Undecided::UnknownOutcome(op)) if op.xid == Some(Xid(2)));
        assert!(unknown, "{error}");
        let verdict = case.check_with_txns().unwrap_or_else(|error| panic!("{error}"));
        (verdict.writes, verdict.unanswered)
    });
    assert_eq!(outcomes, [(3, 0), (2, 1)]);
}

#[test]
fn a_write_of_a_moved_session_changes_nothing_with_or_without_a_reply() {
    let mut case = recorded(async |server, _, zk| {
        server.fixture().move_session(zk.session_id()).await.expect("a session");
        zk.create("/a", "one").await.expect_err("moved");
        assert_eq!(zk.exists("/a").await.expect("an answer"), None);
    });
    let reply = case.reply_at(A, 1);
    assert!(matches!(&case.entries[reply].event, HistoryEvent::Reply(header, _) if header.err == -118));
    assert_eq!(case.rules()[1], None);
    case.entries.remove(reply);
    assert_eq!(case.rules()[1], None);
    assert!(case.check_with_txns().is_ok());
}

#[test]
fn a_write_without_a_reply_follows_what_its_client_saw_before() {
    let mut case = recorded(async |server, _, zk| {
        zk.create("/a", "one").await.expect("a znode");
        server.fixture().faults().on(op(OpCode::SetData).nth(1)).lose_reply().expect("a fault");
        zk.set_data("/a", "two").await.expect_err("unknown outcome");
    });
    assert_eq!(case.rules()[1], None);
    // As if the write had been executed before the create.
    let (create, set) = (case.txns[1].clone(), case.txns[2].clone());
    case.txns[1] = Txn { zxid: create.zxid, ..set };
    case.txns[2] = Txn { zxid: set.zxid, ..create };
    case.reply(A, 1).0.zxid = Zxid(3);
    assert_eq!(case.rules()[1], Some(Rule::ZxidsNeverFall));
}

#[test]
fn a_write_without_a_reply_follows_what_other_clients_saw_before() {
    let mut case = recorded(async |server, history, zk| {
        let other = client(server, history).await;
        zk.create("/a", "one").await.expect("a znode");
        server.fixture().faults().on(op(OpCode::Create2).nth(1)).lose_reply().expect("a fault");
        other.create("/b", "").await.expect_err("unknown outcome");
    });
    assert_eq!(case.rules()[1], None);
    let (one, other) = (case.txns[2].clone(), case.txns[3].clone());
    case.txns[2] = Txn { zxid: one.zxid, ..other.clone() };
    case.txns[3] = Txn { zxid: other.zxid, ..one };
    let (header, Reply::Created2(_, stat)) = case.reply(A, 1) else { panic!("no create") };
    (header.zxid, stat.czxid, stat.mzxid, stat.pzxid) = (Zxid(4), Zxid(4), Zxid(4), Zxid(4));
    // The create was seen before, and is now the later one.
    assert_eq!(case.rules()[1], Some(Rule::RealTime));
}

#[test]
fn of_two_writes_without_a_reply_and_with_one_xid_the_one_that_was_executed_is_found() {
    let case = two_lost_writes_with_one_xid(None);
    let verdict = case.check_with_txns().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((verdict.writes, verdict.unanswered), (2, 1));
}

#[test]
fn of_two_writes_without_a_reply_and_with_one_xid_either_may_have_been_refused() {
    let mut case = two_lost_writes_with_one_xid(Some(7));
    // Otherwise the first reply on the second connection shows that the first write was not executed before.
    case.entries.retain(|entry| entry.conn != B || is_set(entry) || !is_exchange(entry));
    let verdict = case.check_with_txns().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((verdict.writes, verdict.unanswered), (1, 2));
}

/// Of the two only the second one reaches the server. Their xids are those of a client that numbers its requests from the start on each
/// connection.
fn two_lost_writes_with_one_xid(version: Option<i32>) -> Case {
    let mut case = recorded(async |server, _, zk| {
        zk.create("/a", "one").await.expect("a znode");
        for executed in [false, true] {
            let fault = server.fixture().faults().on(op(OpCode::SetData).nth(1));
            let placed = if executed { fault.lose_reply() } else { fault.drop_request() };
            placed.expect("a fault");
            let (data, version) = if executed { ("three", version) } else { ("two", None) };
            zk.set_data("/a", data).version(version).await.expect_err("unknown outcome");
        }
        zk.get_data("/a").await.expect("an answer");
    });
    let sets: Vec<usize> = (0..case.entries.len()).filter(|at| is_set(&case.entries[*at])).collect();
    let [lost, executed] = sets[..] else { panic!("{} requests", sets.len()) };
    let HistoryEvent::Request(first) = &case.entries[lost].event else { panic!("no request") };
    let xid = first.xid;
    let HistoryEvent::Request(second) = &mut case.entries[executed].event else { panic!("no request") };
    case.txns.iter_mut().filter(|txn| txn.xid == second.xid).for_each(|txn| txn.xid = xid);
    second.xid = xid;
    case
}

fn is_exchange(entry: &HistoryEntry) -> bool {
    matches!(&entry.event, HistoryEvent::Request(_) | HistoryEvent::Reply(..))
}

fn is_set(entry: &HistoryEntry) -> bool {
    matches!(&entry.event, HistoryEvent::Request(request) if request.op == OpCode::SetData.code())
}

#[test]
fn a_request_after_a_close_is_never_executed() {
    let mut case = valid();
    let late = HistoryEntry { conn: A, ..case.entries[case.request_at(A, 1)].clone() };
    let at = case.entries.len() - 1;
    case.entries.insert(at, HistoryEntry { at: case.entries[at].at, ..late });
    assert_eq!(case.check().map(|verdict| verdict.unanswered), Ok(1));
}

#[test]
fn a_session_without_a_reply_may_hide_an_expiry() {
    let case = recorded(async |server, history, zk| {
        let other = client(server, history).await;
        other.create("/e", "").ephemeral().await.expect("a znode");
        server.fixture().expire_session(other.session_id()).await.expect("a session");
        assert_eq!(zk.exists("/e").await.expect("an answer"), None);
        client(server, history).await;
    });
    let error = case.check().expect_err("undecided");
    assert!(matches!(error, CheckError::Undecided(Undecided::UnknownTransactions { .. })), "{error}");
    assert_eq!(case.rules()[1], None);
}

#[test]
fn the_ephemerals_of_a_session_are_deleted_in_any_order() {
    let mut case = recorded(async |server, history, zk| {
        let other = client(server, history).await;
        let stream = zk.add_watch("/", AddWatchMode::PersistentRecursive).await.expect("a watch");
        other.create("/e", "").ephemeral().await.expect("a znode");
        other.create("/f", "").ephemeral().await.expect("a znode");
        other.close().await.expect("an end");
        zk.sync("/").await.expect("all events before it");
        drop(stream);
    });
    let gone = |path| case.event_at(A, EventType::NodeDeleted, path);
    let (one, other) = (gone("/e"), gone("/f"));
    case.entries.swap(one, other);
    assert_eq!(case.rules(), [None; 2]);
    assert!(case.check().is_ok());
}

#[test]
fn an_expiry_deletes_the_ephemerals_and_notifies_watchers() {
    let mut case = recorded(async |server, history, zk| {
        let other = client(server, history).await;
        other.create("/e", "").ephemeral().await.expect("a znode");
        let (_, watch) = zk.exists("/e").watch().await.expect("a watch");
        server.fixture().expire_session(other.session_id()).await.expect("a session");
        watch.changed().await.expect("an event");
        zk.exists("/e").await.expect("none");
    });
    let error = case.check().expect_err("undecided");
    assert!(
        matches!(error, CheckError::Undecided(Undecided::UnknownTransactions { count: 1, .. })),
        "{error}"
    );
    assert_eq!(case.rules()[1], None);
    case.entries.remove(case.event_at(A, EventType::NodeDeleted, "/e"));
    assert_eq!(case.rules()[1], Some(Rule::EventDelivered));
}

#[test]
fn writes_of_unrecorded_clients_count_with_the_transactions() {
    let case = recorded(async |server, _, zk| {
        server.fixture().set("/a/b", "direct").await.expect("a write");
        zk.get_data("/a/b").await.expect("a znode");
        server.fixture().delete("/a").await.expect("a write");
        zk.get_children("/").await.expect("a list");
    });
    assert_eq!(case.rules()[1], None);
    assert_eq!(case.rules()[0], None, "undecided is not a violation");
    assert!(case.check().is_err());
}

#[test]
fn the_server_may_delete_containers_and_ttl_znodes() {
    let case = run(async {
        let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_225_600));
        let settings = Server::builder().extended_types(true).clock(clock);
        let settings = settings.container_check_interval(Duration::from_secs(5));
        let (server, history) = (settings.start().await.expect("a server"), History::new());
        server.fixture();
        let zk = client(&server, &history).await;
        zk.create("/c", "").container().await.expect("a container");
        zk.create("/c/x", "").ttl(Duration::from_secs(1)).await.expect("a znode");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(zk.exists("/c").await.expect("an answer"), None);
        zk.close().await.expect("an end");
        Case { entries: history.entries(), txns: server.fixture().transactions() }
    });
    let checker = Checker::new().transactions(decided(&case.txns)).extended_types(true);
    checker.check(&case.entries).unwrap_or_else(|error| panic!("{error}"));
    // A server without extended types creates none.
    assert_eq!(case.rules()[1], Some(Rule::WriteResult));
}

#[test]
fn withheld_replies_must_be_declared() {
    let case = recorded(async |server, history, zk| {
        zk.create("/a", "one").await.expect("a znode");
        server.fixture().faults().on(op(OpCode::GetData)).withhold_reply().expect("a fault");
        let _watches = zk.get_data("/a").watch().send();
        let _does_not = zk.get_data("/none").watch().send();
        let other = client(server, history).await;
        tokio::task::yield_now().await;
        other.set_data("/a", "two").await.expect("a write");
        other.create("/none", "").await.expect("a znode");
        _ = zk.exists("/a").timeout(Duration::from_secs(1)).await;
        other.close().await.expect("an end");
    });
    let notified =
        case.entries.iter().any(|entry| entry.conn == A && matches!(entry.event, HistoryEvent::Event(..)));
    assert!(notified, "the watch is set although its reply is missing");
    let checker = Checker::new().transactions(decided(&case.txns));
    let rule = |outcome: Result<Verdict, CheckError>| outcome.err().and_then(|error| error.rule());
    assert_eq!(rule(checker.check(&case.entries)), Some(Rule::RequestOrder));
    assert_eq!(rule(checker.replies_may_be_withheld().check(&case.entries)), None);
}

#[test]
fn an_unmodelled_request_is_undecided() {
    let case = recorded(async |_, _, zk| {
        zk.add_auth("digest", "bob:pw").await.expect("an identity");
        zk.create("/a", "").acl(Acl::creator_all()).await.expect("a znode");
    });
    let error = case.check().expect_err("undecided");
    assert!(matches!(error, CheckError::Undecided(Undecided::Unmodelled { .. })), "{error}");
}

#[test]
fn acls_for_every_client_are_modelled() {
    let case = recorded(async |_, _, zk| {
        let (_, _, watch) = {
            zk.create("/a", "").await.expect("a znode");
            zk.get_data("/a").watch().await.expect("a watch")
        };
        let acl = vec![Acl::new(Perms::WRITE | Perms::ADMIN, "world", "anyone")];
        zk.set_acl("/a", acl).await.expect("a write");
        zk.get_data("/a").await.expect_err("no permission");
        zk.set_data("/a", "unseen").await.expect("a write without an event");
        zk.create("/a/b", "").await.expect_err("no permission");
        drop(watch);
        zk.close().await.expect("an end");
    });
    assert_eq!(case.rules(), [None; 2]);
    case.check().unwrap_or_else(|error| panic!("{error}"));
}
