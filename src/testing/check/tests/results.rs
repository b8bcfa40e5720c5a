//! Damage to answers.

use zoolet_proto::{ErrorCode, SessionId};

use super::*;

#[test]
fn a_write_that_is_lost_shows_in_the_next_read() {
    // The data and the Stat of before, under the zxid of after.
    let rule = broken_by(|case| {
        let before = case.reply(A, 2).1.clone();
        *case.reply(B, 2).1 = before;
    });
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn every_wrong_field_of_a_stat_is_found() {
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
fn half_a_multi_is_found() {
    // A reader sees one znode of the multi and not the other.
    let rule = broken_by(|case| {
        let (_, reply) = case.reply(A, 8);
        let Reply::Children2(names, stat) = reply else { panic!("{reply:?}") };
        (*names, stat.num_children) = (Default::default(), 0);
    });
    assert_eq!(rule, Rule::ReadResult);
    // A refused one answers as if its first part had been done.
    let rule = broken_by(|case| {
        let done = case.reply(B, 4).1.clone();
        let (_, reply) = case.reply(B, 6);
        let (Reply::Multi(done), Reply::Multi(parts)) = (done, reply) else { panic!("no multi") };
        parts[0] = done[2].clone();
    });
    assert_eq!(rule, Rule::WriteResult);
}

#[test]
fn a_sequence_number_that_is_given_twice_is_found() {
    let rule = broken_by(|case| {
        let (_, Reply::Created2(one, _)) = case.reply(A, 4) else { panic!("no create") };
        let one = one.clone();
        let (_, Reply::Created2(other, _)) = case.reply(B, 3) else { panic!("no create") };
        *other = one;
    });
    assert_eq!(rule, Rule::WriteResult);
}

#[test]
fn a_wrong_refusal_is_found() {
    let rule = broken_by(|case| case.reply(B, 5).0.err = ErrorCode::NoNode.code());
    assert_eq!(rule, Rule::WriteResult);
    // Not refused at all.
    let rule = broken_by(|case| {
        let made = case.reply(A, 1).1.clone();
        let (header, reply) = case.reply(B, 5);
        (header.err, *reply) = (0, made);
    });
    assert_eq!(rule, Rule::WriteResult);
    let rule = broken_by(|case| case.reply(A, 3).0.err = ErrorCode::NoNode.code());
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn an_ephemeral_that_is_not_its_owners_is_found() {
    let rule = broken_by(|case| {
        let (_, Reply::Ephemerals(paths)) = case.reply(AGAIN, 9) else { panic!("no ephemerals") };
        assert_eq!(std::mem::take(paths), ["/e"]);
    });
    assert_eq!(rule, Rule::ReadResult);
}

#[test]
fn lists_may_come_in_any_order() {
    let mut case = good();
    let (_, Reply::Children2(names, _)) = case.reply(A, 6) else { panic!("no children") };
    let turned: Vec<String> = names.iter().collect();
    *names = turned.iter().rev().map(String::as_str).collect();
    assert_ne!(turned[0], names.iter().next().expect("a name"));
    assert_eq!(case.rules(), [None; 2]);
}

#[test]
fn a_wrong_answer_about_a_watch_is_found() {
    let rule = broken_by(|case| case.reply(A, 9).0.err = ErrorCode::NoWatcher.code());
    assert_eq!(rule, Rule::WatchResult);
    // Of a watch that nobody has set.
    let rule = broken_by(|case| {
        let at = case.request_at(A, 9);
        let HistoryEvent::Request(incoming) = &mut case.entries[at].what else { panic!("no request") };
        let Ok(zoolet_proto::Request::CheckWatches(check)) = &mut incoming.body else {
            panic!("{incoming:?}")
        };
        check.path = Some("/nowhere".to_owned());
    });
    assert_eq!(rule, Rule::WatchResult);
}

#[test]
fn what_does_not_decode_cannot_be_done() {
    let undecodable = |case: &mut Case| {
        let at = case.request_at(A, 3);
        let HistoryEvent::Request(incoming) = &mut case.entries[at].what else { panic!("no request") };
        incoming.body = Err(zoolet_proto::DecodeError::Malformed);
    };
    assert_eq!(broken_by(undecodable), Rule::ReadResult);
    let mut refused = good();
    undecodable(&mut refused);
    refused.reply(A, 3).0.err = ErrorCode::MarshallingError.code();
    assert_eq!(refused.rules(), [None; 2]);
    assert!(refused.check().is_ok());
}

#[test]
fn a_transaction_with_two_times_is_found() {
    let rule = broken_by(|case| {
        let stat = case.stat(B, 2);
        stat.mtime += 1;
    });
    assert_eq!(rule, Rule::ReadResult);
}
