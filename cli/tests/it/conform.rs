//! `zoolet conform`: what it prints, and how it ends.

#![cfg(unix)]

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;

use tempfile::TempDir;
use zoolet_client::{Acl, Client, Perms};
use zoolet_conformance::{Catalogue, Profile, Setting};

use crate::common::directory::{Ran, run};
use crate::common::{BINARY, Running};

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

/// How many znodes a server has.
fn znodes(server: &Running) -> u64 {
    let srvr = server.word("srvr");
    let count = srvr.lines().find_map(|line| line.strip_prefix("Node count: ")?.parse().ok());
    count.unwrap()
}

/// Runs a judgement, and interrupts it once it has created so many znodes: it leaves none. Returns what it said.
fn interrupted(server: &Running, args: &[&str], created: u64) -> String {
    let before = znodes(server);
    let mut judging = Command::new(BINARY).arg("conform").args(args).stderr(Stdio::piped()).spawn().unwrap();
    while znodes(server) < before + created {
        assert!(judging.try_wait().unwrap().is_none(), "it has ended before");
    }
    Command::new("kill").args(["-s", "INT", &judging.id().to_string()]).status().unwrap();
    let ended = judging.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), znodes(server)), (Some(130), before));
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn an_interrupted_judgement_leaves_nothing_behind_either() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    // It waits for an event that does not come.
    fs::write(&file, "case own/x\nfact y\nA create ~/n\nA event NodeCreated ~/n\n").unwrap();
    let said = interrupted(&server, &[&server.addrs[0], "--cases", file.to_str().unwrap()], 3);
    assert_eq!(said, "zoolet: interrupted before everything was judged\n");
}

#[test]
fn an_interrupted_check_of_histories_leaves_nothing_behind() {
    let server = server();
    let said = interrupted(&server, &["--check-history", &server.addrs[0], "--seconds", "60"], 10);
    assert_eq!(said, "zoolet: interrupted before everything was judged\n");
}

#[test]
fn what_cannot_be_removed_is_named() {
    let (server, temp) = (server(), TempDir::new().unwrap());
    let file = temp.path().join("own.case");
    fs::write(&file, "case own/x\nfact y\nA create ~/n\nA setACL ~ [digest:bob:none:0]\n").unwrap();
    let ran = run(&["conform", &server.addrs[0], "--cases", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let warning = format!("zoolet: warning: {}: /zoolet-conformance-", server.addrs[0]);
    assert!(
        ran.err.starts_with(&warning) && ran.err.contains(" remains: something below it cannot be deleted"),
        "{ran:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cases_about_quotas_fail_where_there_is_no_place_for_quotas() {
    let server = server();
    let zk = Client::connect(server.addrs[0].as_str()).await.unwrap();
    zk.set_acl("/zookeeper/quota", vec![Acl::new(Perms::READ, "world", "anyone")]).await.unwrap();
    let ran = run(&["conform", &server.addrs[0], "--only", "quota/*", "--only", "create/*"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let reason = "/quota-counted cannot be created: ";
    assert!(ran.out.contains(reason) && ran.out.contains("create       46 passed\n"), "{}", ran.out);
}

#[test]
fn wrong_credentials_of_the_super_user_are_refused_before_they_lock_anything() {
    let server =
        Running::start(&["--bind", "127.0.0.1:0", "--super-digest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="]);
    let judge =
        |credentials| run(&["conform", &server.addrs[0], "--only", "super/*", "--super", credentials]);
    assert!(judge("super:secret").clean().contains("passed"));
    assert!(judge("super:wrong").refused(2).contains("the credentials are not those of its super user"));
    assert!(judge("secret").refused(2).contains("it has no `:`"));
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
    let text = "case own/x\nfact y\nA create ~/n\nA getData ~/n watch\nB setData ~/n \"x\"\n";
    // After every case it is as if there was a line for each connection.
    for (lines, last) in [("A quiet\nA exists ~/n\n", "A quiet"), ("", "A quiet (after every case)")] {
        fs::write(&file, format!("{text}{lines}")).unwrap();
        let ran = run(&["conform", &server.addrs[0], "--cases", file.to_str().unwrap()]);
        assert!(ran.out.starts_with("own/x failed: an event where a reply is due"), "{ran:?}");
        assert!(ran.out.contains(&format!("      {last}\n    came: event NodeDataChanged zxid=")), "{ran:?}");
    }
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
    // In the order in which cases end: several run at a time.
    let of = |case: &str| ran.out.lines().find(|line| line.contains(case)).expect("the object of the case");
    let (right, wrong) = (of(r#""case":"own/right""#), of(r#""case":"own/wrong""#));
    assert!(right.contains(r#""outcome":"passed""#), "{right}");
    assert!(
        wrong.contains(r#""reason":"version is 0, not 1""#) && wrong.contains(r#""came":"ok zxid="#),
        "{wrong}"
    );
    assert_eq!(ran.out.lines().count(), 2);
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
        missing.refused(2).contains("no case is called nothing/*: names are GROUP/CASE, "),
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
fn the_numbers_in_the_documentation_are_those_of_the_catalogue() {
    let text = |path: &str| fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (page, readme) = (text("docs/conformance.md"), text("README.md"));
    let catalogue = Catalogue::builtin();
    let count = |profile, settings: &[Setting]| {
        let run = catalogue.cases().iter().filter(|case| case.is_for(profile) && case.is_with(settings));
        let (all, deviating): (Vec<_>, Vec<_>) =
            (run.clone().collect(), run.filter(|case| case.deviates().is_some()).collect());
        (all.len(), deviating.len())
    };
    let (plain, deviating) = count(Profile::V3_9, &[]);
    let (with_all, deviating_with_all) = count(Profile::V3_9, &Setting::ALL);
    let (older, _) = count(Profile::V3_8, &[]);
    let (older_with_all, _) = count(Profile::V3_8, &Setting::ALL);
    for part in [
        format!("127.0.0.1:2181: {plain} cases, {plain} passed, 0 failed, in "),
        format!(" fails {deviating} of them by decision"),
        format!("| Apache ZooKeeper 3.9.5 | 3.9 | {plain} | 0 |"),
        format!("| the same with all settings | 3.9, each `--with`, `--super` | {with_all} | 0 |"),
        format!("| Apache ZooKeeper 3.8.0 | 3.8 | {older} | 0 |"),
        format!("| the same with all settings | 3.8, each `--with`, `--super` | {older_with_all} | 0 |"),
        format!("| Zoolet, in memory and durable | 3.9 | {plain} | {deviating}, all [by decision]"),
        format!(
            "| Zoolet with all settings | 3.9, each `--with`, `--super` | {with_all} | {deviating_with_all}, all by"
        ),
    ] {
        assert!(page.contains(&part), "docs/conformance.md does not have: {part}");
    }
    for part in [
        format!("asks any server {plain} small questions"),
        format!("127.0.0.1:2181: {plain} cases, {} passed, {deviating} failed, in ", plain - deviating),
    ] {
        assert!(readme.contains(&part), "README.md does not have: {part}");
    }
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
fn the_settings_of_a_server_are_found_out_and_said() {
    let temp = TempDir::new().unwrap();
    let config = temp.path().join("zoo.cfg");
    fs::write(&config, "reconfigEnabled=true\nextendedTypesEnabled=true\nenforceQuota=true\n").unwrap();
    let server = Running::start(&["--bind", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    let groups = ["--only", "ttl/*", "--only", "frame/reconfig*", "--only", "quota/*-limit"];
    let judge = |more: &[&str]| run(&[&["conform", &server.addrs[0]], &groups[..], more].concat());
    let ran = judge(&[]);
    let found = format!("{} has extended-types, enforce-quota, reconfig\n", server.addrs[0]);
    assert!(ran.clean().starts_with(&found), "{ran:?}");
    let with = ["extended-types", "enforce-quota", "reconfig"].map(|setting| ["--with", setting]);
    let named = judge(with.as_flattened());
    let count = |ran: &Ran| {
        ran.out.lines().last().unwrap().split_once(": ").unwrap().1.split_once(", in").unwrap().0.to_owned()
    };
    assert_eq!(count(&ran), count(&named), "the same cases are run: {ran:?} {named:?}");
    assert!(!named.clean().contains(" has "), "{named:?}");

    // What a case does not depend on is not asked for, and what is off is not said.
    let none = run(&["conform", &server.addrs[0], "--only", "session/open"]);
    assert!(none.clean().starts_with("session "), "{none:?}");
    let plain = self::server();
    let ran = run(&[&["conform", &plain.addrs[0]], &groups[..]].concat());
    assert!(!ran.out.contains(" has ") && ran.code == Some(0), "{ran:?}");
    // Only what must be there and is not is a failure.
    let missing = run(&["conform", &plain.addrs[0], "--with", "extended-types", "--only", "ttl/*"]);
    assert!(missing.code == Some(1) && missing.out.contains("ttl/create failed: "), "{missing:?}");
}

#[test]
fn a_mistake_in_a_case_names_its_line() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("own.case");
    for (line, reason) in [
        ("A creat ~/n", "`creat` is not an operation"),
        ("A create", "create requires `path`"),
        ("A create ~/n colour=red", "create has no `colour`; it has path, data, acl, flags"),
        ("A create ~/n -> Ok", "`Ok` is not a result"),
        ("A create \"~/n", "a quote is missing"),
        ("A event Created ~/n", "`Created` is not the type of an event"),
        ("create ~/n", "`create` is neither a connection"),
        ("A delete ~/n 1 2", "delete takes no more than that"),
        ("A create ~/n -> ok vers=1", "no reply and no event has `vers`; known are zxid, path, "),
        ("A create ~/n [auth::r]", "`data` of create: a text is missing before `[`"),
        (
            "A create ~/n acl=[world:anyone:xyz]",
            "`acl` of create: `xyz` of world:anyone:xyz are not permissions",
        ),
        ("A create $n", "`path` of create: `$n` is not a text"),
        ("A exists ~/n version=$v", "exists has no `version`; it has path, watch"),
        ("A setData ~/n x $v", "no line before has named $v"),
        ("A create ~/n -> ok zxid=>$q", "no line before has named $q"),
        ("A open sesion=1", "open has no `sesion`; it has protocol, lastZxid, "),
        ("A reply ok", "A has sent no request that has no reply yet"),
        ("case own/x", "there is a case own/x already"),
    ] {
        fs::write(&file, format!("case own/x\nfact y\n{line}\n")).unwrap();
        let ran = run(&["conform", "127.0.0.1:1", "--cases", file.to_str().unwrap()]);
        let error = ran.refused(2);
        assert!(error.contains(&format!("own.case:3: {reason}")), "{line}: {error}");
    }
    for (case, reason) in [
        ("case own/y\nA create ~/n", "it has no `fact`"),
        ("case own/y\nfact z", "it does nothing"),
        ("case own/y\nfact z\nA send create ~/n", "A sends a request whose reply no line awaits"),
    ] {
        fs::write(&file, format!("case own/x\nfact y\nA create ~/n\n\n{case}\n")).unwrap();
        let ran = run(&["conform", "127.0.0.1:1", "--cases", file.to_str().unwrap()]);
        let error = ran.refused(2);
        assert!(error.contains(&format!("own.case:5: case own/y: {reason}")), "{case}: {error}");
    }
}
