//! Writes: refused unless the page is writable, and otherwise executed as a client's.

use serde_json::json;
use zoolet_proto::{Acl, Perms};
use zoolet_test_support::{create, exists, get_acl, get_data, set_data};

use super::{BOB, Scene, base64, create_for, of_bob};

#[tokio::test]
async fn a_page_that_is_not_writable_refuses_every_write() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/a")).await;
    let zxid = scene.api("load").await["zxid"].clone();
    for (name, body) in [
        ("create", json!({ "path": "/b", "data": "" })),
        ("set", json!({ "path": "/a", "data": base64("x"), "version": 0 })),
        ("delete", json!({ "path": "/a", "version": 0 })),
    ] {
        assert_eq!(scene.write(name, "", body).await.refusal(), (403, "ReadOnly".to_owned()), "{name}");
    }
    assert_eq!(scene.api("load").await["zxid"], zxid, "no transaction, not even a session");
    assert_eq!(scene.api("server").await["writable"], false);
}

#[tokio::test]
async fn a_writable_page_creates_sets_and_deletes() {
    let scene = Scene::writable().await;
    let mut client = scene.client().await;
    let made = scene.write("create", "", json!({ "path": "/a", "data": base64("one") })).await;
    assert_eq!((made.status, made.json()), (200, json!({ "path": "/a" })));
    assert_eq!(client.ask(get_data("/a")).await.text(), "one");
    assert_eq!(client.ask(get_acl("/a")).await.acl(), Acl::open());
    let set = scene.write("set", "", json!({ "path": "/a", "data": base64("two"), "version": 0 })).await;
    assert_eq!(set.json(), json!({ "path": "/a", "version": 1 }));
    assert_eq!(client.ask(get_data("/a")).await.text(), "two");
    let made = scene.write("create", "", json!({ "path": "/a/n-", "data": "", "sequential": true })).await;
    assert_eq!(made.json(), json!({ "path": "/a/n-0000000000" }));
    assert_eq!(
        scene.write("delete", "", json!({ "path": "/a", "version": 1 })).await.refusal().1,
        "NotEmpty"
    );
    scene.write("delete", "", json!({ "path": "/a/n-0000000000", "version": 0 })).await;
    assert_eq!(scene.write("delete", "", json!({ "path": "/a", "version": 1 })).await.status, 200);
    assert!(client.ask(exists("/a")).await.error.is_some());
    assert_eq!(scene.api("sessions").await["length"], 1, "the sessions of the writes are closed");
}

#[tokio::test]
async fn what_somebody_has_changed_since_is_not_overwritten() {
    let scene = Scene::writable().await;
    let mut client = scene.client().await;
    client.ask(create("/a")).await;
    client.ask(set_data("/a", "theirs")).await;
    let set = json!({ "path": "/a", "data": base64("ours"), "version": 0 });
    assert_eq!(scene.write("set", "", set).await.refusal(), (409, "BadVersion".to_owned()));
    let delete = json!({ "path": "/a", "version": 0 });
    assert_eq!(scene.write("delete", "", delete).await.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(client.ask(get_data("/a")).await.text(), "theirs");
    for body in [json!({ "path": "/a", "data": "" }), json!({ "path": "/a", "data": "", "version": "0" })] {
        assert_eq!(scene.write("set", "", body).await.refusal().0, 400, "a version is required");
    }
}

#[tokio::test]
async fn writes_obey_acls_and_new_znodes_belong_to_their_creator() {
    let scene = Scene::writable().await;
    let mut client = scene.client().await;
    client.ask(create_for("/secret", of_bob())).await;
    client.ask(create_for("/local", vec![Acl::new(Perms::ALL, "ip", "127.0.0.1")])).await;
    let set = |path| json!({ "path": path, "data": base64("x"), "version": 0 });
    assert_eq!(scene.write("set", "", set("/secret")).await.refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(scene.write("set", BOB, set("/secret")).await.status, 200);
    assert_eq!(scene.write("set", "", set("/local")).await.status, 200, "the address is that of the browser");
    scene.write("create", BOB, json!({ "path": "/of-bob", "data": "" })).await;
    let acl = scene.api_as(BOB, "znode?path=/of-bob").await["acl"].clone();
    assert_eq!(
        (&acl[0][0], &acl[0][1], &acl[1]),
        (&json!("cdrwa"), &json!("digest"), &json!(["r", "world", "anyone"]))
    );
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused() {
    let scene = Scene::writable().await;
    for body in [
        json!({}),
        json!([]),
        json!({ "path": "a", "data": "" }),
        json!({ "path": "/a/", "data": "" }),
        json!({ "path": "/a", "data": "%" }),
        json!({ "path": "/a" }),
    ] {
        assert_eq!(scene.write("create", "", body.clone()).await.refusal().0, 400, "{body}");
    }
    let fields = "X-Zoolet-Page: 1\r\n";
    assert_eq!(scene.send("POST", "/api/create", fields, "{").await.refusal().0, 400);
    let long = format!("\"{}\"", "x".repeat(1_500_000));
    assert_eq!(scene.send("POST", "/api/create", fields, &long).await.refusal().0, 400);
    let large = json!({ "path": "/a", "data": base64(vec![0; 1_048_570]) });
    let refused = scene.write("create", "", large).await;
    assert_eq!(
        refused.status, 502,
        "the server closes a connection with a frame that is too long: {}",
        refused.body
    );
}
