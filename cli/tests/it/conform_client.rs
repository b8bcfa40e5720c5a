//! `zoolet conform --client`: what it prints about the clients in commands. The commands are this test binary itself, which runs one
//! of the programs below.

#![cfg(unix)]

use std::env;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{ConnectRequest, GetData};
use zoolet_proto::{Request, SessionId, Xid, Zxid};

use crate::common::directory::{Ran, run};

#[path = "../../../client/examples/conform_client.rs"]
#[allow(dead_code, unreachable_pub, reason = "it has a main function of its own")]
mod our_client;

/// Judges a program of this file.
fn judge(scenario: &str, program: &str, options: &[&str]) -> Ran {
    let this = env::current_exe().unwrap();
    let program = format!("conform_client::{program}");
    let command = [this.to_str().unwrap(), "--ignored", "--exact", &program, "--nocapture"];
    run(&[&["conform", "--client", "--only", scenario], options, &["--"], &command].concat())
}

fn judge_command(options: &[&str], command: &[&str]) -> Ran {
    run(&[&["conform", "--client", "--only", "undisturbed"], options, &["--"], command].concat())
}

/// Whether it runs as the command of a judgement.
fn is_judged() -> bool {
    env::var_os("ZOOKEEPER_SCENARIO").is_some()
}

#[test]
#[ignore = "a program for other tests"]
fn program_of_our_client() {
    if is_judged() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(our_client::run()).unwrap();
    }
}

#[test]
#[ignore = "a program for other tests"]
fn program_of_our_client_that_fails_in_the_end() {
    program_of_our_client();
    if is_judged() {
        std::process::exit(3);
    }
}

#[test]
#[ignore = "a program for other tests"]
fn program_that_does_not_wait_and_numbers_all_requests_alike() {
    if !is_judged() {
        return;
    }
    let addresses = env::var("ZOOKEEPER").unwrap();
    let mut stream = TcpStream::connect(addresses.split(',').next().unwrap()).unwrap();
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 10_000,
        session: SessionId(0),
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    };
    let get = Request::GetData(GetData { path: "/zookeeper".to_owned(), watch: false });
    let mut bytes = BytesMut::new();
    connect.encode_frame(&mut bytes);
    get.encode_frame(Xid(7), &mut bytes);
    get.encode_frame(Xid(7), &mut bytes);
    Request::CloseSession.encode_frame(Xid(8), &mut bytes);
    stream.write_all(&bytes).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn our_client_makes_no_mistake() {
    let undisturbed = judge("undisturbed", "program_of_our_client", &[]);
    let lines: Vec<_> = undisturbed.clean().lines().collect();
    assert_eq!(lines[0], "undisturbed          no mistake, exercised");
    assert!(lines[1].starts_with("1 scenarios, 1 passed, 0 not exercised, 0 mistakes, in "), "{lines:?}");
}

#[test]
fn our_client_makes_no_mistake_after_a_cut() {
    let reconnect = judge("reconnect", "program_of_our_client", &["--json"]);
    assert_eq!(reconnect.clean(), "{\"scenario\":\"reconnect\",\"outcome\":\"passed\",\"mistakes\":[]}\n");
}

#[test]
fn a_mistake_is_shown_with_its_frame() {
    let program = "program_that_does_not_wait_and_numbers_all_requests_alike";
    let ran = judge("undisturbed", program, &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for part in [
        "undisturbed          2 MISTAKES, exercised\n",
        "    handshake-first: the connect request has no answer yet (and 2 more frames)\n",
        "      rule:  No request is sent before the connect request is answered\n",
        "    xid-reused: an earlier request of the connection has the xid 7\n",
        " s: xid=7 getData /zookeeper\n",
        "      bytes: 0000001700000007000000040000000a2f7a6f6f6b656570657200\n",
        "1 scenarios, 0 passed, 0 not exercised, 2 mistakes, in ",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let json = judge("undisturbed", program, &["--json"]).out;
    for part in [r#""outcome":"failed""#, r#""rule":"xid-reused""#, r#""frame":"xid=7 getData /zookeeper""#] {
        assert!(json.contains(part), "{part}\n{json}");
    }
}

#[test]
fn a_scenario_that_does_not_take_place_is_not_passed() {
    let program = "program_that_does_not_wait_and_numbers_all_requests_alike";
    let ran = judge("moved", program, &[]);
    assert_eq!(ran.code, Some(1));
    let reason = "NOT EXERCISED: the program made too few requests for a connection to be cut\n";
    assert!(ran.out.contains(reason), "{}", ran.out);
}

#[test]
fn a_program_that_fails_is_told_apart_from_mistakes() {
    let ran = judge_command(&[], &["sh", "-c", "echo a reason >&2; exit 3"]);
    assert_eq!(ran.code, Some(1));
    for part in [
        "undisturbed          no mistake, NOT EXERCISED: the program has not connected\n",
        "    the program failed: exit status: 3\n      stderr: a reason\n",
        "1 scenarios, 0 passed, 1 not exercised, 0 mistakes, in ",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
}

#[test]
fn a_program_that_makes_no_mistake_and_fails_is_not_passed() {
    let ran = judge("undisturbed", "program_of_our_client_that_fails_in_the_end", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for part in [
        "undisturbed          no mistake, exercised\n    the program failed: exit status: 3\n",
        "1 scenarios, 0 passed, 0 not exercised, 0 mistakes, in ",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let ran = judge_command(&["--limit", "1"], &["sleep", "60"]);
    assert!(ran.out.contains("    the program was still running after 1 s\n"), "{ran:?}");
}

#[test]
fn the_command_finds_the_addresses_in_its_arguments_and_its_environment() {
    let check = r#"test "$ZOOKEEPER" = "$1" && test "$2" = "x${1}y" && test "$ZOOKEEPER_SECONDS" = 1 && echo "$1" >&2; exit 1"#;
    let ran = judge_command(&[], &["sh", "-c", check, "sh", "{}", "x{}y"]);
    let addresses = ran.out.lines().find_map(|line| line.strip_prefix("      stderr: ")).unwrap();
    assert_eq!(
        addresses.split(',').filter(|address| address.starts_with("127.0.0.1:")).count(),
        3,
        "{addresses}"
    );
}

#[test]
fn the_list_needs_no_command() {
    let list = run(&["conform", "--client", "--list", "--only", "l*"]);
    let names: Vec<_> = list.clean().lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["lost-reply", "lagging", "large-replies"]);
}

#[test]
fn a_mistake_in_the_arguments_is_one_line_and_code_2() {
    let absent = judge_command(&[], &["/no/such/program"]);
    assert!(absent.refused(2).contains("cannot run /no/such/program: "), "{absent:?}");
    let none = run(&["conform", "--client"]);
    assert!(none.refused(2).contains("--client needs the command of a program"), "{none:?}");
    let unknown = run(&["conform", "--client", "--only", "nothing", "--", "true"]);
    assert!(
        unknown.refused(2).contains("no scenario is called nothing: see `zoolet conform --client --list`")
    );
    assert!(run(&["conform", "--", "true"]).refused(2).contains("--client"));
    assert!(run(&["conform", "127.0.0.1:1", "--", "true"]).refused(2).contains("cannot be used with"));
    assert!(run(&["conform", "127.0.0.1:1", "--client", "--", "true"]).refused(2).contains("--client"));
}
