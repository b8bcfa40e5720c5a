//! What a command does whose server or session goes away.

use std::time::Duration;

use tokio::time::Instant;
use zoolet::testing::{Action, OpCode, TestServer, op, request};
use zoolet::{Clock, Sessions};
use zoolet_shell::{ExitReason, Shell, ShellError, ShellIo};

use crate::common::{Ran, run_between, run_on};

async fn tree() -> TestServer {
    let znodes = ["/t/a/1", "/t/a/2", "/t/b", "/t/c"];
    znodes.iter().fold(TestServer::builder(), |zk, path| zk.znode(*path, "x")).start().await.unwrap()
}

async fn run(zk: &TestServer, line: &str) -> Ran {
    let client = zk.client().await;
    zk.pass_time_until(run_on(&client, line)).await.unwrap()
}

#[tokio::test]
async fn a_read_of_a_tree_goes_on_where_its_connection_was_lost() {
    for line in ["find /t", "ls -R /t"] {
        let zk = tree().await;
        zk.faults().on(request().path("/t/b").nth(1)).reset().unwrap();
        assert_eq!(run(&zk, line).await.ok(), "/t\n/t/a\n/t/a/1\n/t/a/2\n/t/b\n/t/c\n");
        assert_eq!(zk.faults().fired().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_goes_away_ends_a_read_after_what_it_has_answered() {
    let zk = tree().await;
    zk.faults().on(request().path("/t/b")).reset().unwrap();
    let ran = run(&zk, "find /t").await;
    assert_eq!(ran.out, "/t\n");
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Unreachable);
    assert!(message.starts_with("find: ") && message.contains("(server zk:2181)"), "{message}");
    assert!(!message.contains("may have been done"), "{message}");
}

#[tokio::test]
async fn a_server_that_goes_away_while_a_tree_is_deleted_leaves_a_count_and_a_doubt() {
    let zk = tree().await;
    zk.faults().on(op(OpCode::Delete).path("/t/b")).reset().unwrap();
    let ran = run(&zk, "rm -r --yes /t").await;
    assert!(ran.notes.ends_with("znodes deleted\n"), "{}", ran.notes);
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Unreachable);
    assert!(message.starts_with("rm: ") && message.contains("look before you repeat it"), "{message}");
    // Repeating it does the rest.
    zk.faults().clear();
    run(&zk, "rm -r --yes /t").await.ok();
    assert!(zk.get("/t").is_none());
}

#[tokio::test]
async fn a_session_that_has_expired_is_named_and_nothing_is_in_doubt() {
    for line in ["get /t/b", "find /t", "set /t/b y", "rm -r --yes /t"] {
        let zk = tree().await;
        let client = zk.client().await;
        zk.expire_session(client.session_id()).await.unwrap();
        let ran = zk.pass_time_until(run_on(&client, line)).await.unwrap();
        let (reason, message) = ran.failed();
        assert_eq!(reason, ExitReason::Unreachable);
        assert!(message.contains("session expired"), "{line}: {message}");
        assert_eq!(zk.get("/t/b").unwrap().text(), "x");
    }
}

#[tokio::test(start_paused = true)]
async fn an_export_or_a_watch_that_finds_no_server_ends_within_the_timeout() {
    for line in ["export /t", "watch -R /t"] {
        let zk = tree().await;
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes))
            .server("zk:2181")
            .timeout(Duration::from_secs(5))
            .sessions(|_| Sessions::open(zk.options(), zk.connector()));
        zk.refuse_connections();
        let begun = Instant::now();
        let error = shell.run_line(line).await.unwrap_err();
        assert_eq!(error.reason(), ExitReason::Unreachable);
        assert!(error.to_string().contains(": no server was reached within 5s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn an_export_goes_on_if_its_connection_is_lost_and_the_server_is_still_there() {
    let zk = tree().await;
    zk.faults().on(request().path("/t/b").nth(1)).reset().unwrap();
    let exported = run_between(&zk, &zk, "export --no-acl /t", None).await.ok();
    assert_eq!((exported.lines().count(), zk.faults().fired().len()), (7, 1), "{exported}");
}

/// How a line ends, what it prints and how long it takes, if this happens to the answers from the first of this kind on.
async fn run_hindered(
    line: &str,
    patience: Duration,
    from: OpCode,
    action: Action,
) -> (Result<(), ShellError>, String, Duration) {
    let znodes = (0..20).map(|at| format!("/t/{at:02}"));
    let zk = znodes.fold(TestServer::builder(), |zk, path| zk.znode(path, "x"));
    let zk = zk.clock(Clock::tokio()).start().await.unwrap();
    zk.faults().place(op(from).nth(1), action).unwrap();
    let client = zk.connect(zk.options().request_timeout(patience)).await.unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(client, ShellIo::new(&mut out, &mut notes))
        .timeout(patience)
        .sessions(|_| Sessions::open(zk.options(), zk.connector()));
    let begun = Instant::now();
    let outcome = shell.run_line(line).await;
    drop(shell);
    (outcome, String::from_utf8(out).unwrap(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_tree_takes_any_time_as_long_as_answers_come() {
    // About an answer in a second.
    let slowly = Action::Drip { bytes: 100, every: Duration::from_secs(1) };
    for (line, from, lines) in [("grep x /t", OpCode::GetData, 20), ("export /t", OpCode::GetAcl, 22)] {
        let (outcome, out, took) = run_hindered(line, Duration::from_secs(10), from, slowly).await;
        outcome.unwrap();
        assert_eq!(out.lines().count(), lines, "{out}");
        assert!(took > Duration::from_secs(15), "{line}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_tree_takes_any_time_as_long_as_answers_come() {
    let slowly = Action::Drip { bytes: 100, every: Duration::from_secs(1) };
    for line in ["rm -r --yes /t", "set-acl -R /t world:anyone:cdrwa"] {
        let from = OpCode::GetChildren2;
        let (outcome, _, took) = run_hindered(line, Duration::from_secs(10), from, slowly).await;
        outcome.unwrap();
        assert!(took > Duration::from_secs(15), "{line}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_tree_ends_when_no_answer_comes_in_time() {
    let never = Action::DelayReply(Duration::from_secs(1000));
    for (line, from) in [("grep x /t", OpCode::GetData), ("export /t", OpCode::GetAcl)] {
        let (outcome, _, took) = run_hindered(line, Duration::from_secs(2), from, never).await;
        assert_eq!(outcome.unwrap_err().reason(), ExitReason::Unreachable);
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}
