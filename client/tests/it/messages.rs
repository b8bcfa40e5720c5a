//! What errors report: the call, the host, the cause, and a hint.

use std::io;
use std::time::Duration;

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;
use zoolet_client::{Acl, Client, Clock, ConnectOptions, Error, ErrorCode, Perms, SessionState, WatcherType};
use zoolet_proto::{Reply, Stat};

use crate::common::{SESSION, TIMEOUT, connected, connected_with, listener, until};

/// Shorter than the least time for one attempt, so that none times out.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(900);

/// Options with a clock that the test moves, so that sockets have all the time they need.
fn options() -> (ConnectOptions, Clock) {
    let clock = Clock::manual();
    (Client::options().connect_timeout(CONNECT_TIMEOUT).clock(clock.clone()), clock)
}

async fn listeners<const N: usize>() -> ([TcpListener; N], [String; N]) {
    let mut listeners = Vec::new();
    for _ in 0..N {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port"));
    }
    let hosts = std::array::from_fn(|n| listeners[n].local_addr().expect("an address").to_string());
    (listeners.try_into().expect("all of them"), hosts)
}

/// What connecting fails with if each of the hosts accepts a connection and closes it.
async fn connect_to_hosts_that_close<const N: usize>() -> (Error, [String; N]) {
    let (listeners, hosts) = listeners::<N>().await;
    let (options, clock) = options();
    let connecting = tokio::spawn(options.connect(hosts.join(",")));
    let closing = listeners.map(|listener| {
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.read_exact(&mut [0; 40]).await.expect("a connect request");
            stream.shutdown().await.expect("a connection");
            // Until the client has left.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            listener
        })
    });
    let mut listeners = Vec::new();
    for closed in closing {
        listeners.push(closed.await.expect("no panic"));
    }
    clock.advance(CONNECT_TIMEOUT).expect("a manual clock");
    (connecting.await.expect("no panic").expect_err("no server"), hosts)
}

/// What connecting fails with if the peer sends `greeting` to a client that sends something.
async fn connect_to_a_peer_that_sends(greeting: &[u8]) -> Error {
    let ([listener], [host]) = listeners().await;
    let (options, clock) = options();
    let connecting = tokio::spawn(options.connect(&host));
    let (mut stream, _) = listener.accept().await.expect("a connection");
    stream.read_exact(&mut [0; 40]).await.expect("a connect request");
    stream.write_all(greeting).await.expect("a greeting");
    // Until the client has left; a reset is no less.
    let _ = stream.read_to_end(&mut Vec::new()).await;
    clock.advance(CONNECT_TIMEOUT).expect("a manual clock");
    let error = connecting.await.expect("no panic").expect_err("no server");
    assert!(error.to_string().contains(&format!("; {host}: ")), "{error}");
    error
}

#[tokio::test]
async fn connecting_to_dead_hosts_names_each_with_its_cause() {
    let (error, hosts) = connect_to_hosts_that_close::<3>().await;
    let text = error.to_string();
    assert!(text.starts_with("connect: no session within 900ms; "), "{text}");
    for host in &hosts {
        let cause = format!("; {host}: the server closed the connection before it opened a session");
        assert_eq!(text.matches(&cause).count(), 1, "{text}");
    }
    let cause = error.connection_error().expect("a cause");
    assert_eq!(cause.kind(), io::ErrorKind::UnexpectedEof);
    assert!(hosts.iter().any(|host| cause.host() == Some(host)));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_message_names_at_most_five_hosts() {
    let (error, _) = connect_to_hosts_that_close::<8>().await;
    let text = error.to_string();
    assert_eq!(text.matches("closed the connection").count(), 5, "{text}");
    assert!(text.ends_with("; and 3 more"), "{text}");
}

#[tokio::test]
async fn a_refused_connection_is_reported_with_its_host() {
    let ([listener], [host]) = listeners().await;
    drop(listener);
    let zk = Client::options().connect_timeout(Duration::from_millis(100)).connect(&host);
    let text = zk.await.expect_err("no server").to_string();
    assert!(text.contains(&format!("; {host}: ")), "{text}");
}

#[tokio::test]
async fn a_host_that_has_not_answered_yet_is_named() {
    let ([listener], [host]) = listeners().await;
    let (options, clock) = options();
    let connecting = tokio::spawn(options.connect(&host));
    let silent = listener.accept().await.expect("a connection");
    clock.advance(CONNECT_TIMEOUT).expect("a manual clock");
    let text = connecting.await.expect("no panic").expect_err("no answer").to_string();
    assert_eq!(text, format!("connect: no session within 900ms; {host}: no answer yet"));
    drop(silent);
}

#[tokio::test]
async fn a_port_that_speaks_another_protocol_is_named_with_what_it_says() {
    let text =
        connect_to_a_peer_that_sends(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n").await.to_string();
    assert!(
        text.contains("not a ZooKeeper server: the reply begins with \"HTTP/1.1 400 Bad Request\""),
        "{text}"
    );
    let text = connect_to_a_peer_that_sends(b"\x15\x03\x03\x00\x02\x02F").await.to_string();
    assert!(text.contains("not a ZooKeeper server") && text.contains("TLS"), "{text}");
    let text =
        connect_to_a_peer_that_sends(b"SSH-2.0-OpenSSH_9.6 0123456789012345678901234567890123\n").await;
    assert!(text.to_string().contains("SSH-2.0") && text.to_string().len() < 200, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_in_vain_reports_why_there_is_no_connection() {
    let (connect, mut listener) = listener();
    let served = std::sync::atomic::AtomicBool::new(false);
    let connect = move || {
        let first = !served.swap(true, std::sync::atomic::Ordering::SeqCst);
        let stream = connect().into_inner();
        let refused = || Err(io::Error::new(io::ErrorKind::ConnectionRefused, "refused by the test"));
        std::future::ready::<io::Result<DuplexStream>>(if first { stream } else { refused() })
    };
    let (zk, mut peer) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    assert_eq!(zk.last_connection_error(), None);
    let late = zk.get_data("/x").timeout(Duration::from_secs(1)).send();
    peer.next().await.expect("a request");
    assert_eq!(late.await.expect_err("late").to_string(), "getData /x: timed out", "the connection is up");

    let lost = zk.set_data("/x", "").timeout(Duration::from_secs(1)).send();
    peer.next().await.expect("a request");
    drop(peer);
    let error = lost.await.expect_err("no connection");
    assert_eq!(
        error.to_string(),
        "setData /x: connection lost; last connection error: the server closed the connection"
    );
    let late = zk.get_data("/x").timeout(Duration::from_secs(2)).send();
    let waited = zk.get_data("/y").send();
    let error = late.await.expect_err("no connection");
    assert_eq!(error.to_string(), "getData /x: timed out; last connection error: refused by the test");
    assert_eq!(format!("{error:?}"), "Timeout(getData /x; last connection error: refused by the test)");
    let error = waited.await.expect_err("no connection");
    assert_eq!(error.to_string(), "getData /y: connection lost; last connection error: refused by the test");
    assert_eq!(zk.state(), SessionState::Disconnected);
    let last = zk.last_connection_error().expect("an error");
    assert_eq!((last.kind(), last.host()), (io::ErrorKind::ConnectionRefused, None));
    assert_eq!(error.connection_error(), Some(&last));
}

#[tokio::test(start_paused = true)]
async fn the_last_connection_error_stays_after_a_reconnect_and_calls_do_not_blame_it() {
    let (zk, peer, mut listener) = connected().await;
    drop(peer);
    let _silent = listener.accept().await;
    let last = zk.last_connection_error().expect("an error");
    assert_eq!(last.to_string(), "the server closed the connection");
    let late = zk.get_data("/x").timeout(TIMEOUT / 9).await.expect_err("late");
    assert_eq!(late.to_string(), "getData /x: timed out");
}

#[tokio::test(start_paused = true)]
async fn refusals_carry_what_the_client_knows_about_them() {
    let (zk, mut peer, _listener) = connected_with(Client::options().chroot("/app")).await;
    let second = Duration::from_secs(1);
    let own = || vec![Acl::new(Perms::ALL, "auth", "")];
    for (call, code, message) in [
        (
            zk.create("/no/parent", "").send(),
            ErrorCode::NoNode,
            "create /no/parent: no such znode; its parent /no does not exist, which `.parents()` creates",
        ),
        (
            zk.create("/a", "").send(),
            ErrorCode::NoNode,
            "create /a: no such znode; the chroot /app does not exist",
        ),
        (
            zk.create("/e/a", "").send(),
            ErrorCode::NoChildrenForEphemerals,
            "create /e/a: ephemerals may not have children; its parent /e is ephemeral",
        ),
        (
            zk.create("/t", "").ttl(second).send(),
            ErrorCode::Unimplemented,
            "createTTL /t: not implemented by the server; a time to live requires \
             `zookeeper.extendedTypesEnabled=true` at the servers",
        ),
        (
            zk.create("/c", "").container().send(),
            ErrorCode::Unimplemented,
            "createContainer /c: not implemented by the server; containers require servers of 3.5.3 or later",
        ),
        (
            zk.create("/p", "").acl(own()).send(),
            ErrorCode::InvalidAcl,
            "create /p: invalid ACL; scheme auth stands for the identities of this session, which has none",
        ),
    ] {
        let (xid, _) = peer.next().await.expect("a request");
        peer.error(xid, code).await;
        let error = call.await.expect_err("refused");
        assert_eq!((error.code(), error.to_string().as_str()), (Some(code), message));
    }
    let read = zk.get_data("/x").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.error(xid, ErrorCode::NoNode).await;
    let error = read.await.expect_err("refused");
    assert_eq!(error.to_string(), "getData /x: no such znode; with the chroot, its path is /app/x");

    let multi = zk.multi().set_data("/a", "").check("/b", 7).send();
    let (xid, _) = peer.next().await.expect("a request");
    let results = [None, Some(ErrorCode::BadVersion)].map(zoolet_proto::records::OpResult::Error);
    peer.reply(xid, Reply::Multi(results.into())).await;
    let error = multi.await.expect_err("refused");
    assert_eq!(error.to_string(), "multi, operation 1, check /b: version mismatch; version 7 was expected");
    let error = zk.delete("/a").version(-1).await.expect_err("no version");
    assert_eq!(error.to_string(), "delete /a: version mismatch; no znode has version -1");
}

/// As a server of 3.4 answers them.
#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_does_not_know_names_the_release_that_has_it() {
    let (zk, mut peer, _listener) = connected().await;
    for (name, release) in [
        ("getEphemerals", "3.6.0"),
        ("getAllChildrenNumber", "3.6.0"),
        ("whoAmI", "3.7.0"),
        ("removeWatches", "3.5.0"),
    ] {
        let call = async {
            match name {
                "getEphemerals" => zk.get_ephemerals("/").await.map(drop),
                "getAllChildrenNumber" => zk.get_all_children_number("/").await.map(drop),
                "whoAmI" => zk.who_am_i().await.map(drop),
                _ => zk.remove_watches("/", WatcherType::Data).await,
            }
        };
        let server = async {
            let (xid, _) = peer.next().await.expect("a request");
            peer.error(xid, ErrorCode::Unimplemented).await;
        };
        let (refused, ()) = tokio::join!(call, server);
        let error = refused.expect_err("refused").to_string();
        let hint = format!("not implemented by the server; {name} requires servers of {release} or later");
        assert!(error.ends_with(&hint), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unusual_scheme_that_is_refused_is_perhaps_unknown() {
    for (scheme, text) in [
        ("digset", "the server refused the identity of scheme \"digset\", which it perhaps does not know"),
        ("digest", "the server refused the identity of scheme \"digest\""),
    ] {
        let (zk, mut peer, _listener) = connected().await;
        let added = zk.add_auth(scheme, "u:p").send();
        let (xid, _) = peer.next().await.expect("a request");
        peer.error(xid, ErrorCode::AuthFailed).await;
        let error = added.await.expect_err("refused");
        assert_eq!(error.to_string(), format!("addAuth: authentication failed; {text}"));
    }
}

#[test]
fn connecting_outside_of_a_runtime_is_an_error_that_says_so() {
    let (connect, _listener) = listener();
    let mut connecting = Client::connect(connect);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = std::pin::Pin::new(&mut connecting).poll(&mut cx) else {
        panic!("it waits");
    };
    assert_eq!(
        error.to_string(),
        "connect: no tokio runtime here; await it in `#[tokio::main]`, `#[tokio::test]` or `Runtime::block_on`"
    );
}

#[tokio::test(start_paused = true)]
async fn an_identity_makes_the_scheme_auth_valid_so_it_is_not_blamed() {
    let (zk, mut peer, _listener) = connected().await;
    let added = zk.add_auth("digest", "u:p").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Empty).await;
    added.await.expect("an identity");
    let call = zk.set_acl("/a", Acl::creator_all()).send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.error(xid, ErrorCode::InvalidAcl).await;
    assert_eq!(call.await.expect_err("refused").to_string(), "setACL /a: invalid ACL");
    let call = zk.exists("/a").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Stat(Stat::default())).await;
    call.await.expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn mistakes_that_are_not_sent_come_with_a_hint() {
    let (zk, mut peer, _listener) = connected().await;
    let error = zk.get_data("config").await.expect_err("no path");
    assert_eq!(error.to_string(), "getData config: a path must start with /; did you mean /config?");
    let error = zk.get_data("/config/").await.expect_err("no path");
    assert!(!error.to_string().contains("did you mean"), "{error}");
    peer.expect_silence().await;
    let error = Client::connect("tcp://host:2181/app").await.expect_err("no connect string");
    assert_eq!(
        error.to_string(),
        "connect: \"tcp://host:2181/app\": a connect string begins with its hosts, or with \"zk://\", \"zk+tls://\", \
         \"dns-srv://\" or \"dns-srv+tls://\""
    );
}

/// The lines of the log at level info and above, without times.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

/// The log of this thread, until the guard is dropped.
fn logged() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let sink = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_ansi(false)
        .without_time()
        .with_writer(move || sink.clone());
    (log, tracing::subscriber::set_default(subscriber.finish()))
}

#[tokio::test(start_paused = true)]
async fn another_session_timeout_than_asked_for_is_logged_once() {
    let (log, _logging) = logged();
    for (asked, times) in [(TIMEOUT, 0), (TIMEOUT / 2, 1)] {
        let (zk, peer, mut listener) = connected_with(Client::options().session_timeout(asked)).await;
        drop(peer);
        drop(listener.accept().await);
        listener.connection().await.grant_session_as(SESSION, asked).await;
        until(|| zk.session_timeout() == asked).await;
        let lines = log.lines();
        let warned: Vec<_> = lines.iter().filter(|line| line.contains("another session timeout")).collect();
        assert_eq!(warned.len(), times, "{lines:#?}");
        assert!(warned.iter().all(|line| {
            line.contains("WARN") && line.contains("asked=4.5s") && line.contains("granted=9s")
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_says_once_why_there_is_no_connection() {
    let (log, _logging) = logged();
    let (connect, mut listener) = listener();
    let refusing = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let refuses = Arc::clone(&refusing);
    let connect = move || {
        let refused = || Err(io::Error::new(io::ErrorKind::ConnectionRefused, "refused by the test"));
        let stream = if refuses.load(std::sync::atomic::Ordering::SeqCst) {
            refused()
        } else {
            connect().into_inner()
        };
        std::future::ready::<io::Result<DuplexStream>>(stream)
    };
    let (zk, peer) = tokio::join!(Client::connect(connect), listener.accept());
    let zk = zk.expect("a session");
    refusing.store(true, std::sync::atomic::Ordering::SeqCst);
    drop(peer);
    zk.get_data("/a").await.expect_err("no connection within the session timeout");
    refusing.store(false, std::sync::atomic::Ordering::SeqCst);
    let _peer = listener.accept().await;
    let lines = log.lines();
    let about = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(about("connection lost"), 1, "{lines:#?}");
    assert_eq!(about("refused by the test"), 1, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("WARN") && line.contains("connection lost")), "{lines:#?}");
}
