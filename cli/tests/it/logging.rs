//! The log: which lines there are, and that the server does not depend on who reads them.

#![cfg(unix)]

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Running, error_of};

const BIND: &[&str] = &["--bind", "127.0.0.1:0"];

#[test]
fn a_log_that_nobody_reads_delays_neither_the_server_nor_its_end() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--log", "debug"]);
    // More than the 64 KiB of a pipe.
    for _ in 0..1_000 {
        server.open_session();
    }
    assert_eq!(server.word("srvr").lines().next().map(|line| &line[..17]), Some("Zookeeper version"));
    let (took, log) = server.stop_unread("TERM");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(log.len() >= 60_000 && log.contains("session opened"), "{} bytes", log.len());
}

#[test]
fn rust_log_counts_unless_there_is_a_flag() {
    let opened = |arguments: &[&str], filter: &str| {
        let arguments = [BIND, arguments].concat();
        let server = Running::start_with(&arguments, &[("RUST_LOG", filter)]);
        server.open_session();
        server.stop("TERM").2.contains("session opened")
    };
    assert!(opened(&[], "info"));
    assert!(opened(&[], "zoolet_server_core=info"));
    assert!(!opened(&[], "zoolet_server::net=trace"));
    assert!(!opened(&[], ""));
    assert!(!opened(&["--log", "warn"], "info"));
    assert!(opened(&["--log", "info"], "off"));
}

#[test]
fn an_invalid_rust_log_is_a_warning_and_an_invalid_flag_an_error() {
    let server = Running::start_with(BIND, &[("RUST_LOG", "debgu")]);
    let log = server.stop("TERM").2;
    assert!(
        log.contains("WARN") && log.contains("RUST_LOG = debgu: must be off, error, warn, info"),
        "{log}"
    );
    assert!(error_of(&["--log", "debgu"]).contains("--log debgu: must be off, error"));
}

#[test]
fn a_restart_in_memory_shows_in_the_log() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--log", "info"]);
    server.resume_unknown_session();
    let log = server.stop("TERM").2;
    assert!(log.contains("the state is in memory and begins empty") && log.contains("zxid=0x"), "{log}");
    assert!(log.contains("unknown session; telling the client that it has expired"), "{log}");
    assert!(log.contains("session=0x7") && log.contains("peer=127.0.0.1"), "{log}");
}

#[test]
fn a_client_of_another_protocol_is_named_at_the_default_level() {
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    for (first, protocol) in [(&hello[..], "TLS"), (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP")] {
        let server = Running::start(BIND);
        assert_eq!(server.answer_to(first), b"");
        let log = server.stop("TERM").2;
        assert!(log.contains("WARN") && log.contains(&format!("protocol=\"{protocol}\"")), "{log}");
        assert!(log.contains("peer=127.0.0.1"), "{log}");
    }
}

#[test]
fn a_client_that_tries_sasl_is_named_once_at_the_default_level() {
    let server = Running::start(BIND);
    for _ in 0..3 {
        let mut session = vec![0; 48];
        (session[3], session[31]) = (44, 16);
        // A frame with xid 1, opcode 102 and a token of no bytes; after it the end of the session.
        session.extend([0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 102, 0, 0, 0, 0]);
        session.extend([0, 0, 0, 8, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xf5]);
        server.answer_to(&session);
    }
    let log = server.stop("TERM").2;
    assert_eq!(log.matches("SASL").count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("session=0x1"), "{log}");
}

#[test]
fn a_client_that_has_seen_more_than_a_restored_server_is_named_once_at_the_default_level() {
    let server = Running::start(BIND);
    for _ in 0..3 {
        let mut ahead = vec![0; 48];
        (ahead[3], ahead[8], ahead[31]) = (44, 0x7f, 16);
        assert_eq!(server.answer_to(&ahead), b"");
    }
    let log = server.stop("TERM").2;
    assert_eq!(log.matches("later zxid").count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("seen=0x7f00000000000000"), "{log}");
}

/// What a connection with these bytes leaves in a log at info, without colours.
fn log_of(first: &[u8]) -> String {
    let server = Running::start(&[BIND, &["--log", "info"]].concat());
    server.answer_to(first);
    server.stop("TERM").2
}

/// A connect request for a new session, and after it these bytes.
fn session_and(rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    (bytes[3], bytes[31]) = (44, 16);
    [bytes, rest.to_vec()].concat()
}

#[test]
fn a_connection_that_ends_is_logged_once_with_its_peer_its_session_and_the_reason() {
    let close = [0, 0, 0, 8, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xf5];
    let unknown_operation = [0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0, 99];
    let bad_auth = b"\0\0\0\x1b\xff\xff\xff\xfc\0\0\0\x64\0\0\0\0\0\0\0\x04none\0\0\0\x03a:b";
    for (sent, reason) in [
        (session_and(&close), "its session was closed"),
        (session_and(&unknown_operation), "an unknown operation"),
        (session_and(bad_auth), "authentication failed"),
        (session_and(&[0x7f, 0, 0, 0]), "a frame of an illegal length"),
    ] {
        let log = log_of(&sent);
        let lines: Vec<_> = log.lines().filter(|line| line.contains("connection closed")).collect();
        let [line] = lines[..] else { panic!("{log}") };
        assert!(line.contains("INFO") && line.contains(&format!("reason=\"{reason}\"")), "{line}");
        assert!(line.contains("peer=127.0.0.1:") && line.contains("session=0x"), "{line}");
    }
}

#[test]
fn probes_of_the_port_and_four_letter_words_are_not_logged_at_info() {
    let server = Running::start(&[BIND, &["--log", "info"]].concat());
    server.word("srvr");
    drop(server.connect());
    server.word("srvr");
    let log = server.stop("TERM").2;
    assert!(log.contains("serving") && !log.contains("connection closed"), "{log}");
}

#[test]
fn a_flood_of_connections_does_not_become_a_flood_of_lines() {
    const CONNECTIONS: usize = 500;
    const A_SECOND: usize = 100;
    let since = Instant::now();
    let server = Running::start(&[BIND, &["--log", "info"]].concat());
    for _ in 0..CONNECTIONS {
        server.open_session();
    }
    let log = server.stop("TERM").2;
    let lines = log.lines().filter(|line| line.contains("connection closed")).count();
    let periods = usize::try_from(since.elapsed().as_secs()).unwrap() + 1;
    assert!((A_SECOND.min(CONNECTIONS)..=A_SECOND * periods).contains(&lines), "{lines} in {periods} s");
}

#[test]
fn as_json_every_line_is_an_object_with_the_fields_of_its_event() {
    let server = Running::start(&[BIND, &["--log", "info", "--log-format", "json"]].concat());
    server.open_session();
    let log = server.stop("TERM").2;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let opened = lines.iter().find(|line| line["message"] == "session opened").expect("an event");
    assert_eq!((opened["level"].as_str(), opened["peer"].as_str()), (Some("INFO"), Some("127.0.0.1")));
    assert!(opened["timestamp"].as_str().unwrap().ends_with('Z'), "{opened}");
    assert!(opened["session"].as_str().unwrap().starts_with("0x"), "{opened}");
}

#[test]
fn as_json_the_end_of_a_server_that_does_not_start_is_an_object_too() {
    let arguments = [BIND, &["--log", "off", "--log-format", "json", "--config", "/no/such.cfg"]].concat();
    let line: Value = serde_json::from_str(&error_of(&arguments)).unwrap();
    assert_eq!(line["level"], "ERROR");
    assert!(line["message"].as_str().unwrap().starts_with("cannot read the configuration"), "{line}");
}
