//! Commands that read.

use std::io::Write as _;

use serde_json::{Value, json};
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Acl, Perms};
use zoolet_shell::{ExitReason, Shell, ShellIo};

use crate::common::{run, run_on};

async fn jobs() -> TestServer {
    TestServer::builder()
        .znode("/jobs/a", "first")
        .znode("/jobs/b", "the second\nline of b")
        .znode("/jobs/b/part", "p")
        .znode("/jobs-old", "")
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn ls_lists_names_in_order_and_more_on_request() {
    let zk = jobs().await;
    assert_eq!(run(&zk, "ls /jobs").await.ok(), "a\nb\n");
    assert_eq!(run(&zk, "ls -R /jobs").await.ok(), "/jobs\n/jobs/a\n/jobs/b\n/jobs/b/part\n");
    assert_eq!(run(&zk, "ls /jobs --sort size").await.ok(), "b\na\n");
    assert_eq!(run(&zk, "ls /jobs --reverse").await.ok(), "b\na\n");
    let long = run(&zk, "ls -l /jobs").await.ok();
    assert!(long.lines().next().unwrap().starts_with("-      0        0         5  "), "{long}");
    let of_b = &run(&zk, "ls --json /jobs").await.json()[1];
    assert_eq!(
        (&of_b["path"], &of_b["dataLength"], &of_b["numChildren"]),
        (&json!("/jobs/b"), &json!(20), &json!(1))
    );
    assert_eq!(of_b.as_object().unwrap().len(), 12, "the path and the whole Stat");
}

#[tokio::test]
async fn get_prints_the_bytes_and_nothing_else() {
    let zk = jobs().await;
    let client = zk.client().await;
    assert_eq!(run(&zk, "get /jobs/b").await.ok(), "the second\nline of b");
    client.create("/bytes", &b"\xff\x00"[..]).await.unwrap();
    assert_eq!(run(&zk, "get -b /bytes").await.ok(), "/wA=\n");
    assert!(run(&zk, "get -x /bytes").await.ok().starts_with("00000000  ff 00 "));
    let object = &run(&zk, "get --json /bytes").await.json()[0];
    assert_eq!((&object["dataBase64"], &object["version"]), (&json!("/wA="), &json!(0)));
    client.create("/json", r#"{"b":1,"a":[2]}"#).await.unwrap();
    assert_eq!(run(&zk, "get --pretty /json").await.ok(), "{\n  \"b\": 1,\n  \"a\": [\n    2\n  ]\n}\n");
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(b"unzipped").unwrap();
    client.create("/zipped", zipped.finish().unwrap()).await.unwrap();
    assert_eq!(run(&zk, "get --gunzip /zipped").await.ok(), "unzipped");
    let (reason, message) = run(&zk, "get --gunzip /json").await.failed();
    assert_eq!(reason, ExitReason::Usage);
    assert!(message.contains("/json is not gzip"), "{message}");
}

#[tokio::test]
async fn what_is_absent_is_named_with_the_server_and_what_to_do() {
    let zk = jobs().await;
    for command in ["get", "ls", "tree", "du", "acl", "child-count"] {
        let (reason, message) = run(&zk, &format!("{command} /jobs/c")).await.failed();
        assert_eq!(reason, ExitReason::Absent, "{message}");
        assert!(message.starts_with(&format!("{command}: ")), "{message}");
        assert!(
            message.ends_with("/jobs/c: no such znode (server zk:2181); `ls /jobs` shows what is there"),
            "{message}"
        );
    }
    let (reason, message) = run(&zk, "stat /jobs/c").await.failed();
    assert_eq!((reason, &*message), (ExitReason::Absent, "stat: there is no znode /jobs/c (server zk:2181)"));
}

#[tokio::test]
async fn stat_has_all_fields() {
    let zk = jobs().await;
    let text = run(&zk, "stat /jobs/a").await.ok();
    assert_eq!(text.lines().count(), 11);
    assert!(text.contains("\ndataVersion = 0\n") && text.contains("\nephemeralOwner = 0x0\n"), "{text}");
    assert_eq!(run(&zk, "stat --json /jobs/a").await.json()[0]["dataLength"], json!(5));
}

#[tokio::test]
async fn tree_draws_every_level() {
    let zk = jobs().await;
    let drawing = "/jobs\n├── a\n└── b\n    └── part\n";
    assert_eq!(run(&zk, "tree /jobs").await.ok(), drawing);
    assert_eq!(
        run(&zk, "tree /jobs --depth 1 -l").await.ok(),
        "/jobs  (0 bytes)\n├── a  (5 bytes)\n└── b  (20 bytes)\n"
    );
    let whole = run(&zk, "tree /").await.ok();
    assert!(
        whole.starts_with("/\n├── jobs\n│   ├── a\n│   └── b\n│       └── part\n├── jobs-old\n"),
        "{whole}"
    );
}

#[tokio::test]
async fn find_prints_what_matches_all_tests() {
    let zk = jobs().await;
    let client = zk.client().await;
    client.create("/jobs/e", "").ephemeral().await.unwrap();
    assert_eq!(run(&zk, "find /jobs --name '[ab]'").await.ok(), "/jobs/a\n/jobs/b\n");
    assert_eq!(run(&zk, "find / --regex '^/jobs.*a'").await.ok(), "/jobs/a\n/jobs/b/part\n");
    assert_eq!(run(&zk, "find /jobs --larger 1 --leaf").await.ok(), "/jobs/a\n");
    assert_eq!(run(&zk, "find /jobs --empty --leaf").await.ok(), "/jobs/e\n");
    assert_eq!(run(&zk, "find / --ephemeral").await.ok(), "/jobs/e\n");
    assert_eq!(run(&zk, &format!("find / --owner {}", client.session_id())).await.ok(), "/jobs/e\n");
    assert_eq!(run(&zk, "find /jobs --owner 0x7").await.ok(), "");
    assert_eq!(run(&zk, "find /jobs --depth 1 --name 'p*'").await.ok(), "");
}

#[tokio::test]
async fn grep_prints_the_lines_that_match_and_fails_if_none_does() {
    let zk = jobs().await;
    zk.client().await.create("/jobs/z", &b"\xff second"[..]).await.unwrap();
    let found = "/jobs/b: the second\n/jobs/z: data that is not text matches\n";
    assert_eq!(run(&zk, "grep second").await.ok(), found);
    assert_eq!(run(&zk, "grep -i 'LINE OF' /jobs").await.ok(), "/jobs/b: line of b\n");
    assert_eq!(run(&zk, "grep -l '^line' /jobs").await.ok(), "/jobs/b\n");
    assert_eq!(run(&zk, "grep -F 'l.ne' /jobs").await.failed().0, ExitReason::Absent);
    let (reason, message) = run(&zk, "grep '(' /jobs").await.failed();
    assert_eq!(reason, ExitReason::Usage);
    assert!(message.contains("-F takes it as text") && message.lines().count() == 1, "{message}");
}

#[tokio::test]
async fn du_adds_up_and_child_count_counts() {
    let zk = jobs().await;
    let totals: Vec<_> = run(&zk, "du /jobs --json --sort size").await.json();
    let total = |path: &str, bytes: i32, znodes: i32| json!({"path": path, "bytes": bytes, "znodes": znodes});
    assert_eq!(totals, [total("/jobs", 26, 4), total("/jobs/b", 21, 2), total("/jobs/a", 5, 1)]);
    assert_eq!(run(&zk, "child-count /jobs").await.ok(), "3\n");
    // An old server.
    zk.faults().on(op(OpCode::GetAllChildrenNumber)).fail(zoolet::ErrorCode::Unimplemented).unwrap();
    assert_eq!(run(&zk, "child-count /jobs").await.ok(), "3\n");
}

#[tokio::test]
async fn acls_and_identities_are_shown() {
    let zk = jobs().await;
    let client = zk.client().await;
    client.add_auth("digest", "bob:pw").await.unwrap();
    client.set_acl("/jobs/a", Acl::creator_all()).await.unwrap();
    assert_eq!(run_on(&client, "acl /jobs/a").await.ok(), "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa\n");
    let all = run_on(&client, "acl -R /jobs").await.ok();
    assert!(
        all.starts_with("world:anyone:cdrwa /jobs\ndigest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa /jobs/a\n"),
        "{all}"
    );
    let whoami = run_on(&client, "whoami").await.ok();
    assert!(whoami.contains("digest:bob\n"), "{whoami}");
}

#[tokio::test]
async fn an_acl_that_forbids_half_of_a_tree_leaves_the_other_half_in_the_answer() {
    let zk = jobs().await;
    zk.client().await.set_acl("/jobs/b", vec![Acl::new(Perms::WRITE, "world", "anyone")]).await.unwrap();
    for (command, answer) in [
        ("find /jobs", "/jobs\n/jobs/a\n/jobs/b\n"),
        ("grep first", "/jobs/a: first\n"),
        ("tree /jobs", "/jobs\n├── a\n└── b\n"),
        // Whether it matches is not known.
        ("find /jobs --larger 10", ""),
    ] {
        let ran = run(&zk, command).await;
        assert_eq!(ran.out, answer);
        let (reason, message) = ran.failed();
        assert_eq!(reason, ExitReason::Refused);
        assert!(
            message.starts_with("a znode could not be read: ") && message.contains("/jobs/b: not authorized"),
            "{message}"
        );
        assert!(message.contains("--auth-file"), "{message}");
    }
    for command in ["ls -R", "ls --sort size", "find", "tree", "acl -R", "rm -r --dry-run"] {
        let out = run(&zk, &format!("{command} --json /jobs")).await.out;
        let objects: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let unreadable: Vec<_> = objects.iter().filter(|object| !object["error"].is_null()).collect();
        assert_eq!(unreadable, [&json!({"path": "/jobs/b", "error": "not authorized"})], "{command}");
    }
}

#[tokio::test]
async fn what_is_larger_than_the_limit_is_named_with_both_sizes_and_the_rest_is_in_the_answer() {
    let zk = jobs().await;
    let plain = zk.client().await;
    plain.create("/jobs/large", vec![b'x'; 2000]).await.unwrap();
    let names: Vec<_> =
        (0..100).map(|number| format!("/jobs/b/child-with-a-long-name-{number:03}")).collect();
    for name in &names {
        plain.create(name, "").await.unwrap();
    }
    let client = zk.options().max_reply(1500).connect(zk.connector()).await.unwrap();
    for (command, path) in [("get /jobs/large", "/jobs/large"), ("ls /jobs/b", "/jobs/b")] {
        let (reason, message) = run_on(&client, command).await.failed();
        assert_eq!(reason, ExitReason::Refused);
        assert!(message.contains(&format!("{path}: the answer has ")), "{message}");
        assert!(message.contains(" bytes, and 1500 are read at most (server zk:2181)"), "{message}");
    }
    for (command, answer) in
        [("grep first /jobs", "/jobs/a: first\n"), ("find /jobs --name '[ab]'", "/jobs/a\n/jobs/b\n")]
    {
        let ran = run_on(&client, command).await;
        assert_eq!(ran.out, answer);
        let (reason, message) = ran.failed();
        assert_eq!(reason, ExitReason::Refused);
        assert!(message.contains("could not be read") && message.contains("1500 are read"), "{message}");
    }
    let (reason, message) = run_on(&client, &format!("set /jobs/a {}", "x".repeat(1 << 20))).await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.contains("/jobs/a: it would be 1048") && message.contains("jute.maxbuffer"), "{message}");
}

#[tokio::test]
async fn a_znode_that_vanishes_during_a_walk_is_left_out() {
    let zk = jobs().await;
    zk.faults().on(zoolet::testing::request().path("/jobs/b")).fail(zoolet::ErrorCode::NoNode).unwrap();
    assert_eq!(run(&zk, "find /jobs").await.ok(), "/jobs\n/jobs/a\n");
    assert_eq!(run(&zk, "grep first /jobs").await.ok(), "/jobs/a: first\n");
}

#[tokio::test]
async fn a_tree_wider_and_deeper_than_the_window_comes_out_in_order() {
    let zk = TestServer::start().await;
    let client = zk.client().await;
    let mut paths = vec!["/t".to_owned()];
    for wide in 0..300 {
        paths.push(format!("/t/{wide:03}"));
        paths.extend((0..wide % 4).map(|child| format!("/t/{wide:03}/{child}")));
    }
    paths.extend((0..200).scan("/t/deep".to_owned(), |path, _| {
        let this = path.clone();
        path.push_str("/d");
        Some(this)
    }));
    for path in &paths {
        client.create(path, path.clone()).await.unwrap();
    }
    assert_eq!(run(&zk, "find /t").await.ok(), paths.join("\n") + "\n");
    assert_eq!(run(&zk, "grep -l . /t").await.ok(), paths.join("\n") + "\n");
    // Two requests for each znode, so that the window is exceeded.
    let acls: String = paths.iter().map(|path| format!("world:anyone:cdrwa {path}\n")).collect();
    assert_eq!(run(&zk, "acl -R /t").await.ok(), acls);
}

#[tokio::test]
async fn names_that_would_move_the_cursor_are_escaped_and_json_has_them_exactly() {
    let zk = TestServer::start().await;
    let client = zk.client().await;
    client.create("/odd", "").await.unwrap();
    client.create("/odd/x\u{202e}y z\"", "").await.unwrap();
    assert_eq!(run(&zk, "ls /odd").await.ok(), "x\\u{202e}y z\"\n");
    assert_eq!(run(&zk, "ls --json /odd").await.json()[0]["path"], json!("/odd/x\u{202e}y z\""));
}

#[tokio::test]
async fn locks_of_every_client_show_who_holds_and_who_waits() {
    let zk = TestServer::builder()
        .znode("/locks/l", "")
        .znode("/locks/rw", "")
        .znode("/other/n-0000000001", "")
        .start()
        .await
        .unwrap();
    let client = zk.client().await;
    let kazoo = "0123456789abcdef0123456789abcdef__lock__";
    for name in ["_c_1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f-lock-", kazoo] {
        client.create(format!("/locks/l/{name}"), "").ephemeral().sequential().await.unwrap();
    }
    for name in ["read-", "read-", "write-", "read-"] {
        client.create(format!("/locks/rw/{name}"), "").ephemeral().sequential().await.unwrap();
    }
    let text = run(&zk, "locks /").await.ok();
    let states: Vec<_> =
        text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        states,
        [
            "/locks/l lock",
            "1 holds",
            "2 waits",
            "/locks/rw read/write",
            "1 holds",
            "2 holds",
            "3 waits",
            "4 waits"
        ],
        "{text}"
    );
    assert!(text.contains(&format!("session {}  token 0x", client.session_id())), "{text}");
    let waiting = &run(&zk, "locks --json /locks/l").await.json()[1];
    assert_eq!(
        (&waiting["position"], &waiting["holds"], &waiting["lock"]),
        (&json!(2), &json!(false), &json!("/locks/l"))
    );
}

#[tokio::test]
async fn sessions_own_ephemerals() {
    let zk = jobs().await;
    let client = zk.client().await;
    client.create("/jobs/e", "").ephemeral().await.unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    // A port that answers no words.
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes)).server("127.0.0.1:1");
    shell.run_line("sessions -l /jobs").await.unwrap();
    shell.run_line("sessions --json").await.unwrap();
    drop(shell);
    let id = client.session_id();
    let text = format!("{id}  -  1 ephemeral\n  /jobs/e\n");
    let object =
        json!({"session": id.to_string(), "address": null, "server": null, "ephemerals": ["/jobs/e"]});
    assert_eq!(String::from_utf8(out).unwrap(), format!("{text}{object}\n"));
}

#[tokio::test]
async fn a_quota_is_set_shown_and_removed() {
    let zk = jobs().await;
    let client = zk.client().await;
    assert_eq!(run(&zk, "quota /jobs").await.failed().0, ExitReason::Absent);
    run(&zk, "set-quota /jobs --count 10 --hard-bytes 1000").await.ok();
    assert_eq!(
        run(&zk, "quota /jobs").await.ok(),
        "znodes: 4, limit 10, hard limit none\nbytes:  26, limit none, hard limit 1000\n"
    );
    client.create("/jobs/more", "12345").await.unwrap();
    run(&zk, "set-quota /jobs --count 20").await.ok();
    let shown = &run(&zk, "quota --json /jobs").await.json()[0];
    assert_eq!(
        (&shown["znodes"], &shown["znodesLimit"], &shown["bytesHardLimit"]),
        (&json!(5), &json!(20), &json!(1000))
    );
    assert_eq!(run(&zk, "set-quota /jobs/a --count 1").await.failed().0, ExitReason::Conflict);
    assert_eq!(run(&zk, "set-quota /absent --count 1").await.failed().0, ExitReason::Absent);
    run(&zk, "set-quota /jobs --delete").await.ok();
    assert_eq!(run(&zk, "quota /jobs").await.failed().0, ExitReason::Absent);
}
