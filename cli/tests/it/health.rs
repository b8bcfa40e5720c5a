//! `zoolet health` and `zoolet wait`: their exit codes, and what they print, beside servers that answer in several ways.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{BINARY, Running};

const STATUS: &str =
    "Zookeeper version: 3.9.5-x, built on y\nConnections: 1\nZxid: 0x7\nMode: follower\nNode count: 5\n";

/// The exit code, stdout and stderr of a command.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = std::process::Command::new(BINARY).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A server that gives each connection, and its number, to `serve`. Its address.
fn scripted(mut serve: impl FnMut(usize, TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            serve(n, stream.unwrap());
        }
    });
    address
}

/// A server that answers four-letter words with this text.
fn answering(text: &'static str) -> String {
    scripted(move |_, mut stream| {
        // A client whose time is over closes instead.
        let _ = stream.read_exact(&mut [0; 4]).and_then(|()| stream.write_all(text.as_bytes()));
    })
}

#[test]
fn a_server_that_serves_is_healthy_and_says_what_it_is() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    let (code, out, err) = run(&["health", address]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with(&format!("{address} serves: standalone, version ")), "{out}");
    for command in ["health", "wait"] {
        let (code, out, _) = run(&[command, address, "--json"]);
        let seen: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &seen["healthy"], &seen["mode"]), (0, &true.into(), &"standalone".into()), "{out}");
        assert_eq!((&seen["asked"], &seen["connections"]), (&"srvr".into(), &1.into()), "{out}");
    }
}

#[test]
fn a_server_that_is_not_there_or_closes_or_does_not_serve_is_not_healthy() {
    // A port that no test gets.
    let nobody = "127.0.0.1:1".to_owned();
    let starting = answering("This ZooKeeper instance is not currently serving requests\n");
    let closing = scripted(|_, _| {});
    let foreign = answering("HTTP/1.1 400 Bad Request\r\n\r\n");
    for (address, trouble) in [
        (&nobody, "cannot connect: "),
        (&starting, "it runs, and does not serve, "),
        (&closing, "it closes the connection without an answer"),
        (&foreign, "it does not answer as a ZooKeeper does: HTTP/1.1 400 Bad Request"),
    ] {
        let (code, out, err) = run(&["health", address, "--timeout", "2s"]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.starts_with(&format!("zoolet: {address} does not serve: {trouble}")), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, out, _) = run(&["health", &nobody, "--json"]);
    let seen: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &seen["healthy"]), (1, &false.into()));
    assert!(seen["error"].as_str().unwrap().starts_with("cannot connect"), "{out}");
}

#[test]
fn a_server_that_accepts_and_says_nothing_takes_no_longer_than_the_timeout() {
    // Connections wait in its backlog.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for command in ["health", "wait"] {
        let since = Instant::now();
        let (code, _, err) = run(&[command, &address, "--timeout", "100ms"]);
        assert_eq!(code, 1);
        assert!(err.ends_with("does not serve: no answer in time, as of a port for TLS without --tls, or of a server under heavy load\n"), "{err}");
        assert!(since.elapsed() >= Duration::from_millis(100), "{err}");
    }
}

#[test]
fn without_four_letter_words_a_session_with_a_ping_decides() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--log", "info"]);
    let behind = server.addrs[0].clone();
    // Words are refused, as by a whitelist or a proxy; everything else reaches the server.
    let address = scripted(move |n, mut stream| {
        if n == 0 {
            stream.read_exact(&mut [0; 4]).unwrap();
            return stream.write_all(b"srvr is not executed because it is not in the whitelist.\n").unwrap();
        }
        let mut server = TcpStream::connect(&behind).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), stream.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut stream, &mut server);
    });
    let (code, out, err) = run(&["health", &address]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("serves: a session and a ping; it answers no four-letter words"), "{out}");
    let log = server.stop("TERM").2;
    assert!(log.contains("session opened") && log.contains("session closed"), "{log}");
}

#[test]
fn wait_goes_on_until_the_server_serves() {
    // Two looks at a server that starts, each of them a word and a connect request.
    let address = scripted(|n, mut stream| {
        if n >= 4 {
            stream.read_exact(&mut [0; 4]).unwrap();
            stream.write_all(STATUS.as_bytes()).unwrap();
        }
    });
    let (code, out, err) = run(&["wait", &address, "--timeout", "30s"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("serves: follower, version 3.9.5, zxid 0x7, 5 znodes, 1 connections;"), "{out}");
}

#[test]
fn what_was_seen_last_is_told_and_not_that_the_time_ended_the_look_after_it() {
    let mut held = Vec::new();
    let address = scripted(move |n, mut stream| match n {
        0 => {
            stream.read_exact(&mut [0; 4]).unwrap();
            stream.write_all(b"This ZooKeeper instance is not currently serving requests\n").unwrap();
        }
        _ => held.push(stream),
    });
    let (code, _, err) = run(&["wait", &address, "--timeout", "1s"]);
    assert_eq!(code, 1);
    assert!(err.contains("does not serve: it runs"), "{err}");
}

/// As [`run`], with the variable.
fn run_at(servers: &str, arguments: &[&str]) -> (i32, String, String) {
    let output =
        std::process::Command::new(BINARY).args(arguments).env("ZOOKEEPER", servers).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn all_servers_of_the_variable_must_serve() {
    let (one, other) = (answering(STATUS), answering(STATUS));
    let down = answering("This ZooKeeper instance is not currently serving requests\n");
    for command in ["health", "wait"] {
        let (code, out, err) = run_at(&format!("{one},{other}/chroot"), &[command]);
        assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 2), "{out}");
        assert!(out.starts_with(&format!("{one} serves: follower")), "{out}");
        let (code, out, err) = run_at(&format!("{down},{one}"), &[command, "--timeout", "1s"]);
        assert_eq!((code, out.lines().count(), err.lines().count()), (1, 1, 1), "{out}{err}");
        assert!(err.starts_with(&format!("zoolet: {down} does not serve: it runs")), "{err}");
    }
    assert_eq!(run_at(&down, &["health", &one]).0, 0, "an argument comes first");
    let (code, _, err) = run_at("zk1:port", &["health"]);
    assert_eq!(code, 2);
    assert!(err.contains("zk1:port must be HOST:PORT,HOST:PORT"), "{err}");
}

#[test]
fn an_ensemble_has_a_leader_once_one_of_its_servers_serves_writes() {
    const READ_ONLY: &str =
        "Zookeeper version: 3.9.5-x, built on y\nConnections: 1\nZxid: 0x7\nMode: read-only\nNode count: 5\n";
    // Connections wait in its backlog.
    let backlog = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = backlog.local_addr().unwrap().to_string();
    let cut_off = answering(READ_ONLY);
    let electing = scripted(|n, mut stream| {
        stream.read_exact(&mut [0; 4]).unwrap();
        let answer =
            if n < 2 { "This ZooKeeper instance is not currently serving requests\n" } else { STATUS };
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let all = format!("{silent},{cut_off},{electing}");
    let begun = Instant::now();
    let (code, out, err) = run(&["wait", &all, "--leader", "--timeout", "30s"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "the others were waited for");
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 1), "{out}");
    assert!(out.starts_with(&format!("{electing} serves: follower")), "{out}");
    assert_eq!(run(&["wait", &cut_off]).0, 0, "it serves");
    let (code, _, err) = run(&["wait", &cut_off, "--leader", "--timeout", "100ms"]);
    assert_eq!(code, 1);
    assert!(err.ends_with("it is cut off from its ensemble, and serves only readers\n"), "{err}");
}

#[test]
fn a_znode_is_waited_for_until_the_time_is_over() {
    let server = Running::start(&["--bind", "127.0.0.1:0"]);
    let address = server.addrs[0].as_str();
    let (code, out, err) = run(&["wait", &format!("{address}/zookeeper"), "--znode", "/quota"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("/quota exists: version 0"), "{out}");
    let (code, out, err) = run(&["wait", address, "--znode", "/ready", "--timeout", "100ms"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(err, format!("zoolet: wait: /ready does not exist after 100ms (server {address})\n"));
    let (code, out, _) = run_at(address, &["wait", "--znode", "/ready", "--gone", "--json"]);
    let seen: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &seen["exists"]), (0, &false.into()));
    assert_eq!(run(&["wait", "127.0.0.1:1", "--znode", "/ready", "--timeout", "100ms"]).0, 5);
}

#[test]
fn an_address_without_a_port_is_a_mistake() {
    let (code, _, err) = run(&["health", "localhost"]);
    assert_eq!(code, 2);
    assert!(err.contains("must be a host and a port, such as 127.0.0.1:2181"), "{err}");
}
