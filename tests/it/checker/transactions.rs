//! Damage to the server's transactions.

use zoolet_proto::{ErrorCode, SessionId};
use zoolet_server_core::{Millis, TxnOp};

use super::*;

/// The broken rule, with the transactions.
#[track_caller]
fn broken_by_txns(damage: impl FnOnce(&mut Vec<Txn>)) -> Rule {
    let mut case = valid();
    damage(&mut case.txns);
    let error = case.check_with_txns().expect_err("a violation");
    error.rule().unwrap_or_else(|| panic!("{error}"))
}

/// Appends a transaction.
fn append(txns: &mut Vec<Txn>, session: SessionId, xid: i32, op: TxnOp) {
    let last = txns.last().expect("a transaction");
    let (zxid, time) = (last.zxid.next(), last.time);
    txns.push(Txn { session, xid: Xid(xid), zxid, time, op, digest: None });
}

#[test]
fn an_acknowledged_write_without_a_transaction_is_detected() {
    assert_eq!(broken_by_txns(|txns| txns.truncate(5)), Rule::Transactions);
    assert_eq!(broken_by_txns(Vec::clear), Rule::Transactions);
    let mut case = recorded(async |_, _, zk| _ = zk.create("/a", "").await.expect("a znode"));
    case.txns.pop();
    assert_eq!(case.rules()[1], Some(Rule::Transactions));
}

#[test]
fn a_read_of_a_future_zxid_is_detected() {
    let mut case = recorded(async |_, _, zk| _ = zk.exists("/a").await.expect("an answer"));
    assert_eq!(case.rules()[1], None);
    case.reply(A, 1).0.zxid = Zxid(2);
    assert_eq!(case.rules()[1], Some(Rule::Transactions));
}

#[test]
fn a_transaction_with_the_zxid_of_another_write_is_detected() {
    assert_eq!(broken_by_txns(|txns| txns[3].xid = Xid(9)), Rule::Transactions);
    assert_eq!(broken_by_txns(|txns| txns[3].session = SessionId(9)), Rule::Transactions);
}

#[test]
fn a_write_executed_twice_is_detected() {
    let rule = broken_by_txns(|txns| {
        let Txn { session, xid, op, .. } = txns[3].clone();
        append(txns, session, xid.0, op);
    });
    assert_eq!(rule, Rule::Transactions);
}

#[test]
fn transactions_that_contradict_the_replies_are_detected() {
    let refuse = |txn: &mut Txn| txn.op = TxnOp::Error(ErrorCode::NoNode);
    assert_eq!(broken_by_txns(|txns| refuse(&mut txns[3])), Rule::Transactions);
    // Refused with another error.
    assert_eq!(broken_by_txns(|txns| refuse(&mut txns[7])), Rule::Transactions);
    let rule = broken_by_txns(|txns| txns[7].op = TxnOp::Delete { path: "/a".into() });
    assert_eq!(rule, Rule::Transactions);
}

#[test]
fn the_server_deletes_only_containers_and_expired_znodes_by_itself() {
    let rule = broken_by_txns(|txns| {
        append(txns, SessionId(0), 0, TxnOp::Delete { path: "/a".into() });
    });
    assert_eq!(rule, Rule::Transactions);
}

#[test]
fn an_impossible_write_of_an_unrecorded_client_is_detected() {
    let rule = broken_by_txns(|txns| {
        append(txns, SessionId(77), 1, TxnOp::Delete { path: "/none".into() });
    });
    assert_eq!(rule, Rule::WriteResult);
}

#[test]
fn a_gap_in_the_transactions_is_detected_and_a_late_start_is_undecided() {
    assert_eq!(broken_by_txns(|txns| _ = txns.remove(4)), Rule::DenseZxids);
    let mut case = valid();
    case.txns.remove(0);
    let undecided = CheckError::Undecided(Undecided::LateStart(Zxid(2)));
    assert_eq!(case.check_with_txns().expect_err("undecided"), undecided);
}

#[test]
fn a_decreasing_time_is_detected() {
    // Of a transaction that no Stat shows: the refused create.
    let rule = broken_by_txns(|txns| {
        let refused = txns.iter_mut().find(|txn| matches!(txn.op, TxnOp::Error(ErrorCode::NodeExists)));
        refused.expect("a refusal").time = Millis(1);
    });
    assert_eq!(rule, Rule::Times);
}
