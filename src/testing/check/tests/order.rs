//! Damage to the order of things.

use zoolet_proto::{DecodeError, SessionId};

use super::*;
use crate::testing::Side;

#[test]
fn two_replies_the_wrong_way_round_break_the_order_of_requests() {
    let rule = broken_by(|case| {
        let (one, other) = (case.reply_at(A, 5), case.reply_at(A, 6));
        case.entries.swap(one, other);
    });
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_reply_that_is_left_out_breaks_the_order_of_requests() {
    let rule = broken_by(|case| _ = case.entries.remove(case.reply_at(A, 5)));
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_reply_that_comes_twice_breaks_the_order_of_requests() {
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 2);
        case.entries.insert(at, case.entries[at].clone());
    });
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_zxid_that_falls_on_a_connection_is_found() {
    assert_eq!(broken_by(|case| case.reply(A, 3).0.zxid = Zxid(2)), Rule::ZxidsNeverFall);
    // Not even to what an event has shown.
    assert_eq!(broken_by(|case| case.reply(A, 3).0.zxid = Zxid(3)), Rule::ZxidsNeverFall);
}

#[test]
fn a_reply_without_a_zxid_is_found() {
    for (xid, zxid) in [(1, 0), (1, -1), (2, 0)] {
        assert_eq!(broken_by(|case| case.reply(A, xid).0.zxid = Zxid(zxid)), Rule::ZxidsNeverFall);
    }
}

/// One client writes, and then another asks for the first time.
fn one_after_the_other(ask: impl AsyncFnOnce(&Client)) -> Case {
    recorded(async |server, history, zk| {
        let other = client(server, history).await;
        zk.create("/a", "one").await.expect("a znode");
        zk.set_data("/a", "two").await.expect("a write");
        ask(&other).await;
    })
}

#[test]
fn a_stale_read_is_found_by_real_time() {
    let mut case = one_after_the_other(async |other| _ = other.get_data("/a").await.expect("two"));
    assert_eq!(case.rules(), [None; 2]);
    let (_, Reply::Created2(_, stat)) = case.reply(A, 1) else { panic!("no create") };
    let before = Reply::Data(Some("one".into()), *stat);
    let (header, reply) = case.reply(B, 1);
    (header.zxid, *reply) = (Zxid(3), before);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
}

#[test]
fn a_write_before_one_that_was_over_when_it_began_is_found_by_real_time() {
    let mut case = one_after_the_other(async |other| _ = other.delete("/none").await.expect_err("none"));
    assert_eq!(case.rules(), [None; 2]);
    // As if it had happened between the two of the other client.
    case.reply(B, 1).0.zxid = Zxid(4);
    let (header, Reply::Stat(stat)) = case.reply(A, 2) else { panic!("no setData") };
    (header.zxid, stat.mzxid) = (Zxid(5), Zxid(5));
    (case.txns[3].zxid, case.txns[4].zxid) = (Zxid(5), Zxid(4));
    case.txns.swap(3, 4);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
    // A write is something new: it does not even stand beside what was seen.
    let mut case = one_after_the_other(async |other| _ = other.delete("/none").await.expect_err("none"));
    case.reply(B, 1).0.zxid = Zxid(4);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
}

#[test]
fn one_zxid_for_two_writes_is_found() {
    let rule = broken_by(|case| {
        let zxid = case.reply(A, 4).0.zxid;
        case.reply(B, 3).0.zxid = zxid;
    });
    assert_eq!(rule, Rule::OwnZxid);
}

#[test]
fn a_zxid_that_is_left_out_is_found_with_the_transactions_and_undecided_without() {
    let mut case = good();
    case.raise(5, 1);
    assert_eq!(case.rules()[1], Some(Rule::DenseZxids));
    let undecided = Undecided::UnknownTransactions { count: 1, first: Zxid(1) };
    assert_eq!(case.check().expect_err("too many zxids"), CheckError::Undecided(undecided));
}

#[test]
fn a_session_that_was_opened_without_a_zxid_is_found() {
    let mut case = good();
    case.raise(2, -1);
    assert_eq!(case.rules(), [Some(Rule::DenseZxids); 2]);
}

#[test]
fn an_answer_to_a_session_that_has_ended_is_found() {
    let rule = broken_by(|case| {
        // A read of A once more, but on the connection of B that has closed its session, when A closes.
        let (request, reply) = (case.request_at(A, 12), case.reply_at(A, 12));
        for at in [reply, request] {
            let again = HistoryEntry { conn: AGAIN, ..case.entries[at].clone() };
            case.entries.insert(reply + 1, again);
        }
    });
    assert_eq!(rule, Rule::SessionEnd);
}

#[test]
fn a_session_that_is_taken_up_as_another_is_found() {
    let rule = broken_by(|case| {
        let at = case.find("welcome", |entry| {
            entry.conn == AGAIN && matches!(entry.what, HistoryEvent::Welcome { .. })
        });
        case.entries[at].what = HistoryEvent::Welcome { session: SessionId(7) };
    });
    assert_eq!(rule, Rule::Handshake);
}

#[test]
fn one_session_for_two_is_found() {
    let rule = broken_by(|case| {
        let welcome = |conn: Conn| {
            move |entry: &HistoryEntry| {
                entry.conn == conn && matches!(entry.what, HistoryEvent::Welcome { .. })
            }
        };
        let (one, other) = (case.find("welcome", welcome(A)), case.find("welcome", welcome(B)));
        case.entries[other].what = case.entries[one].what.clone();
    });
    assert_eq!(rule, Rule::Handshake);
}

#[test]
fn what_the_server_sends_must_decode() {
    let why = || "noise".to_owned();
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 3);
        case.entries[at].what = HistoryEvent::Unreadable { from: Side::Server, why: why() };
    });
    assert_eq!(rule, Rule::ReadableFrames);
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 3);
        if let HistoryEvent::Reply(_, reply) = &mut case.entries[at].what {
            *reply = Err(DecodeError::Malformed);
        }
    });
    assert_eq!(rule, Rule::ReadableFrames);
    let mut case = good();
    let noise = HistoryEntry {
        what: HistoryEvent::Unreadable { from: Side::Client, why: why() },
        ..case.entries[5].clone()
    };
    case.entries.insert(5, noise);
    assert!(case.check().is_ok(), "what a client sends is its own affair");
}
