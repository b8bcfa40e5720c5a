//! Damage to the content of replies.

use zoolet_proto::{ErrorCode, SessionId};

use super::*;

#[test]
fn a_lost_write_shows_in_the_next_read() {
    // The data and the Stat from before the write, with the zxid after it.
    let rule = broken_by(|case| {
        let before = case.reply(A, 2).1.clone();
        *case.reply(B, 2).1 = before;
    });
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn every_wrong_field_of_a_stat_is_detected() {
    let fields: [fn(&mut Stat); 11] = [
        |stat| stat.czxid.0 += 1,
        |stat| stat.mzxid.0 += 1,
        |stat| stat.ctime += 1,
        |stat| stat.mtime += 1,
        |stat| stat.version += 1,
        |stat| stat.cversion += 1,
        |stat| stat.aversion += 1,
        |stat| stat.ephemeral_owner = SessionId(1),
        |stat| stat.data_length += 1,
        |stat| stat.num_children += 1,
        |stat| stat.pzxid.0 += 1,
    ];
    for (number, damage) in fields.into_iter().enumerate() {
        let rule = broken_by(|case| damage(case.stat(A, 3)));
        assert_eq!(rule, Rule::ReadResult, "field {number}");
    }
}

#[test]
fn half_a_multi_is_detected() {
    // A reader sees one znode of the multi and not the other.
    let rule = broken_by(|case| {
        let (_, reply) = case.reply(A, 8);
        let Reply::Children2(names, stat) = reply else { panic!("{reply:?}") };
        (*names, stat.num_children) = (Default::default(), 0);
    });
    assert_eq!(rule, Rule::ReadResult);
    // The reply to a refused multi claims that its first part was done.
    let rule = broken_by(|case| {
        let done = case.reply(B, 4).1.clone();
        let (_, reply) = case.reply(B, 6);
        let (Reply::Multi(done), Reply::Multi(parts)) = (done, reply) else { panic!("no multi") };
        parts[0] = done[2].clone();
    });
    assert_eq!(rule, Rule::WriteResult);
}

#[test]
fn a_duplicate_sequence_number_is_detected() {
    let rule = broken_by(|case| {
        let (_, Reply::Created2(one, _)) = case.reply(A, 4) else { panic!("no create") };
        let one = one.clone();
        let (_, Reply::Created2(other, _)) = case.reply(B, 3) else { panic!("no create") };
        *other = one;
    });
    assert_eq!(rule, Rule::WriteResult);
}

#[test]
fn a_wrong_error_code_is_detected() {
    let rule = broken_by(|case| case.reply(B, 5).0.err = ErrorCode::NoNode.code());
    assert_eq!(rule, Rule::WriteResult);
    // Success instead of an error.
    let rule = broken_by(|case| {
        let created = case.reply(A, 1).1.clone();
        let (header, reply) = case.reply(B, 5);
        (header.err, *reply) = (0, created);
    });
    assert_eq!(rule, Rule::WriteResult);
    let rule = broken_by(|case| case.reply(A, 3).0.err = ErrorCode::NoNode.code());
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn a_missing_ephemeral_of_the_session_is_detected() {
    let rule = broken_by(|case| {
        let (_, Reply::Ephemerals(paths)) = case.reply(B_AGAIN, 9) else { panic!("no ephemerals") };
        assert_eq!(std::mem::take(paths), ["/e"]);
    });
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn lists_may_come_in_any_order() {
    let mut case = valid();
    let (_, Reply::Children2(names, _)) = case.reply(A, 6) else { panic!("no children") };
    let original: Vec<String> = names.iter().collect();
    *names = original.iter().rev().map(String::as_str).collect();
    assert_ne!(original[0], names.iter().next().expect("a name"));
    assert_eq!(case.rules(), [None; 2]);
}

#[test]
fn a_wrong_reply_about_a_watch_is_detected() {
    let rule = broken_by(|case| case.reply(A, 9).0.err = ErrorCode::NoWatcher.code());
    assert_eq!(rule, Rule::WatchResult);
    // Success for a watch that does not exist.
    let rule = broken_by(|case| {
        let at = case.request_at(A, 9);
        let HistoryEvent::Request(incoming) = &mut case.entries[at].event else { panic!("no request") };
        let Ok(zoolet_proto::Request::CheckWatches(check)) = &mut incoming.body else {
            panic!("{incoming:?}")
        };
        check.path = Some("/nowhere".to_owned());
    });
    assert_eq!(rule, Rule::WatchResult);
}

#[test]
fn a_request_that_does_not_decode_cannot_succeed() {
    let undecodable = |case: &mut Case| {
        let at = case.request_at(A, 3);
        let HistoryEvent::Request(incoming) = &mut case.entries[at].event else { panic!("no request") };
        incoming.body = Err(zoolet_proto::DecodeError::Malformed);
    };
    assert_eq!(broken_by(undecodable), Rule::ReadResult);
    let mut refused = valid();
    undecodable(&mut refused);
    refused.reply(A, 3).0.err = ErrorCode::MarshallingError.code();
    assert_eq!(refused.rules(), [None; 2]);
    assert!(refused.check().is_ok());
}

#[test]
fn a_transaction_with_two_times_is_detected() {
    let rule = broken_by(|case| {
        let stat = case.stat(B, 2);
        stat.mtime += 1;
    });
    assert_eq!(rule, Rule::ReadResult);
}
