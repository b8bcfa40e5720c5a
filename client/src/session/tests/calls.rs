//! Deadlines, lost connections, replies of all kinds.

use super::*;

#[test]
fn a_call_that_is_not_answered_in_time_fails_and_its_late_reply_disturbs_nobody() {
    let mut desk = Desk::up();
    let mut slow = desk.call_within(set("/a"), Some(THIRD));
    let mut other = desk.call(get("/b"));
    desk.pass(THIRD - MS);
    assert!(slow.is_open());
    desk.pass(MS);
    let error = slow.error();
    assert!(matches!(error, Error::Timeout(_)) && error.may_have_applied(), "{error:?}");
    assert_eq!(error.to_string(), "setData /a: timed out");
    desk.reply(1, 2, Reply::Stat(Stat::default()));
    desk.reply(2, 2, data());
    assert!(other.outcome().expect("an outcome").is_ok());
}

#[test]
fn deadlines_of_answered_calls_do_not_end_others() {
    let mut desk = Desk::up();
    let mut first = desk.call_within(get("/a"), Some(MS));
    desk.reply(1, 1, data());
    let mut second = desk.call_within(get("/a"), Some(10 * MS));
    desk.pass(9 * MS);
    assert!(first.outcome().expect("an outcome").is_ok());
    assert!(second.is_open());
    desk.pass(MS);
    assert!(matches!(second.error(), Error::Timeout(_)));
}

#[test]
fn a_write_under_way_is_lost_with_its_connection_and_a_read_is_sent_again() {
    let mut desk = Desk::up();
    let mut read = desk.call(get("/a"));
    let mut write = desk.call(set("/a"));
    let mut second_read = desk.call(get("/b"));
    desk.cut();
    let error = write.error();
    assert!(matches!(error, Error::ConnectionLoss(_)), "{error:?}");
    assert!(error.may_have_applied() && error.is_retryable());
    assert!(read.is_open() && second_read.is_open());

    let _later = desk.call(set("/c"));
    desk.connect();
    assert_eq!(desk.sent(), [sync("/"), get("/a"), get("/b"), set("/c")]);
}

#[test]
fn a_read_that_no_connection_survives_fails_at_the_third() {
    let mut desk = Desk::up();
    let mut read = desk.call(get("/a"));
    for _ in 0..2 {
        desk.cut();
        assert!(read.is_open());
        desk.connect();
        assert_eq!(desk.sent(), [get("/a")]);
    }
    desk.cut();
    let error = read.error();
    assert!(matches!(error, Error::ConnectionLoss(_)) && !error.may_have_applied(), "{error:?}");
}

#[test]
fn a_call_waits_for_a_connection_as_long_as_a_session_may_live_without_one() {
    let mut desk = Desk::up();
    desk.cut();
    let mut patient = desk.call(set("/a"));
    let mut hasty = desk.call_within(set("/b"), Some(MS));
    desk.pass(MS);
    let error = hasty.error();
    assert!(matches!(error, Error::Timeout(_)) && !error.may_have_applied(), "{error:?}");
    desk.pass(TIMEOUT - 2 * MS);
    assert!(patient.is_open());
    desk.pass(MS);
    let error = patient.error();
    assert!(matches!(error, Error::ConnectionLoss(_)) && !error.may_have_applied(), "{error:?}");
}

#[test]
fn a_request_larger_than_allowed_is_not_sent() {
    let mut desk = Desk::up();
    let data = Some(Bytes::from(vec![0; 1000]));
    let request = Request::SetData(records::SetData { path: "/a".into(), data, version: -1 });
    let mut call = desk.call(request);
    let error = call.error();
    assert!(matches!(error, Error::RequestTooLarge { max: 1000, .. }), "{error:?}");
    assert!(!error.may_have_applied());
    assert_eq!(desk.sent(), []);
}

#[test]
fn a_reply_to_nothing_costs_the_connection() {
    let mut desk = Desk::up();
    desk.reply(17, 1, data());
    assert_eq!(desk.state(), SessionState::Disconnected);
}

#[test]
fn a_reply_that_does_not_decode_fails_its_call_and_costs_the_connection() {
    let mut desk = Desk::up();
    let mut call = desk.call(set("/a"));
    desk.reply(1, 1, Reply::Empty);
    let error = call.error();
    assert!(matches!(error, Error::Protocol(_)) && error.may_have_applied(), "{error:?}");
    assert_eq!(desk.state(), SessionState::Disconnected);
}

#[test]
fn an_answer_ahead_of_its_turn_finds_its_call() {
    let mut desk = Desk::up();
    let mut read = desk.call(get("/a"));
    let mut identity = desk.call(auth("u:p"));
    let mut unknown = desk.call(Request::WhoAmI);
    desk.reply(Xid::AUTH.0, 0, Reply::Empty);
    desk.refuse(2, ErrorCode::Unimplemented);
    assert!(identity.outcome().expect("an outcome").is_ok());
    assert_eq!(unknown.error().code(), Some(ErrorCode::Unimplemented));
    desk.reply(1, 1, data());
    assert!(read.outcome().expect("an outcome").is_ok());
}

#[test]
fn a_reply_that_leaves_one_out_costs_the_connection_and_nobody_waits_for_ever() {
    let mut desk = Desk::up();
    let mut write = desk.call(set("/a"));
    let (mut first, mut second) = (desk.call(get("/a")), desk.call(get("/b")));
    desk.reply(3, 1, data());
    assert!(matches!(write.error(), Error::ConnectionLoss(_)));
    assert!(first.is_open() && second.is_open(), "reads are asked again");
    desk.connect();
    assert_eq!(desk.sent(), [sync("/"), get("/a"), get("/b")]);
}

#[test]
fn of_a_refused_multi_the_failing_operation_is_told() {
    let mut desk = Desk::up();
    let delete = |path: &str| records::Op::Delete(records::Delete { path: path.into(), version: -1 });
    let mut multi = desk.call(Request::Multi(vec![delete("/a"), delete("/b"), delete("/c")]));
    desk.reply(
        1,
        2,
        Reply::Multi(vec![
            records::OpResult::Error(None),
            records::OpResult::Error(Some(ErrorCode::NoNode)),
            records::OpResult::Error(Some(ErrorCode::RuntimeInconsistency)),
        ]),
    );
    let error = multi.error();
    assert_eq!(error.to_string(), "multi, operation 1, delete /b: no such znode");
    assert_eq!((error.failed_operation(), error.code()), (Some(1), Some(ErrorCode::NoNode)));
    assert!(!error.may_have_applied());
}
