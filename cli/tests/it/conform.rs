//! `zoolet conform`: what it prints, and how it ends.

#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::thread;

use tempfile::TempDir;

use crate::common::Running;
use crate::common::directory::run;

fn server() -> Running {
    Running::start(&["--bind", "127.0.0.1:0"])
}

/// A file with one case that passes and one that does not.
fn cases(temp: &TempDir) -> String {
    let file = temp.path().join("own.case");
    let text = "case own/right\nfact A znode can be created\nA create ~/n -> ok path=~/n\n\n\
                case own/wrong\nfact Its version is 0\nA create ~/n \"x\"\nA getData ~/n -> ok version=1\n";
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_server_that_passes_is_counted_by_group() {
    let server = server();
    let ran = run(&["conform", &server.addrs[0], "--only", "create/*", "--only", "session/open"]);
    let lines: Vec<_> = ran.clean().lines().collect();
    assert!(lines[0].starts_with("create") && lines[0].ends_with("46 passed"), "{lines:?}");
    assert_eq!(lines[1], "session       1 passed");
    assert!(lines[2].starts_with(&format!("{}: 47 cases, 47 passed, 0 failed, in ", server.addrs[0])));
}

#[test]
fn nothing_is_left_behind() {
    let server = server();
    // One case fails, by decision, where it has taken a permission from everybody.
    assert_eq!(run(&["conform", &server.addrs[0]]).code, Some(1));
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("own.case");
    fs::write(&file, "case own/root\nfact x\nA getEphemerals / -> ok ephemerals=[]\nA getChildren / -> ok children=[zookeeper]\n").unwrap();
    // The znode of this run is there itself.
    let ran = run(&["conform", &server.addrs[0], "--cases", file.to_str().unwrap()]);
    let children = ran.out.lines().find(|line| line.trim().starts_with("came:")).unwrap();
    assert_eq!(children.matches("zoolet-conformance-").count(), 1, "{}", ran.out);
}

#[test]
fn a_failure_shows_what_was_sent_expected_and_received() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let junit = temp.path().join("report.xml");
    let ran =
        run(&["conform", &server.addrs[0], "--cases", &cases(&temp), "--junit", junit.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for part in [
        "own/wrong failed: version is 0, not 1",
        "    what it shows: Its version is 0",
        "      A getData ~/n -> ok version=1",
        "    came: ok zxid=",
        " data=\"x\" ",
        &format!("    again: zoolet conform {} --cases ", server.addrs[0]),
        "own.case --only own/wrong\n",
        "own           1 passed, 1 FAILED",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let report = fs::read_to_string(junit).unwrap();
    assert!(
        report.contains("tests=\"2\" failures=\"1\"") && report.contains("version is 0, not 1"),
        "{report}"
    );
}

#[test]
fn an_event_that_no_line_expects_is_a_failure() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    let text = "case own/x\nfact y\nA create ~/n\nA getData ~/n watch\nB setData ~/n \"x\"\nA quiet\n";
    fs::write(&file, text).unwrap();
    let ran = run(&["conform", &server.addrs[0], "--cases", file.to_str().unwrap()]);
    assert!(ran.out.starts_with("own/x failed: an event where a reply is due"), "{ran:?}");
    assert!(ran.out.contains("    came: event NodeDataChanged zxid="), "{ran:?}");
}

#[test]
fn after_so_many_failures_the_rest_is_left_out() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    let wrong: String = (0..9).map(|at| format!("case own/{at}\nfact x\nA getData ~/n\n")).collect();
    fs::write(&file, wrong).unwrap();
    let arguments = ["--cases", file.to_str().unwrap(), "--jobs", "1", "--max-failures", "3"];
    let ran = run(&[&["conform", &server.addrs[0]], &arguments[..]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("3 cases, 0 passed, 3 failed, 6 not run, in "), "{}", ran.out);
}

#[test]
fn json_has_one_object_for_each_case() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let ran = run(&["conform", &server.addrs[0], "--cases", &cases(&temp), "--json"]);
    assert_eq!(ran.code, Some(1));
    let lines: Vec<_> = ran.out.lines().collect();
    assert!(
        lines[0].contains(r#""case":"own/right""#) && lines[0].contains(r#""outcome":"passed""#),
        "{lines:?}"
    );
    assert!(
        lines[1].contains(r#""reason":"version is 0, not 1""#) && lines[1].contains(r#""came":"ok zxid="#)
    );
}

#[test]
fn the_list_needs_no_server() {
    let list = run(&["conform", "--list", "--only", "delete/*"]);
    assert!(list.clean().lines().all(|line| line.starts_with("delete/")) && list.out.lines().count() > 10);
}

#[test]
fn what_cannot_be_judged_is_one_line_and_code_2() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let refused = run(&["conform", &free]);
    assert!(refused.refused(2).contains(&format!("cannot judge {free}: cannot connect")), "{refused:?}");

    // It answers, and not as a ZooKeeper does.
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in web.incoming().flatten() {
            let _ = (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    assert!(run(&["conform", &address]).refused(2).contains("ZooKeeper"));

    let missing = run(&["conform", &free, "--only", "nothing/*"]);
    assert!(
        missing.refused(2).contains("no case is called nothing/*: see `zoolet conform --list`"),
        "{missing:?}"
    );
    assert!(
        run(&["conform", &free, "--cases", "/no/such/file"]).refused(2).contains("cannot read /no/such/file")
    );
    assert!(run(&["conform", &free, "--profile", "3.7"]).refused(2).contains("known are 3.8 and 3.9"));
    assert!(run(&["conform"]).refused(2).contains("HOST:PORT"));
    // Nothing that was judged would be a pass.
    let none = run(&["conform", &free, "--only", "super/*"]);
    assert!(none.refused(2).contains("no case is left"), "{none:?}");
    assert!(run(&["conform", &free, "--with", "ttl"]).refused(2).contains("those are extended-types, "));
    assert!(run(&["conform", &free, "--with", "super"]).refused(2).contains("--super USER:PASSWORD"));
}

#[test]
fn a_case_for_a_setting_is_repeated_with_that_setting() {
    let server = server();
    let ran = run(&[
        "conform",
        &server.addrs[0],
        "--profile",
        "3.8",
        "--with",
        "reconfig",
        "--only",
        "frame/reconfig",
    ]);
    let again = format!(
        "    again: zoolet conform {} --profile 3.8 --with reconfig --only frame/reconfig\n",
        server.addrs[0]
    );
    assert!(ran.out.contains(&again) && ran.out.contains("(Apache ZooKeeper 3.8.0, 3.9.5)\n"), "{ran:?}");
    assert!(run(&["conform", "--list"]).clean().contains(" [with super]\n"));
}

#[test]
fn a_mistake_in_a_case_names_its_line() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("own.case");
    for (line, reason) in [
        ("A creat ~/n", "`creat` is no operation"),
        ("A create", "create requires `path`"),
        ("A create ~/n colour=red", "create has no `colour`; it has path, data, acl, flags"),
        ("A create ~/n -> Ok", "`Ok` is no result"),
        ("A create \"~/n", "a quote is missing"),
        ("A event Created ~/n", "`Created` is no type of an event"),
        ("create ~/n", "`create` is neither a connection"),
        ("A delete ~/n 1 2", "delete takes no more than that"),
    ] {
        fs::write(&file, format!("case own/x\nfact y\n{line}\n")).unwrap();
        let ran = run(&["conform", "127.0.0.1:1", "--cases", file.to_str().unwrap()]);
        let error = ran.refused(2);
        assert!(error.contains(&format!("own.case:3: {reason}")), "{line}: {error}");
    }
}
