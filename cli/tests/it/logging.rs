//! The log: which lines there are, and that the server does not depend on who reads them.

#![cfg(unix)]

use std::time::Duration;

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
