//! `zoolet capture`, `show` and `replay`: what they print, and how they end.

#![cfg(unix)]

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;
use zoolet_proto::records::{AuthPacket, ConnectRequest, Create, Delete, GetData, SetData};
use zoolet_proto::{AclList, OpCode, Request, SessionId, Xid, Zxid};

use crate::common::directory::run;
use crate::common::hostile::{Answer, Connections, before, before_with};
use crate::common::{BINARY, Running};

fn server() -> Running {
    Running::start(&["--bind", "127.0.0.1:0"])
}

/// A capture that runs.
struct Capturing {
    process: Child,
    address: String,
}

impl Capturing {
    fn start(server: &str, file: &str) -> Self {
        Self::spawn(Command::new(BINARY).args([
            "capture",
            "--listen",
            "127.0.0.1:0",
            "--server",
            server,
            file,
        ]))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.trim_end().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, address }
    }

    /// Ends it with a signal: the exit code, and what it has printed.
    fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let mut out = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.process.wait().unwrap().code(), out)
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        // No effect if it has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that sends frames and waits for each reply.
struct Wire {
    stream: TcpStream,
    xid: i32,
    session: SessionId,
    password: Bytes,
}

impl Wire {
    fn open(address: &str, session: SessionId, password: Bytes) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let mut wire = Self { stream, xid: 0, session, password: password.clone() };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: 30_000,
            session,
            password: Some(password),
            read_only: Some(false),
        };
        let mut bytes = BytesMut::new();
        request.encode_frame(&mut bytes);
        wire.stream.write_all(&bytes).unwrap();
        let answer = wire.frame().expect("an answer");
        wire.session = SessionId(i64::from_be_bytes(answer[8..16].try_into().unwrap()));
        wire.password = Bytes::copy_from_slice(&answer[20..36]);
        wire
    }

    fn new(address: &str) -> Self {
        Self::open(address, SessionId(0), Bytes::from_static(&[0; 16]))
    }

    fn frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    /// Sends a request, and reads up to its reply.
    fn ask(&mut self, request: &Request) {
        self.error_of(request);
    }

    /// The same; returns the error code of the reply.
    fn error_of(&mut self, request: &Request) -> i32 {
        self.xid += 1;
        let mut bytes = BytesMut::new();
        request.encode_frame(Xid(self.xid), &mut bytes);
        self.stream.write_all(&bytes).unwrap();
        loop {
            let reply = self.frame().expect("a reply");
            if reply[..4] == self.xid.to_be_bytes() {
                return i32::from_be_bytes(reply[12..16].try_into().unwrap());
            }
        }
    }
}

/// The flags of a container.
const CONTAINER: i32 = 4;

fn create(path: &str, flags: i32) -> Request {
    let data = Some(Bytes::from_static(b"some data"));
    Request::Create(Create { path: path.to_owned(), data, acl: Some(AclList::OPEN), flags })
}

fn get(path: &str, watch: bool) -> Request {
    Request::GetData(GetData { path: path.to_owned(), watch })
}

fn set(path: &str) -> Request {
    Request::SetData(SetData { path: path.to_owned(), data: Some(Bytes::from_static(b"new")), version: -1 })
}

/// Two clients with watches, an ephemeral, credentials, and a session that is taken up again.
fn talk(address: &str) {
    let (mut one, mut other) = (Wire::new(address), Wire::new(address));
    one.ask(&create("/a", 0));
    one.ask(&create("/a/e", 1));
    other.ask(&get("/a", true));
    other.ask(&get("/a/none", true));
    one.ask(&set("/a"));
    other.ask(&get("/a", false));
    let auth = AuthPacket {
        kind: 0,
        scheme: Some("digest".to_owned()),
        auth: Some(Bytes::from_static(b"bob:hidden")),
    };
    other.ask(&Request::Auth(auth));
    other.ask(&Request::WhoAmI);
    let again = Wire::open(address, one.session, one.password.clone());
    drop(one);
    let mut one = again;
    one.ask(&get("/a/e", false));
    one.ask(&Request::Delete(Delete { path: "/a/e".to_owned(), version: -1 }));
    one.ask(&Request::CloseSession);
    other.ask(&Request::CloseSession);
}

/// What two clients say to a server, as a file.
fn captured(temp: &TempDir) -> String {
    let file = temp.path().join("talk.cap").to_str().unwrap().to_owned();
    let server = server();
    let capture = Capturing::start(&server.addrs[0], &file);
    talk(&capture.address);
    let mut word = TcpStream::connect(&capture.address).unwrap();
    word.write_all(b"ruok").unwrap();
    word.read_to_end(&mut Vec::new()).unwrap();
    let (code, out) = capture.stop("INT");
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with(&format!("{file}: 4 connections, ")), "{out}");
    file
}

#[test]
fn a_capture_is_shown_line_by_line_without_secrets() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let shown = run(&["show", &file]);
    for part in [
        "#1   >     -  connect timeout=30000 session=0 zxid=0\n",
        "create path=/a data=\"some data\" acl=[world:anyone:cdrwa] flags=0\n",
        "create -> ok zxid=0x",
        "event NodeDataChanged zxid=0x",
        "getData -> NoNode zxid=0x",
        "auth scheme=digest auth=\"bob:\\x00\\x00\\x00\\x00\\x00\\x00\" kind=0\n",
        "bytes bytes=\"ruok\"\n",
        "bytes bytes=\"ruok is not executed",
    ] {
        assert!(shown.clean().contains(part), "{part}\n{}", shown.out);
    }
    let bytes = fs::read(&file).unwrap();
    assert!(!bytes.windows(6).any(|part| part == b"hidden"));
    let json = run(&["show", "--json", &file]);
    assert_eq!(json.clean().lines().count(), shown.out.lines().count());
    let create = json.out.lines().find(|line| line.contains("\"op\":\"create\"")).unwrap();
    assert!(create.contains(r#""connection":1,"from":"client","kind":"request","xid":1,"#), "{create}");
}

#[test]
fn a_replay_on_a_fresh_server_has_no_difference() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let server = server();
    let replay = ["replay", &file, "--server", &server.addrs[0], "--diff"];
    let ran = run(&[&replay[..], &["--auth", "digest:bob:hidden"]].concat());
    let expected = format!(
        "{}: 4 connections, 12 requests, 1 events, 0 pings left out, 0 differences\n",
        server.addrs[0]
    );
    assert_eq!(ran.clean(), expected);
}

/// A client that has two events when it leaves, and one whose auth fails, so that the server ends its connection.
fn captured_events(temp: &TempDir) -> String {
    let file = temp.path().join("events.cap").to_str().unwrap().to_owned();
    let server = server();
    let capture = Capturing::start(&server.addrs[0], &file);
    let (mut one, mut other) = (Wire::new(&capture.address), Wire::new(&capture.address));
    one.ask(&create("/a", 0));
    one.ask(&create("/b", 0));
    other.ask(&get("/a", true));
    other.ask(&get("/b", true));
    one.ask(&set("/a"));
    one.ask(&set("/b"));
    for _ in 0..2 {
        assert_eq!(other.frame().unwrap()[..4], [0xff; 4], "an event");
    }
    drop(other);
    let auth = AuthPacket { kind: 0, scheme: Some("none".to_owned()), auth: Some(Bytes::new()) };
    let mut bytes = BytesMut::new();
    Request::Auth(auth).encode_frame(Xid::AUTH, &mut bytes);
    let mut failing = Wire::new(&capture.address);
    failing.stream.write_all(&bytes).unwrap();
    while failing.frame().is_some() {}
    one.ask(&get("/a", false));
    one.ask(&Request::CloseSession);
    assert_eq!(capture.stop("INT").0, Some(0));
    file
}

#[test]
fn whatever_is_not_as_captured_is_a_difference() {
    let temp = TempDir::new().unwrap();
    let file = captured_events(&temp);
    let replay = |answer: fn() -> Answer, connections: Connections, timeout| {
        let server = self::server();
        let address = before_with(
            &server.addrs[0],
            move |asked, _| if asked.op == Some(OpCode::SetData) { answer() } else { Answer::Honest },
            connections,
        );
        run(&["replay", &file, "--server", &address, "--diff", "--timeout", timeout])
    };
    let honest = Connections { events: |event| vec![event], end: true };
    let ran = replay(|| Answer::Honest, honest, "30s");
    assert!(ran.clean().ends_with(" 2 events, 0 pings left out, 0 differences\n"), "{ran:?}");

    let leaves = "before the client ended the connection\n    captured: NodeDataChanged zxid=";
    let ended =
        "nothing was asked\n    captured: the server has ended the connection\n    replayed: it has not\n";
    let lost = "setData path=/a data=\"new\" version=-1\n    captured: ok zxid=";
    for (fault, answer, connections, shown) in [
        (
            "an event is lost",
            (|| Answer::Honest) as fn() -> Answer,
            Connections { events: |_| Vec::new(), ..honest },
            leaves,
        ),
        (
            "an event comes twice",
            || Answer::Honest,
            Connections { events: |event| vec![event.clone(), event], ..honest },
            leaves,
        ),
        (
            "the server does not end a connection",
            || Answer::Honest,
            Connections { end: false, ..honest },
            ended,
        ),
        ("a connection is cut before a reply", || Answer::Cut, honest, lost),
        ("a reply does not come", || Answer::Silence, honest, lost),
    ] {
        let ran = replay(answer, connections, "300ms");
        assert_eq!(ran.code, Some(1), "{fault}: {ran:?}");
        assert!(ran.out.contains(shown), "{fault}: {shown}\n{}", ran.out);
    }
    let cut = replay(|| Answer::Cut, honest, "300ms").out;
    assert!(cut.contains("\n    replayed: the server has ended the connection\n"), "{cut}");
}

#[test]
fn a_capture_warns_of_what_it_does_not_have() {
    let (temp, server) = (TempDir::new().unwrap(), server());
    let file = temp.path().join("x.cap").to_str().unwrap().to_owned();
    // The capture keeps its own session alive by pings, from the beginning.
    let (cuts, cut) = channel();
    let address = before(&server.addrs[0], move |asked, _| match asked.op {
        Some(OpCode::Ping) => {
            let _ = cuts.send(());
            Answer::Cut
        }
        _ => Answer::Honest,
    });
    let mut capture = Capturing::start(&address, &file);
    cut.recv().unwrap();
    let mut stderr = capture.process.stderr.take().unwrap();
    assert_eq!(capture.stop("INT").0, Some(0));
    let mut err = String::new();
    stderr.read_to_string(&mut err).unwrap();
    let warning =
        "zoolet: warning: what the server has deleted by itself is not known to the end of the capture: ";
    assert!(err.starts_with(warning), "{err}");

    // A connection takes two descriptors. With an odd number of them, one client is let in for which there is no second.
    let warned = [20, 21].map(|count| {
        let script = format!("ulimit -n {count}; exec $0 \"$@\"");
        let few = ["-c", &script, BINARY, "capture", "--listen", "127.0.0.1:0", "--server"];
        let mut capture = Capturing::spawn(Command::new("sh").args(few).args([&server.addrs[0], &file]));
        let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(&capture.address).unwrap()).collect();
        clients.iter().for_each(|client| client.set_nonblocking(true).unwrap());
        let is_ended = |mut client: &TcpStream| matches!(client.read(&mut [0]), Ok(0));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) && !clients.iter().any(is_ended) {
            thread::yield_now();
        }
        let mut stderr = capture.process.stderr.take().unwrap();
        assert_eq!(capture.stop("INT").0, Some(0));
        let mut err = String::new();
        stderr.read_to_string(&mut err).unwrap();
        err
    });
    let warning = "zoolet: warning: not all connections were forwarded to the server, ";
    let is_warning = |err: &String| err.starts_with(warning) && err.contains("Too many open files");
    assert!(warned.iter().any(is_warning), "{warned:?}");
}

#[test]
fn a_capture_without_a_client_is_no_comparison() {
    let (temp, server) = (TempDir::new().unwrap(), server());
    let file = temp.path().join("empty.cap").to_str().unwrap().to_owned();
    assert_eq!(Capturing::start(&server.addrs[0], &file).stop("INT").0, Some(0));
    let ran = run(&["replay", &file, "--server", &server.addrs[0], "--diff"]);
    assert!(ran.refused(2).ends_with("empty.cap has no connection of a client"), "{ran:?}");
}

#[test]
fn a_container_that_the_server_has_deleted_is_deleted_by_the_replay() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("container.cap").to_str().unwrap().to_owned();
    let server = Running::start(&["--bind", "127.0.0.1:0", "--container-check-interval", "20ms"]);
    let capture = Capturing::start(&server.addrs[0], &file);
    let mut client = Wire::new(&capture.address);
    let data = Some(Bytes::new());
    let container = Create { path: "/c".to_owned(), data, acl: Some(AclList::OPEN), flags: CONTAINER };
    client.ask(&Request::CreateContainer(container));
    client.ask(&create("/c/child", 0));
    client.ask(&Request::Delete(Delete { path: "/c/child".to_owned(), version: -1 }));
    // Nobody watches the container: what shows its end to the client is that it can be created again.
    let begun = Instant::now();
    while client.error_of(&create("/c", 0)) != 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "the container is still there");
    }
    client.ask(&Request::CloseSession);
    assert_eq!(capture.stop("INT").0, Some(0));

    // One whose own timer does not come.
    let fresh = self::server();
    let ran = run(&["replay", &file, "--server", &fresh.addrs[0], "--diff"]);
    assert!(ran.clean().ends_with(", 0 differences\n"), "{ran:?}");
}

#[test]
fn a_replay_without_credentials_warns() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let ran = run(&["replay", &file, "--server", &server().addrs[0]]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("1 auth requests were sent with zeros"), "{ran:?}");
}

#[test]
fn a_difference_is_shown_with_its_request_and_exit_code_1() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let server = server();
    Wire::new(&server.addrs[0]).ask(&create("/a", 0));
    let replay = ["replay", &file, "--server", &server.addrs[0], "--auth", "digest:bob:hidden"];
    let ran = run(&[&replay[..], &["--diff"]].concat());
    assert_eq!(ran.code, Some(1));
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(
        lines[0].ends_with(" #1   create path=/a data=\"some data\" acl=[world:anyone:cdrwa] flags=0"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("    captured: ok zxid=0x") && lines[1].ends_with(" path=/a"), "{lines:?}");
    assert!(lines[2].starts_with("    replayed: NodeExists zxid=0x"), "{lines:?}");
    // Without --diff, only counts are printed.
    let ran = run(&replay);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 1), "{ran:?}");
}

#[test]
fn a_file_that_breaks_off_is_used_with_a_warning_and_a_damaged_one_is_refused() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 40]).unwrap();
    let shown = run(&["show", &file]);
    assert_eq!(shown.code, Some(0));
    assert!(shown.out.lines().count() > 30 && shown.err.contains("breaks off at offset"), "{shown:?}");

    let mut damaged = bytes.clone();
    damaged[200] ^= 1;
    fs::write(&file, damaged).unwrap();
    let shown = run(&["show", &file]);
    assert_eq!((shown.code, shown.err.lines().count()), (Some(2), 1), "{shown:?}");
    assert!(shown.err.contains("is damaged at offset"), "{shown:?}");
    let replayed = run(&["replay", &file, "--server", &server().addrs[0]]);
    assert!(replayed.refused(2).contains("is damaged at offset"));

    fs::write(&file, "text").unwrap();
    assert!(run(&["show", &file]).refused(2).contains("is not a capture"));
    assert!(run(&["show", "/no/such/file"]).refused(2).contains("cannot read /no/such/file"));
}

#[test]
fn without_a_zookeeper_nothing_is_captured_or_replayed() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let before = fs::read(&file).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let web_address = web.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in web.incoming().flatten() {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    for (address, reason) in [(&free, "cannot connect"), (&web_address, "ZooKeeper")] {
        let ran = run(&["capture", "--listen", "127.0.0.1:0", "--server", address, &file]);
        assert!(ran.refused(2).contains(reason), "{ran:?}");
        let ran = run(&["replay", &file, "--server", address, "--diff"]);
        assert!(ran.refused(2).contains(reason), "{ran:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), before, "a mistake must not replace a capture");
    let server = server();
    let taken = &server.addrs[0];
    let ran = run(&["capture", "--listen", taken, "--server", taken, &file]);
    assert!(ran.refused(2).contains(&format!("cannot listen on {taken}")), "{ran:?}");
    let ran = run(&["replay", &file, "--server", taken, "--auth", "bob"]);
    assert!(ran.refused(2).contains("a scheme, a colon and credentials"), "{ran:?}");
}

#[test]
fn a_server_that_goes_away_ends_a_replay_with_code_2() {
    let temp = TempDir::new().unwrap();
    let file = captured(&temp);
    let server = server();
    let going = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = going.local_addr().unwrap().to_string();
    let to = server.addrs[0].clone();
    thread::spawn(move || {
        // The check that it is a ZooKeeper, and the session that watches it. The next one is refused.
        for client in going.incoming().take(2) {
            let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            let (mut from, mut into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from, &mut into));
            thread::spawn(move || io::copy(&mut &server, &mut &client));
        }
    });
    let ran = run(&["replay", &file, "--server", &address, "--diff"]);
    assert!(ran.refused(2).contains(&format!("{address}: cannot connect")), "{ran:?}");
}

#[test]
fn a_file_that_can_no_longer_be_written_ends_the_capture_and_its_connections() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("full.cap").to_str().unwrap().to_owned();
    let server = server();
    // A limit of a few blocks stands for a full disk.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" capture --listen 127.0.0.1:0 --server \"$1\" \"$2\"";
    let mut capture =
        Capturing::spawn(Command::new("sh").args(["-c", script, BINARY, &server.addrs[0], &file]));
    let mut wire = Wire::new(&capture.address);
    let mut bytes = BytesMut::new();
    get("/", false).encode_frame(Xid(1), &mut bytes);
    while wire.stream.write_all(&bytes).is_ok() && wire.frame().is_some() {}
    let mut err = String::new();
    capture.process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((capture.process.wait().unwrap().code(), err.lines().count()), (Some(2), 1), "{err}");
    assert!(err.contains(&format!("cannot write {file}: ")), "{err}");
    // What was written is still of use.
    let shown = run(&["show", &file]);
    assert!(shown.out.lines().count() > 5 && shown.err.contains("breaks off"), "{shown:?}");
}

/// `cargo test --release -p zoolet-cli --test it -- --ignored --nocapture a_capture_adds`
#[test]
#[ignore = "measures time, of a release build on an idle machine"]
#[allow(clippy::print_stdout, reason = "the figures are the result")]
fn a_capture_adds_less_than_30_microseconds_to_a_round_trip() {
    let temp = TempDir::new().unwrap();
    let server = server();
    let capture = Capturing::start(&server.addrs[0], temp.path().join("x.cap").to_str().unwrap());
    let mut wires = [&server.addrs[0], &capture.address].map(|address| {
        let wire = Wire::new(address);
        wire.stream.set_nodelay(true).unwrap();
        (wire, Vec::new())
    });
    // In turns, so that whatever else the machine does slows both.
    for _ in 0..20_000 {
        for (wire, times) in &mut wires {
            let mut ping = BytesMut::new();
            Request::Ping.encode_frame(Xid::PING, &mut ping);
            let begun = Instant::now();
            wire.stream.write_all(&ping).unwrap();
            wire.frame().unwrap();
            times.push(begun.elapsed());
        }
    }
    let [direct, captured] = wires.map(|(_, mut times)| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    let added = captured.saturating_sub(direct);
    println!("median of 20000 pings: {direct:?} direct, {captured:?} captured, {added:?} added");
    assert!(added < Duration::from_micros(30), "{added:?}");
}
