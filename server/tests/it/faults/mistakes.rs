//! Faults that cannot be, and what their makers are told.

use std::time::Duration;

use zoolet_proto::{ErrorCode, OpCode, SessionId};
use zoolet_server::fault::create as create_of_any_kind;
use zoolet_server::fault::{Action, FaultError, Matcher, connection, handshake, op, request};

use crate::common::*;

fn session() -> SessionId {
    SessionId(0x1234)
}

#[tokio::test]
async fn a_fault_that_makes_no_sense_is_refused_with_its_mistake_and_the_mend() {
    let mistakes: [(Matcher, Action, &str); 23] = [
        (
            op(OpCode::Create).nth(1).times(2),
            Action::LoseReply,
            "`nth` and `times` contradict each other; keep one of them",
        ),
        (
            op(OpCode::Create).nth(1).nth(2),
            Action::LoseReply,
            "`nth` and `times` contradict each other; keep one of them",
        ),
        (request().nth(0), Action::LoseReply, "counts begin at 1: number 0, or the first 0, is never met"),
        (request().times(0), Action::LoseReply, "counts begin at 1: number 0, or the first 0, is never met"),
        (request().probability(1.5), Action::LoseReply, "a probability of 1.5: must be between 0 and 1"),
        (request().probability(f64::NAN), Action::LoseReply, "a probability of NaN: must be between 0 and 1"),
        (
            request().path("locks/*"),
            Action::LoseReply,
            "path pattern \"locks/*\": a path pattern begins with a slash",
        ),
        (
            create_of_any_kind().path("/locks//*"),
            Action::LoseReply,
            "path pattern \"/locks//*\": no path has an empty name in it",
        ),
        (
            request().path("/locks/x**"),
            Action::LoseReply,
            "path pattern \"/locks/x**\": ** stands for whole names and must be alone between slashes",
        ),
        (
            op(OpCode::Ping).path("/a"),
            Action::LoseReply,
            "a Ping has no path; leave `path` out, or match a request that has one",
        ),
        (
            op(OpCode::SetWatches2).path("/a"),
            Action::LoseReply,
            "a SetWatches2 has no path; leave `path` out, or match a request that has one",
        ),
        (
            connection().path("/a"),
            Action::Refuse,
            "a connection has no path; leave `path` out, or match a request that has one",
        ),
        (
            handshake().path("/a"),
            Action::LoseReply,
            "a handshake has no path; leave `path` out, or match a request that has one",
        ),
        (
            connection().session(session()),
            Action::Refuse,
            "a connection has no session before its handshake; match `handshake()` or `request()` instead",
        ),
        (
            op(OpCode::CreateSession),
            Action::LoseReply,
            "a session is opened by a handshake, not by a request; match `handshake()` instead",
        ),
        (
            connection(),
            Action::LoseReply,
            "cannot lose the reply on a connection: a new connection can only be refused; match `handshake()` or \
             `request()`",
        ),
        (
            connection(),
            Action::Reset,
            "cannot reset the connection on a connection: a new connection can only be refused; match `handshake()` \
             or `request()`",
        ),
        (
            request(),
            Action::Refuse,
            "cannot refuse on a request: only a `connection()` can be refused; use `drop_request` or `fail`",
        ),
        (
            handshake(),
            Action::Refuse,
            "cannot refuse on a handshake: only a `connection()` can be refused; use `drop_request` or `fail`",
        ),
        (
            handshake(),
            Action::Fail(ErrorCode::NoAuth),
            "cannot fail: not authorized on a handshake: a handshake has no error to be answered with; use \
             `drop_request`",
        ),
        (
            op(OpCode::Create),
            Action::Fail(ErrorCode::Unknown(0)),
            "cannot fail: error code 0 on a Create: 0 is no error",
        ),
        (
            op(OpCode::Create),
            Action::Drip { bytes: 0, every: Duration::from_secs(1) },
            "cannot drip 0 bytes every 1s on a Create: at least 1 byte must go at a time",
        ),
        // Of several mistakes the first is told.
        (
            request().nth(0).path("x").probability(2.0),
            Action::Refuse,
            "counts begin at 1: number 0, or the first 0, is never met",
        ),
    ];
    let zk = Zk::start().await;
    for (matcher, action, expected) in mistakes {
        let error = zk.faults().place(matcher, action).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    let mut peer = zk.peer().await;
    assert_eq!(peer.ask(create("/a")).await, "1 ok", "nothing was placed");
    assert!(zk.faults().fired().is_empty());
}

#[tokio::test]
async fn a_fault_that_another_would_always_come_before_is_refused() {
    let hidden = [
        (request(), op(OpCode::Create)),
        (request(), request().path("/a").nth(3)),
        (op(OpCode::Create), op(OpCode::Create)),
        (request(), create_of_any_kind()),
        (create_of_any_kind(), create_of_any_kind().nth(2)),
        (create_of_any_kind(), op(OpCode::CreateTtl)),
        (op(OpCode::Create).path("/a/*"), op(OpCode::Create).path("/a/*").times(1)),
        (request().session(session()), op(OpCode::Create).session(session())),
        (request().probability(1.0), op(OpCode::Create)),
        (connection(), connection().client("127.0.0.1".parse().unwrap())),
    ];
    for (first, second) in hidden {
        let zk = Zk::start().await;
        let action = if first == connection() { Action::Refuse } else { Action::LoseReply };
        let id = zk.faults().place(first, action).unwrap();
        let error = zk.faults().place(second.clone(), action).expect_err("never reached");
        assert!(matches!(error, FaultError::Shadowed { .. }), "{error}");
        zk.faults().remove(id);
        zk.faults().place(second, action).unwrap();
    }
    let reachable = [
        (request().nth(1), op(OpCode::Create)),
        (request().times(1), op(OpCode::Create)),
        (request().probability(0.9), op(OpCode::Create)),
        (op(OpCode::Create), request()),
        (op(OpCode::Create), create_of_any_kind()),
        (create_of_any_kind(), op(OpCode::Multi)),
        (op(OpCode::Create), op(OpCode::Delete)),
        (request().path("/a/*"), request().path("/a/**")),
        (request().session(session()), request()),
        (request(), handshake()),
    ];
    for (first, second) in reachable {
        let zk = Zk::start().await;
        zk.faults().place(first, Action::LoseReply).unwrap();
        zk.faults().place(second, Action::LoseReply).unwrap();
    }
}

#[tokio::test]
async fn the_fault_in_the_way_is_named() {
    let zk = Zk::start().await;
    let locks = op(OpCode::Create).path("/locks/**").client("::1".parse().unwrap());
    zk.faults().on(locks.clone()).delay_reply(secs(1)).unwrap();
    let error = zk.faults().on(locks.nth(2)).lose_reply().expect_err("never reached");
    assert_eq!(
        error.to_string(),
        "never reached: the fault `Create /locks/** from ::1: delay the reply by 1s` meets all of this first; \
         remove it, or narrow it by `nth` or `times`"
    );
}
