//! `zoolet conform`: the comparison of two servers and the check of histories, also of servers that are not there or fail half-way.

#![cfg(unix)]

use std::net::TcpListener;
use std::thread;

use zoolet_client::{Acl, Client, Perms};

use crate::common::Running;
use crate::common::directory::run;

fn server(arguments: &[&str]) -> Running {
    Running::start(&[&["--bind", "127.0.0.1:0"], arguments].concat())
}

/// An address where nobody listens.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn equal_servers_do_not_differ_and_others_do_by_a_case_that_can_be_run() {
    let (one, same, other) = (server(&[]), server(&[]), server(&["--extended-types"]));
    let compare = |candidate: &Running| {
        let seeds = ["--seeds", "2", "--ops", "300"];
        run(&[&["conform", "--reference", &one.addrs[0], "--candidate", &candidate.addrs[0]], &seeds[..]]
            .concat())
    };
    let ran = compare(&same);
    assert!(ran.clean().contains("2 seeds of 300 requests, 0 with a difference"), "{ran:?}");
    let ran = compare(&other);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.starts_with(&format!("{} has extended-types\n", other.addrs[0])), "{ran:?}");
    for part in
        ["case fuzz/seed-", "createTTL", "    the reference sent:", "    again: zoolet conform --reference "]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

#[test]
fn servers_with_settings_are_compared_by_requests_about_them() {
    let digest = ["--enforce-quota", "--super-digest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="];
    let (one, other) = (server(&digest), server(&digest[1..]));
    let arguments = ["--with", "enforce-quota", "--super", "super:secret", "--seed", "6", "--seeds", "1"];
    let compare = |candidate: &Running| {
        let servers = ["conform", "--reference", &one.addrs[0], "--candidate", &candidate.addrs[0]];
        run(&[&servers, &arguments[..]].concat())
    };
    let ran = compare(&other);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let with = "--with enforce-quota --super USER:PASSWORD --seed 6 --seeds 1";
    for part in ["with enforce-quota super\n", with] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    // Of a server without a super user this would tell nothing of the rest.
    let without = server(&[]);
    assert!(compare(&without).refused(2).contains("the credentials are not those of its super user"));
    let again = server(&digest);
    assert!(compare(&again).clean().contains(", 0 with a difference"), "{}", ran.out);
}

#[test]
fn a_history_without_a_fault_breaks_no_rule() {
    let server = server(&[]);
    let ran = run(&["conform", "--check-history", &server.addrs[0], "--seconds", "1", "--clients", "3"]);
    assert!(ran.clean().ends_with("no rule is broken\n"), "{ran:?}");
}

#[test]
fn servers_that_are_not_there_are_not_passed() {
    let (server, nobody) = (server(&[]), nobody());
    for arguments in [
        ["--reference", &server.addrs[0], "--candidate", &nobody],
        ["--reference", &nobody, "--candidate", &server.addrs[0]],
        ["--check-history", &nobody, "--seconds", "1"],
    ] {
        let ran = run(&[&["conform"], &arguments[..]].concat());
        assert!(ran.refused(2).contains(&format!("cannot judge {nobody}: cannot connect")), "{ran:?}");
    }
    assert!(run(&["conform", "--reference", "x"]).refused(2).contains("--candidate"));
    // Nothing that was compared or checked would be a pass, and a seed that nothing is drawn from a mistake.
    for (arguments, option) in [
        (["--reference", &nobody, "--candidate", &nobody, "--seeds", "0"].as_slice(), "--seeds"),
        (&["--check-history", &nobody, "--seconds", "0"], "--seconds"),
        (&[&nobody, "--seed", "4"], "--seed"),
    ] {
        let ran = run(&[&["conform"], arguments].concat());
        assert!(ran.refused(2).contains(option), "{ran:?}");
    }
}

#[test]
fn a_server_that_stops_half_way_is_not_passed() {
    let server = server(&[]);
    let address = server.addrs[0].clone();
    let judging = thread::spawn(move || run(&["conform", "--check-history", &address, "--seconds", "3"]));
    // More than what creates the znodes and the word itself.
    let connections = || {
        let srvr = server.word("srvr");
        let count = srvr.lines().find_map(|line| line.strip_prefix("Connections: ")?.parse().ok());
        count.unwrap_or(0)
    };
    while connections() < 5 {
        assert!(!judging.is_finished(), "no clients came: {:?}", judging.join());
    }
    server.stop("KILL");
    let ran = judging.join().unwrap();
    assert!(ran.refused(2).contains("cannot judge"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_lost_half_way_is_one_line_and_code_2() {
    let server = server(&[]);
    let address = server.addrs[0].clone();
    let judging = thread::spawn(move || run(&["conform", &address, "--jobs", "1"]));
    let zk = Client::connect(server.addrs[0].as_str()).await.unwrap();
    let root = loop {
        let (children, _) = zk.get_children("/").await.unwrap();
        if let Some(name) = children.iter().find(|name| name.starts_with("zoolet-conformance-")) {
            break format!("/{name}");
        }
        assert!(!judging.is_finished(), "it ended before: {:?}", judging.join());
    };
    zk.set_acl(root, vec![Acl::new(Perms::READ, "world", "anyone")]).await.unwrap();
    let ran = judging.join().unwrap();
    let error = ran.refused(2);
    assert!(error.contains("it refuses to create /zoolet-conformance-"), "{error}");
}
