//! `snapshot` and `restore`: who may, how often, and what is sent.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_proto::{Acl, Perms, digest_id};
use zoolet_server::Server;
use zoolet_test_support::{create, get_data, only, set_acl, set_data};

use crate::common::{HttpAnswer, Pair, ask_as};

const USER: &str = "Authorization: digest u:p\r\n";

/// A server in memory with no limit on how often.
async fn start() -> Pair {
    Pair::start_with(Server::builder(), |admin| admin.rate_limit_interval(Duration::ZERO)).await
}

async fn snapshot(pair: &Pair, fields: &str) -> HttpAnswer {
    pair.ask("GET", "/commands/snapshot", fields, b"").await
}

async fn restore(pair: &Pair, body: &[u8]) -> HttpAnswer {
    pair.ask("POST", "/commands/restore", USER, body).await
}

#[tokio::test]
async fn credentials_are_needed_in_one_word_or_two() {
    let pair = start().await;
    for (fields, error) in [
        ("", "Auth info is missing for the command"),
        ("Authorization: \r\n", "Not authenticated"),
        ("Authorization: digest\r\n", "Not authenticated"),
        ("Authorization: Digest u:p\r\n", "Not authenticated"),
        ("Authorization: Basic dTpw\r\n", "Not authenticated"),
        ("Authorization: digest u:p x\r\n", "Not authenticated"),
        ("Authorization: sasl bob\r\n", "Not authenticated"),
        ("Authorization: world anyone\r\n", "Not authenticated"),
        ("Authorization: super\r\n", "Not authenticated"),
        ("Authorization: x509\r\n", "Not authenticated"),
    ] {
        for (method, path, name) in [
            ("GET", "/commands/snapshot", "snapshot"),
            ("GET", "/commands/snap", "snap"),
            ("GET", "/commands/restore", "restore"),
            ("POST", "/commands/rest", "rest"),
        ] {
            let answer = pair.ask(method, path, fields, b"").await;
            let expected = json!({ "command": name, "error": error });
            assert_eq!((answer.status, answer.json()), (401, expected), "{fields:?}");
        }
    }
    for fields in
        [USER, "Authorization:    digest u:p\r\n", "Authorization: ip\r\n", "Authorization: ip x\r\n"]
    {
        assert_eq!(snapshot(&pair, fields).await.status, 200, "{fields}");
        assert_eq!(pair.ask("GET", "/commands/restore", fields, b"").await.status, 500, "{fields}");
        assert_eq!(pair.ask("POST", "/commands/snapshot", fields, b"").await.status, 500, "{fields}");
    }
}

#[tokio::test]
async fn no_site_that_has_got_the_address_of_this_machine_takes_or_restores_a_snapshot() {
    // On the loopback no command is answered to such a site; elsewhere the others are.
    for (bound, allow) in [("127.0.0.1:0", false), ("127.0.0.1:0", true), ("0.0.0.0:0", true)] {
        let pair = Pair::start_with(Server::builder(), |admin| {
            let admin = admin.rate_limit_interval(Duration::ZERO).page_host("zk1.example.com");
            admin.bind(bound).allow_plaintext_snapshots(allow)
        })
        .await;
        let addr = ([127, 0, 0, 1], pair.admin.addr().port()).into();
        for (host, status) in [
            ("localhost", 200),
            ("127.0.0.1:8080", 200),
            ("[::1]", 200),
            ("10.1.2.3:8080", 200),
            ("zk1.example.com:8080", 200),
            ("evil.example:8080", 403),
            ("", 403),
        ] {
            for (method, path) in [("GET", "/commands/snapshot"), ("POST", "/commands/restore")] {
                let answer = ask_as(addr, host, method, path, USER, b"").await;
                // An empty body is no snapshot.
                let status = if (status, method) == (200, "POST") { 500 } else { status };
                assert_eq!(
                    answer.status, status,
                    "{method} {host} at {bound}, allowed by plain HTTP: {allow}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_root_must_grant_everything() {
    let boss = digest_id(b"boss:secret");
    let pair = Pair::start_with(Server::builder().super_digest(digest_id(b"super:power")), |admin| {
        admin.rate_limit_interval(Duration::ZERO)
    })
    .await;
    let mut client = pair.client().await;
    let mut acl = only(Perms::ALL, "digest", &boss);
    acl.push(Acl::new(Perms(Perms::ALL.0 & !Perms::ADMIN.0), "world", "anyone"));
    client.ask(set_acl("/", acl)).await;
    for (credentials, status) in
        [("boss:secret", 200), ("boss:wrong", 403), ("u:p", 403), ("super:power", 200)]
    {
        let answer = snapshot(&pair, &format!("Authorization: digest {credentials}\r\n")).await;
        assert_eq!(answer.status, status, "{credentials}");
        if status == 403 {
            assert_eq!(answer.json(), json!({ "command": "snapshot", "error": "Not authorized" }));
        }
    }
    assert_eq!(snapshot(&pair, "Authorization: ip\r\n").await.status, 403);
}

#[tokio::test]
async fn a_snapshot_is_streamed_with_its_zxid_and_its_length() {
    let pair = start().await;
    let mut client = pair.client().await;
    let zxid = client.ask(create("/a")).await.zxid;
    for query in ["", "?streaming=true", "?streaming=TRUE&streaming=false"] {
        let answer = pair.ask("GET", &format!("/commands/snapshot{query}"), USER, b"").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")));
        assert_eq!(answer.header("last_zxid"), Some(&*format!("{zxid:#x}")));
        let len = answer.body.len().to_string();
        assert_eq!(
            (answer.header("snapshot_size"), answer.header("content-length")),
            (Some(&*len), Some(&*len))
        );
        assert!(answer.body.starts_with(b"ZKSN"));
    }
    for query in ["false", "yes", ""] {
        let answer = pair.ask("GET", &format!("/commands/snap?streaming={query}"), USER, b"").await;
        assert_eq!((answer.status, answer.json()), (200, json!({ "command": "snapshot", "error": null })));
        assert!(answer.header("snapshot_size").is_some() && answer.header("last_zxid").is_some());
    }
}

#[tokio::test]
async fn a_snapshot_is_restored_in_another_server() {
    let from = start().await;
    let mut client = from.client().await;
    client.ask(create("/a")).await;
    let zxid = client.ask(set_data("/a", "value")).await.zxid;
    let bytes = snapshot(&from, USER).await.body;

    let to = start().await;
    let mut old = to.client().await;
    old.ask(create("/gone")).await;
    let answer = restore(&to, &bytes).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "last_zxid": zxid, "command": "restore", "error": null }))
    );
    old.expect_end().await;
    let mut client = to.client().await;
    let data = client.ask(get_data("/a")).await;
    assert!(data.error.is_none(), "{data:?}");
    assert!(format!("{:?}", data.reply).contains("value"), "{data:?}");
    let gone = client.ask(get_data("/gone")).await;
    assert_eq!(gone.error, Some(zoolet_proto::ErrorCode::NoNode));
    assert_eq!(to.get("/commands/mntr").await.json()["cnt_restore_time"].as_i64().unwrap_or(1), 1);
}

#[tokio::test]
async fn snapshots_are_taken_and_restored_while_another_one_arrives() {
    let pair = start().await;
    let head =
        format!("POST /commands/restore HTTP/1.1\r\nHost: localhost\r\n{USER}Content-Length: 9\r\n\r\nZKSN");
    let mut slow = TcpStream::connect(pair.admin.addr()).await.expect("a connection");
    slow.write_all(head.as_bytes()).await.expect("sent");
    let whole = snapshot(&pair, USER).await;
    assert_eq!(whole.status, 200);
    assert_eq!(restore(&pair, &whole.body).await.status, 200);
    slow.write_all(b"xxxxx").await.expect("sent");
    let mut status = [0; 12];
    slow.read_exact(&mut status).await.expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 500");
}

#[tokio::test]
async fn what_is_no_snapshot_is_refused_and_changes_nothing() {
    let pair = start().await;
    let mut client = pair.client().await;
    client.ask(create("/a")).await;
    let whole = snapshot(&pair, USER).await.body;
    for body in [&b""[..], b"garbage", &whole[..whole.len() - 1], &whole[..100]] {
        let answer = restore(&pair, body).await;
        assert_eq!(answer.status, 500);
        // A client that may restore may know the reason too.
        let reason = answer.json()["error"].as_str().expect("a reason").to_owned();
        assert!(reason.contains("snapshot"), "{reason}");
    }
    // A connection that ends within the body.
    let mut stream = TcpStream::connect(pair.admin.addr()).await.expect("a connection");
    let len = whole.len();
    let head =
        format!("POST /commands/restore HTTP/1.1\r\nHost: localhost\r\n{USER}Content-Length: {len}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&whole[..len / 2]).await.expect("sent");
    drop(stream);
    // The same connection still has its znode.
    assert!(client.ask(get_data("/a")).await.error.is_none());
    while pair.get("/commands/mntr").await.json()["restore_error_count"].as_i64().unwrap_or(5) < 5 {}
    assert!(client.is_alive().await);
}

#[tokio::test]
async fn what_is_disabled_or_asked_for_too_often_is_refused() {
    let disabled = Pair::start_with(Server::builder(), |admin| admin.snapshots(false).restores(false)).await;
    assert_eq!(snapshot(&disabled, USER).await.status, 503);
    let refused = restore(&disabled, b"").await;
    let disabled_by = json!({ "command": "restore", "error": "disabled by admin.restore.enabled" });
    assert_eq!((refused.status, refused.json()), (503, disabled_by));
    assert_eq!(snapshot(&disabled, "").await.status, 401, "credentials are looked at first");

    let limited =
        Pair::start_with(Server::builder(), |admin| admin.rate_limit_interval(Duration::from_secs(3600)))
            .await;
    // A refusal for another reason does not count; a failure does.
    assert_eq!(snapshot(&limited, "").await.status, 401);
    assert_eq!(snapshot(&limited, USER).await.status, 200);
    let second = snapshot(&limited, USER).await;
    assert_eq!(second.status, 429);
    let reason = second.json()["error"].as_str().expect("a reason").to_owned();
    assert!(reason.starts_with("one in 3600s is allowed; the next in 3"), "{reason}");
    assert_eq!(restore(&limited, b"garbage").await.status, 500);
    assert_eq!(restore(&limited, b"garbage").await.status, 429);
}

/// The bystander is a client with a session.
#[tokio::test]
async fn readers_of_snapshots_that_never_read_hold_up_nobody() {
    let pair = start().await;
    let mut client = pair.client().await;
    for n in 0..16 {
        client.ask(create(&format!("/{n}"))).await;
        client.ask(set_data(&format!("/{n}"), vec![b'x'; 500_000])).await;
    }
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(pair.admin.addr()).await.expect("a connection");
        let head = format!("GET /commands/snapshot HTTP/1.1\r\nHost: localhost\r\n{USER}\r\n");
        // Past the limit it is closed.
        if stream.write_all(head.as_bytes()).await.is_ok() {
            readers.push(stream);
        }
    }
    let mut answered = 0;
    for stream in &mut readers {
        answered += usize::from(stream.read_u8().await.is_ok());
    }
    assert_eq!(answered, 8, "{answered} of them get something");
    let begun = std::time::Instant::now();
    for _ in 0..100 {
        client.ask(get_data("/")).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "a hundred reads take {:?}", begun.elapsed());
    client.expect_nothing_more().await;
}
