//! Deadlines, lost connections, replies of all kinds.

use super::*;

#[test]
fn a_call_that_is_not_answered_in_time_fails_and_its_late_reply_is_ignored() {
    let mut harness = Harness::up();
    let mut slow = harness.call_within(set("/a"), Some(THIRD));
    let mut other = harness.call(get("/b"));
    harness.pass(THIRD - MS);
    assert!(slow.is_open());
    harness.pass(MS);
    let error = slow.error();
    assert!(matches!(error, Error::Timeout(_)) && error.may_have_applied(), "{error:?}");
    assert_eq!(error.to_string(), "setData /a: timed out");
    harness.reply(1, 2, Reply::Stat(Stat::default()));
    harness.reply(2, 2, data());
    assert!(other.outcome().expect("an outcome").is_ok());
}

#[test]
fn deadlines_of_answered_calls_do_not_end_others() {
    let mut harness = Harness::up();
    let mut first = harness.call_within(get("/a"), Some(MS));
    harness.reply(1, 1, data());
    let mut second = harness.call_within(get("/a"), Some(10 * MS));
    harness.pass(9 * MS);
    assert!(first.outcome().expect("an outcome").is_ok());
    assert!(second.is_open());
    harness.pass(MS);
    assert!(matches!(second.error(), Error::Timeout(_)));
}

#[test]
fn a_write_in_flight_fails_with_its_connection_and_a_read_is_sent_again() {
    let mut harness = Harness::up();
    let mut read = harness.call(get("/a"));
    let mut write = harness.call(set("/a"));
    let mut second_read = harness.call(get("/b"));
    harness.cut();
    let error = write.error();
    assert!(matches!(error, Error::ConnectionLoss(_)), "{error:?}");
    assert!(error.may_have_applied() && error.is_retryable());
    assert!(read.is_open() && second_read.is_open());

    let _later = harness.call(set("/c"));
    harness.connect();
    assert_eq!(harness.sent(), [sync("/"), get("/a"), get("/b"), set("/c")]);
}

#[test]
fn a_read_that_no_connection_survives_fails_at_the_third() {
    let mut harness = Harness::up();
    let mut read = harness.call(get("/a"));
    for _ in 0..2 {
        harness.cut();
        assert!(read.is_open());
        harness.connect();
        assert_eq!(harness.sent(), [get("/a")]);
    }
    harness.cut();
    let error = read.error();
    assert!(matches!(error, Error::ConnectionLoss(_)) && !error.may_have_applied(), "{error:?}");
}

#[test]
fn a_call_waits_for_a_connection_for_the_session_timeout() {
    let mut harness = Harness::up();
    harness.cut();
    let mut patient = harness.call(set("/a"));
    let mut hasty = harness.call_within(set("/b"), Some(MS));
    harness.pass(MS);
    let error = hasty.error();
    assert!(matches!(error, Error::Timeout(_)) && !error.may_have_applied(), "{error:?}");
    harness.pass(TIMEOUT - 2 * MS);
    assert!(patient.is_open());
    harness.pass(MS);
    let error = patient.error();
    assert!(matches!(error, Error::ConnectionLoss(_)) && !error.may_have_applied(), "{error:?}");
}

#[test]
fn a_request_larger_than_allowed_is_not_sent() {
    let mut harness = Harness::up();
    let data = Some(Bytes::from(vec![0; 1000]));
    let request = Request::SetData(records::SetData { path: "/a".into(), data, version: -1 });
    let mut call = harness.call(request);
    let error = call.error();
    assert!(matches!(error, Error::RequestTooLarge { max: 1000, .. }), "{error:?}");
    assert!(!error.may_have_applied());
    assert_eq!(harness.sent(), []);
}

#[test]
fn a_reply_without_a_request_closes_the_connection() {
    let mut harness = Harness::up();
    harness.reply(17, 1, data());
    assert_eq!(harness.state(), SessionState::Disconnected);
}

#[test]
fn a_malformed_reply_fails_its_call_and_closes_the_connection() {
    let mut harness = Harness::up();
    let mut call = harness.call(set("/a"));
    harness.reply(1, 1, Reply::Empty);
    let error = call.error();
    assert!(matches!(error, Error::Protocol(_)) && error.may_have_applied(), "{error:?}");
    assert_eq!(harness.state(), SessionState::Disconnected);
}

#[test]
fn a_reply_that_may_be_ahead_of_others_finds_its_call() {
    let mut harness = Harness::up();
    let mut read = harness.call(get("/a"));
    let mut identity = harness.call(auth("u:p"));
    let mut unknown = harness.call(Request::WhoAmI);
    harness.reply(Xid::AUTH.0, 0, Reply::Empty);
    harness.refuse(2, ErrorCode::Unimplemented);
    assert!(identity.outcome().expect("an outcome").is_ok());
    assert_eq!(unknown.error().code(), Some(ErrorCode::Unimplemented));
    harness.reply(1, 1, data());
    assert!(read.outcome().expect("an outcome").is_ok());
}

#[test]
fn a_reply_out_of_order_closes_the_connection_and_no_call_waits_for_ever() {
    let mut harness = Harness::up();
    let mut write = harness.call(set("/a"));
    let (mut first, mut second) = (harness.call(get("/a")), harness.call(get("/b")));
    harness.reply(3, 1, data());
    assert!(matches!(write.error(), Error::ConnectionLoss(_)));
    assert!(first.is_open() && second.is_open(), "reads are asked again");
    harness.connect();
    assert_eq!(harness.sent(), [sync("/"), get("/a"), get("/b")]);
}

#[test]
fn a_refused_multi_reports_the_operation_that_failed() {
    let mut harness = Harness::up();
    let delete = |path: &str| records::Op::Delete(records::Delete { path: path.into(), version: -1 });
    let mut multi = harness.call(Request::Multi(vec![delete("/a"), delete("/b"), delete("/c")]));
    harness.reply(
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

#[test]
fn a_request_that_a_server_refuses_for_want_of_an_identity_is_no_sign_of_life() {
    let mut harness = Harness::up();
    let contact = harness.shared.last_contact();
    harness.pass(MS);
    let mut read = harness.call(get("/a"));
    harness.refuse_at(1, 0, ErrorCode::SessionClosedRequireSaslAuth);
    assert_eq!(read.error().code(), Some(ErrorCode::SessionClosedRequireSaslAuth));
    assert_eq!(harness.shared.last_contact(), contact);
    assert_eq!(harness.state(), SessionState::Disconnected, "the server closes it anyway");
}

#[test]
fn a_reply_that_is_too_large_counts_among_the_bytes_received() {
    let mut harness = Harness::up();
    let before = harness.shared.counters.read().bytes_received;
    let _read = harness.call(get("/a"));
    harness.oversize(1, 7);
    assert_eq!(harness.shared.counters.read().bytes_received - before, 4 + (1 << 20));
}

#[test]
fn nothing_counts_as_in_flight_when_the_session_is_over() {
    let mut harness = Harness::up();
    let (_read, _identity) = (harness.call(get("/a")), harness.call(auth("u:p")));
    assert_eq!(harness.shared.counters.read().in_flight, 2);
    harness.refuse(Xid::AUTH.0, ErrorCode::AuthFailed);
    assert_eq!(harness.shared.counters.read().in_flight, 0);
}
