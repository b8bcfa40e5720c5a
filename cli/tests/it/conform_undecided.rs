//! `zoolet conform`: a verdict needs the work that it rests on. What was not done is no pass, a signal ends everything, and failures
//! are shown as they come.

#![cfg(unix)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use zoolet_proto::{ErrorCode, OpCode, Reply, ReplyHeader, Zxid};

use crate::common::directory::{Ran, run};
use crate::common::hostile::{Answer, before};
use crate::common::{BINARY, Running};

/// Far longer than any of it takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

fn server() -> Running {
    Running::start(&["--bind", "127.0.0.1:0"])
}

/// Runs the binary with so many descriptors.
fn with_descriptors(count: u32, arguments: &[&str]) -> Ran {
    let mut command = assert_cmd::Command::new("sh");
    command.args(["-c", "ulimit -n $1; shift; exec \"$@\"", "sh", &count.to_string(), BINARY]);
    let output = command.args(arguments).env_remove("RUST_LOG").timeout(LIMIT).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn clients_without_descriptors_are_no_verdict_on_a_history() {
    let server = server();
    for count in [20, 26, 32] {
        let arguments = ["conform", "--check-history", &server.addrs[0], "--clients", "16", "--seconds", "1"];
        let ran = with_descriptors(count, &arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("Too many open files"), "{ran:?}");
        assert!(!ran.out.contains("no rule is broken"), "{ran:?}");
    }
    let arguments = ["--check-history", &server.addrs[0], "--clients", "16", "--seconds", "1", "--json"];
    let ran = with_descriptors(32, &[&["conform"], &arguments[..]].concat());
    assert!(ran.out.contains(r#""outcome":"undecided","reason":""#), "{ran:?}");
}

#[test]
fn a_server_that_answers_no_client_is_no_verdict_on_a_history() {
    let server = server();
    // The znodes can be created, and all is there in the end.
    let address = before(&server.addrs[0], |asked, _| match asked.op {
        Some(OpCode::SetData) => Answer::Cut,
        _ => Answer::Honest,
    });
    let arguments = ["conform", "--check-history", &address, "--seconds", "1", "--clients", "2"];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(ran.err, "zoolet: too little was done to judge: no write was acknowledged\n");
    assert!(ran.out.ends_with("\nundecided\n"), "{ran:?}");
}

#[test]
fn a_server_that_reads_old_data_breaks_a_rule() {
    let server = server();
    let (mut first, mut reads) = (HashMap::<String, Bytes>::new(), 0);
    let address = before(&server.addrs[0], move |asked, body| {
        if asked.op != Some(OpCode::GetData) {
            return Answer::Honest;
        }
        reads += 1;
        let old = first.entry(asked.path.clone()).or_insert_with(|| Bytes::copy_from_slice(body));
        match reads % 10 {
            0 => Reply::parse(OpCode::GetData, old).map_or(Answer::Honest, Answer::Instead),
            _ => Answer::Honest,
        }
    });
    let ran = run(&["conform", "--check-history", &address, "--seconds", "1", "--clients", "3"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("\nBROKEN: a read shows nothing older "), "{ran:?}");
}

#[test]
fn two_servers_that_both_do_not_answer_are_not_equal() {
    let servers = [server(), server()];
    let silent = servers.each_ref().map(|server| {
        before(&server.addrs[0], |asked, _| match asked.op {
            Some(OpCode::Ping) => Answer::Silence,
            _ => Answer::Honest,
        })
    });
    let compared = ["conform", "--reference", &silent[0], "--candidate", &silent[1]];
    let ran = run(&[&compared[..], &["--timeout", "1s", "--seeds", "1", "--ops", "20"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains(&format!("cannot judge {}: nothing has come within 1 s", silent[0])), "{ran:?}");
}

#[test]
fn a_difference_that_does_not_come_again_is_a_difference() {
    let servers = [server(), server()];
    let mut pings = 0;
    let once = before(&servers[1].addrs[0], move |asked, _| {
        pings += usize::from(asked.op == Some(OpCode::Ping));
        match (asked.op, pings) {
            (Some(OpCode::Ping), 50) => {
                Answer::Header(|header| ReplyHeader { zxid: Zxid(header.zxid.0 + 1), ..header })
            }
            _ => Answer::Honest,
        }
    });
    let compared = ["conform", "--reference", &servers[0].addrs[0], "--candidate", &once];
    let ran = run(&[&compared[..], &["--seeds", "1", "--ops", "300"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for part in
        ["they did not differ when all was sent once more", "1 seeds of 300 requests, 1 with a difference"]
    {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn two_servers_are_not_equal_where_no_connection_can_be_opened() {
    let servers = [server(), server()];
    let compared = ["conform", "--reference", &servers[0].addrs[0], "--candidate", &servers[1].addrs[0]];
    for count in 13..20 {
        let ran = with_descriptors(count, &[&compared[..], &["--seeds", "1", "--ops", "300"]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("Too many open files"), "{ran:?}");
    }
}

#[test]
fn a_client_whose_connections_cannot_be_passed_on_is_not_judged() {
    let this = std::env::current_exe().unwrap();
    let program = "conform_undecided::program_that_opens_many_connections";
    let command = [this.to_str().unwrap(), "--ignored", "--exact", program, "--nocapture"];
    let arguments = ["conform", "--client", "--only", "undisturbed", "--limit", "20", "--"];
    let ran = with_descriptors(40, &[&arguments[..], &command].concat());
    assert!(
        ran.refused(2).contains("cannot pass on a connection of the program, so nothing is judged: Too many"),
        "{ran:?}"
    );
}

#[test]
#[ignore = "a program for other tests"]
fn program_that_opens_many_connections() {
    let Some(addresses) = std::env::var_os("ZOOKEEPER") else { return };
    let addresses = addresses.into_string().unwrap();
    let first = addresses.split(',').next().unwrap();
    // Each takes three descriptors of the judge and one of this process.
    let open: Vec<_> = (0..30).map(|_| std::net::TcpStream::connect(first).unwrap()).collect();
    // A frame on each, so that they are served.
    for mut stream in &open {
        stream.write_all(b"ruok").unwrap();
    }
    // They stay open until the last one is served, for which there is no descriptor.
    let _ = (&open[29]).read(&mut [0; 16]);
}

#[test]
fn credentials_that_cannot_be_tried_are_not_taken_for_those_of_a_super_user() {
    let server = server();
    let address = before(&server.addrs[0], |asked, _| match asked.op {
        Some(OpCode::SetData) => {
            Answer::Header(|header| ReplyHeader::error(header.xid, header.zxid, ErrorCode::NoNode))
        }
        _ => Answer::Honest,
    });
    let ran = run(&["conform", &address, "--only", "super/*", "--super", "super:secret"]);
    assert!(ran.refused(2).contains("the credentials cannot be tried: it answers a setData of "), "{ran:?}");
}

/// The binary, with its output as it comes.
fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits for its end, and returns the exit code.
fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("it is still running");
        }
        thread::yield_now();
    }
}

#[test]
fn a_failure_is_shown_as_it_comes_and_one_signal_ends_a_cleanup_that_is_not_answered() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    let text = "case own/wrong\nfact x\nA create ~/n -> NoNode\n\ncase own/late\nfact x\nA create ~/n\nA event NodeCreated ~/n\n";
    fs::write(&file, text).unwrap();
    // From the first removal on, it says nothing.
    let address = before(&server.addrs[0], |asked, _| match asked.op {
        Some(OpCode::Delete) => Answer::Silence,
        _ => Answer::Honest,
    });
    let cases = ["conform", &address, "--cases", file.to_str().unwrap()];
    for name in ["TERM", "INT"] {
        let mut judging = start(&[&cases[..], &["--timeout", "2s"]].concat());
        let mut first = String::new();
        let mut out = BufReader::new(judging.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        assert!(first.starts_with("own/wrong failed: "), "{first}");
        signal(&judging, name);
        let code = if name == "INT" { 130 } else { 143 };
        assert_eq!(ended(&mut judging), Some(code));
        let mut err = String::new();
        judging.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(err.starts_with("zoolet: interrupted before everything was judged; "), "{err}");
    }
}

#[test]
fn a_cleanup_after_a_signal_takes_no_longer_than_one_answer_may() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    let many: String = (0..40).map(|at| format!("A create ~/{at}\n")).collect();
    fs::write(&file, format!("case own/late\nfact x\n{many}A event NodeCreated ~/n\n")).unwrap();
    let (creates, created) = channel();
    let address = before(&server.addrs[0], move |asked, _| {
        match asked.op {
            Some(OpCode::Create) if asked.path.ends_with("/39") => creates.send(()).unwrap(),
            // Each answer of the cleanup is in time.
            Some(OpCode::Delete) => thread::sleep(Duration::from_millis(200)),
            _ => {}
        }
        Answer::Honest
    });
    let mut judging = start(&["conform", &address, "--cases", file.to_str().unwrap(), "--timeout", "1s"]);
    created.recv().unwrap();
    signal(&judging, "TERM");
    assert_eq!(ended(&mut judging), Some(143));
    let mut err = String::new();
    judging.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.ends_with("; there was no time to remove what was created\n"), "{err}");
}

#[test]
fn a_signal_ends_a_judgement_whose_output_nobody_reads() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    fs::write(&file, "case own/wrong\nfact x\nA create ~/n -> NoNode\n").unwrap();
    let (closes, closed) = channel();
    let address = before(&server.addrs[0], move |asked, _| {
        if asked.op == Some(OpCode::CloseSession) {
            let _ = closes.send(());
        }
        Answer::Honest
    });
    // A stdout that takes nothing more.
    let (full, _reader) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[b'x'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["conform", &address, "--cases", file.to_str().unwrap(), "--timeout", "300ms"]);
    let mut judging = command.stdout(Stdio::from(OwnedFd::from(full))).stderr(Stdio::null()).spawn().unwrap();
    // Those of the first contact, of the znode of all cases, of the case, and of its znode. What comes next is the failure.
    for _ in 0..4 {
        closed.recv().unwrap();
    }
    signal(&judging, "TERM");
    assert_eq!(ended(&mut judging), Some(143));
}

#[test]
fn a_signal_ends_the_judgement_of_a_client_and_its_program() {
    let temp = TempDir::new().unwrap();
    let pid = temp.path().join("pid");
    let script = format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", pid.display());
    let mut judging = start(&["conform", "--client", "--only", "undisturbed", "--", "sh", "-c", &script]);
    while !pid.exists() {
        assert!(judging.try_wait().unwrap().is_none(), "it has ended before");
    }
    signal(&judging, "TERM");
    assert_eq!(ended(&mut judging), Some(143));
    let pid = fs::read_to_string(pid).unwrap();
    let begun = Instant::now();
    while Command::new("kill").args(["-s", "0", pid.trim()]).stderr(Stdio::null()).status().unwrap().success()
    {
        assert!(begun.elapsed() < LIMIT, "the program is still running");
    }
}

#[test]
fn a_signal_ends_a_capture_that_waits_for_its_server() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("x.cap");
    let mut capturing =
        start(&["capture", "--listen", "127.0.0.1:0", "--server", &address, file.to_str().unwrap()]);
    // It has connected, and gets no answer.
    let _connection = silent.accept().unwrap();
    signal(&capturing, "TERM");
    let begun = Instant::now();
    assert_eq!(ended(&mut capturing), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(9), "it has waited for the answer");
}

#[test]
fn a_reader_that_leaves_ends_a_judgement_without_a_word() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    let wrong: String =
        (0..300).map(|at| format!("case own/{at}\nfact x\nA create ~/n -> NoNode\n")).collect();
    fs::write(&file, wrong).unwrap();
    let mut judging = start(&["conform", &server.addrs[0], "--cases", file.to_str().unwrap()]);
    drop(judging.stdout.take());
    assert_eq!(ended(&mut judging), Some(2));
    let mut err = String::new();
    judging.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(err, "");
}

/// A port at which connections are accepted and ended, as long as the server behind it is starting.
fn starting(server: &Running, ended: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, server) = (listener.local_addr().unwrap().to_string(), server.addrs[0].clone());
    thread::spawn(move || {
        for (at, client) in listener.incoming().flatten().enumerate() {
            if at < ended {
                continue;
            }
            let server = std::net::TcpStream::connect(&server).unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut to_server, mut to_client) = (server, client);
            thread::spawn(move || {
                let _ = std::io::copy(&mut up, &mut to_server);
                let _ = to_server.shutdown(std::net::Shutdown::Both);
            });
            thread::spawn(move || {
                let _ = std::io::copy(&mut down, &mut to_client);
                let _ = to_client.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn a_server_that_is_still_starting_is_waited_for_if_that_is_asked_for() {
    let server = server();
    let temp = TempDir::new().unwrap();
    let judge = |ended, wait: &[&str]| {
        let address = starting(&server, ended);
        run(&[&["conform", &address, "--only", "create/*"], wait].concat())
    };
    let hint =
        "is it a ZooKeeper, and does it serve yet?; if it is still starting, wait for it with --wait 30s";
    assert!(judge(3, &[]).refused(2).ends_with(hint));
    assert!(judge(3, &["--wait", "50s"]).clean().contains("46 passed"));
    let ran = judge(1_000, &["--wait", "300ms"]);
    assert!(ran.refused(2).ends_with("does it serve yet?; it may need a longer --wait"), "{ran:?}");

    let file = temp.path().join("x.cap").to_str().unwrap().to_owned();
    let capture = |wait: &[&str]| {
        let address = starting(&server, 3);
        let arguments = ["capture", "--listen", "127.0.0.1:0", "--server", &address, &file];
        let mut capturing = start(&[&arguments[..], wait].concat());
        let mut first = String::new();
        BufReader::new(capturing.stdout.take().unwrap()).read_line(&mut first).unwrap();
        signal(&capturing, "INT");
        (first, ended(&mut capturing))
    };
    assert_eq!(capture(&[]), (String::new(), Some(2)));
    let (first, code) = capture(&["--wait", "50s"]);
    assert!(first.starts_with("listening on ") && code == Some(0), "{first}: {code:?}");
}

#[test]
fn what_is_no_zookeeper_is_not_waited_for() {
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let ran = run(&["conform", &address, "--wait", "30s"]);
    assert!(ran.refused(2).contains("it is not a ZooKeeper"), "{ran:?}");
    assert!(!ran.err.contains("--wait"), "{ran:?}");
}
