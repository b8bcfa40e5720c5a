//! Damage to the order of messages and zxids.

use zoolet_proto::{DecodeError, SessionId};

use super::*;

use zoolet::testing::Side;

#[test]
fn swapped_replies_break_the_request_order() {
    let rule = broken_by(|case| {
        let (one, other) = (case.reply_at(A, 5), case.reply_at(A, 6));
        case.entries.swap(one, other);
    });
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_missing_reply_breaks_the_request_order() {
    let rule = broken_by(|case| _ = case.entries.remove(case.reply_at(A, 5)));
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_duplicate_reply_breaks_the_request_order() {
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 2);
        case.entries.insert(at, case.entries[at].clone());
    });
    assert_eq!(rule, Rule::RequestOrder);
}

#[test]
fn a_decreasing_zxid_on_a_connection_is_detected() {
    assert_eq!(broken_by(|case| case.reply(A, 3).0.zxid = Zxid(2)), Rule::ZxidsNeverFall);
    // Nor may it be lower than that of an event.
    assert_eq!(broken_by(|case| case.reply(A, 3).0.zxid = Zxid(3)), Rule::ZxidsNeverFall);
}

#[test]
fn a_reply_without_a_zxid_is_detected() {
    for (xid, zxid) in [(1, 0), (1, -1), (2, 0)] {
        assert_eq!(broken_by(|case| case.reply(A, xid).0.zxid = Zxid(zxid)), Rule::ZxidsNeverFall);
    }
}

/// One client writes, and then another sends its first request.
fn one_after_the_other(ask: impl AsyncFnOnce(&Client)) -> Case {
    recorded(async |server, history, zk| {
        let other = client(server, history).await;
        zk.create("/a", "one").await.expect("a znode");
        zk.set_data("/a", "two").await.expect("a write");
        ask(&other).await;
    })
}

#[test]
fn a_stale_read_breaks_the_real_time_order() {
    let mut case = one_after_the_other(async |other| _ = other.get_data("/a").await.expect("two"));
    assert_eq!(case.rules(), [None; 2]);
    let (_, Reply::Created2(_, stat)) = case.reply(A, 1) else { panic!("no create") };
    let before = Reply::Data(Some("one".into()), *stat);
    let (header, reply) = case.reply(B, 1);
    (header.zxid, *reply) = (Zxid(3), before);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
}

#[test]
fn a_write_ordered_before_an_earlier_one_breaks_the_real_time_order() {
    let mut case = one_after_the_other(async |other| _ = other.delete("/none").await.expect_err("none"));
    assert_eq!(case.rules(), [None; 2]);
    // As if it had been executed between the two writes of the other client.
    case.reply(B, 1).0.zxid = Zxid(4);
    let (header, Reply::Stat(stat)) = case.reply(A, 2) else { panic!("no setData") };
    (header.zxid, stat.mzxid) = (Zxid(5), Zxid(5));
    (case.txns[3].zxid, case.txns[4].zxid) = (Zxid(5), Zxid(4));
    case.txns.swap(3, 4);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
    // A write needs a new zxid, not the latest one.
    let mut case = one_after_the_other(async |other| _ = other.delete("/none").await.expect_err("none"));
    case.reply(B, 1).0.zxid = Zxid(4);
    assert_eq!(case.rules(), [Some(Rule::RealTime); 2]);
}

#[test]
fn one_zxid_for_two_writes_is_detected() {
    let rule = broken_by(|case| {
        let zxid = case.reply(A, 4).0.zxid;
        case.reply(B, 3).0.zxid = zxid;
    });
    assert_eq!(rule, Rule::OwnZxid);
}

#[test]
fn a_gap_in_the_zxids_is_detected_with_the_transactions_and_undecided_without() {
    let mut case = valid();
    case.raise(5, 1);
    assert_eq!(case.rules()[1], Some(Rule::DenseZxids));
    let undecided = Undecided::UnknownTransactions { count: 1, first: Zxid(1) };
    assert_eq!(case.check().expect_err("too many zxids"), CheckError::Undecided(undecided));
}

#[test]
fn a_session_opened_without_a_zxid_is_detected() {
    let mut case = valid();
    case.raise(2, -1);
    assert_eq!(case.rules(), [Some(Rule::DenseZxids); 2]);
}

#[test]
fn a_reply_after_the_end_of_a_session_is_detected() {
    let rule = broken_by(|case| {
        // Repeats a read of A on the connection of B after B has closed its session.
        let (request, reply) = (case.request_at(A, 12), case.reply_at(A, 12));
        for at in [reply, request] {
            let again = HistoryEntry { conn: B_AGAIN, ..case.entries[at].clone() };
            case.entries.insert(reply + 1, again);
        }
    });
    assert_eq!(rule, Rule::SessionEnd);
}

#[test]
fn a_session_resumed_under_another_id_is_detected() {
    let rule = broken_by(|case| {
        let at = case.find("connect response", |entry| {
            entry.conn == B_AGAIN && matches!(entry.event, HistoryEvent::ConnectResponse { .. })
        });
        case.entries[at].event = HistoryEvent::ConnectResponse { session: SessionId(7) };
    });
    assert_eq!(rule, Rule::Handshake);
}

#[test]
fn one_session_id_for_two_clients_is_detected() {
    let rule = broken_by(|case| {
        let response = |conn: Conn| {
            move |entry: &HistoryEntry| {
                entry.conn == conn && matches!(entry.event, HistoryEvent::ConnectResponse { .. })
            }
        };
        let (one, other) =
            (case.find("connect response", response(A)), case.find("connect response", response(B)));
        case.entries[other].event = case.entries[one].event.clone();
    });
    assert_eq!(rule, Rule::Handshake);
}

#[test]
fn messages_of_the_server_must_decode() {
    let why = || "noise".to_owned();
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 3);
        case.entries[at].event = HistoryEvent::Unreadable { from: Side::Server, why: why() };
    });
    assert_eq!(rule, Rule::ReadableFrames);
    let rule = broken_by(|case| {
        let at = case.reply_at(A, 3);
        if let HistoryEvent::Reply(_, reply) = &mut case.entries[at].event {
            *reply = Err(DecodeError::Malformed);
        }
    });
    assert_eq!(rule, Rule::ReadableFrames);
    let mut case = valid();
    let noise = HistoryEntry {
        event: HistoryEvent::Unreadable { from: Side::Client, why: why() },
        ..case.entries[5].clone()
    };
    case.entries.insert(5, noise);
    assert!(case.check().is_ok(), "clients may send anything");
}
