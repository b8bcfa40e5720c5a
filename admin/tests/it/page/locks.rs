//! Lock queues: those of the recipes of all known clients.

use serde_json::{Value, json};
use zoolet_proto::{CreateMode, Request};
use zoolet_test_support::{Wire, create, ephemeral, set_acl};

use super::{BOB, Scene, of_bob};

async fn queue_up(client: &mut Wire, prefix: &str) -> String {
    let Request::Create(record) = create(prefix) else { unreachable!("a create") };
    let flags = CreateMode::EphemeralSequential.code();
    let made = client.ask(Request::Create(zoolet_proto::records::Create { flags, ..record })).await;
    assert_eq!(made.error, None, "{prefix}");
    made.path().to_owned()
}

fn states(queue: &Value) -> Vec<&str> {
    let contenders = queue["contenders"].as_array().expect("a list");
    contenders.iter().map(|one| one["state"].as_str().expect("a state")).collect()
}

#[tokio::test]
async fn a_queue_shows_who_holds_and_who_waits_since_when_with_which_token() {
    let scene = Scene::start().await;
    let (mut a, mut b) = (scene.client().await, scene.client().await);
    a.ask(create("/locks")).await;
    let guid = "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f";
    let held = queue_up(&mut a, &format!("/locks/_c_{guid}-lock-")).await;
    queue_up(&mut b, "/locks/lock-").await;
    queue_up(&mut b, "/locks/0123456789abcdef0123456789abcdef__lock__").await;
    let shown = scene.api("locks").await;
    let queue = &shown["queues"][0];
    assert_eq!(
        (&queue["path"], &queue["recipe"], &queue["length"]),
        (&json!("/locks"), &json!("lock"), &json!(3))
    );
    assert_eq!(states(queue), ["holds", "waits", "waits"]);
    let znode = scene.api(&format!("znode?path={held}")).await;
    let holder = &queue["contenders"][0];
    assert_eq!(holder["path"], held);
    assert_eq!(holder["token"], znode["stat"]["czxid"]);
    assert_eq!(holder["since"], znode["stat"]["ctime"]);
    assert_eq!(holder["session"], znode["owner"]["session"]);
    assert!(holder["address"].as_str().is_some_and(|addr| addr.starts_with("127.0.0.1:")));
    a.close_session().await;
    assert_eq!(states(&scene.api("locks").await["queues"][0]), ["holds", "waits"], "the next one");
}

#[tokio::test]
async fn queues_whose_paths_are_long_are_left_out() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    for dir in ["/short", &format!("/{}", "x".repeat(600))] {
        client.ask(create(dir)).await;
        queue_up(&mut client, &format!("{dir}/lock-")).await;
    }
    let shown = scene.api("locks").await;
    assert_eq!(shown["queues"].as_array().map(Vec::len), Some(1));
    assert_eq!(shown["queues"][0]["path"], "/short");
}

#[tokio::test]
async fn queues_of_every_kind_are_found() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    for dir in ["/rw", "/leases", "/other", "/plain", "/single.epoch"] {
        client.ask(create(dir)).await;
    }
    for prefix in [
        "/rw/a-__READ__",
        "/rw/b-__WRIT__",
        "/rw/c-__READ__",
        "/leases/a-lease-",
        "/leases/b-lease-",
        "/other/x",
        "/other/y",
    ] {
        queue_up(&mut client, prefix).await;
    }
    for path in ["/single", "/plain/worker"] {
        client.ask(ephemeral(path)).await;
    }
    let shown = scene.api("locks").await;
    let queues = shown["queues"].as_array().expect("a list");
    let seen: Vec<_> = queues
        .iter()
        .map(|queue| {
            (queue["path"].as_str().expect("a path"), queue["recipe"].as_str().expect("text"), states(queue))
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("/leases", "semaphore leases", vec!["holds", "holds"]),
            ("/other", "sequential ephemerals", vec!["first", "next"]),
            ("/rw", "read/write lock", vec!["holds", "waits", "waits"]),
            ("/single", "single znode lock", vec!["holds"]),
        ]
    );
}

#[tokio::test]
async fn a_queue_that_a_reader_may_not_list_is_not_shown() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/locks")).await;
    queue_up(&mut client, "/locks/lock-").await;
    client.ask(set_acl("/locks", of_bob())).await;
    assert_eq!(scene.api("locks").await["queues"], json!([]));
    assert_eq!(scene.api_as(BOB, "locks").await["queues"][0]["path"], "/locks");
}
