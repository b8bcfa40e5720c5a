//! Znodes, children, search, sessions and load: what is shown, to whom, and how much of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use zoolet_proto::{Acl, Perms};
use zoolet_server::{AuthScheme, Server};
use zoolet_test_support::{
    Wire, create, delete, ephemeral, exists, get_data, multi, only, set_acl, set_data,
};

use super::{BOB, Scene, create_for, from_base64, of_bob, put};

#[tokio::test]
async fn a_znode_is_shown_with_data_stat_acl_and_owner() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    put(&mut client, "/a", "Grüße").await;
    let stat = client.ask(exists("/a")).await.stat();
    let shown = scene.api("znode?path=/a").await;
    assert_eq!(from_base64(&shown["data"]["base64"]), "Grüße");
    assert_eq!(shown["data"]["length"], 7);
    assert_eq!(shown["stat"]["czxid"], format!("{:#x}", stat.czxid.0));
    assert_eq!(
        (shown["stat"]["ctime"].as_i64(), shown["stat"]["version"].as_i64()),
        (Some(stat.ctime), Some(1))
    );
    assert_eq!(shown["acl"], json!([["cdrwa", "world", "anyone"]]));
    assert_eq!(shown["owner"], json!({ "kind": "persistent" }));
    client.ask(ephemeral("/e")).await;
    let shown = scene.api("znode?path=/e").await;
    assert_eq!(shown["owner"]["kind"], "ephemeral");
    assert!(shown["owner"]["session"].as_str().is_some_and(|id| id.starts_with("0x")));
}

#[tokio::test]
async fn of_long_data_the_first_64_kib_are_sent_and_the_length_is_told() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    put(&mut client, "/long", vec![7; 100_000]).await;
    let shown = scene.api("znode?path=/long").await;
    assert_eq!(shown["data"]["length"], 100_000);
    assert_eq!(from_base64(&shown["data"]["base64"]).len(), 64 << 10);
}

#[tokio::test]
async fn children_come_in_slices_each_once_and_in_order() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/d")).await;
    many(&mut client, "/d/n", 1_200).await;
    let mut names: Vec<String> = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let after = names.last().map(|name| format!("&after={name}")).unwrap_or_default();
        let page = scene.api(&format!("children?path=/d&limit=100000{after}")).await;
        assert_eq!(page["total"], 1_200);
        let children = page["children"].as_array().expect("a list");
        sizes.push(children.len());
        names.extend(children.iter().map(|child| child[0].as_str().expect("a name").to_owned()));
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(sizes, [500, 500, 200]);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 1_200);
    assert!(names.is_sorted());
    // The name to go on from may be gone.
    client.ask(delete("/d/n00000")).await;
    let page = scene.api("children?path=/d&after=n00000&limit=1").await;
    assert_eq!(page["children"], json!([["n00001", 0, false]]));
}

#[tokio::test]
async fn a_slice_of_long_names_is_bounded_in_bytes() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/d")).await;
    let long = "x".repeat(100_000);
    for at in 0..6 {
        client.ask(create(&format!("/d/{at}{long}"))).await;
    }
    let page = scene.api("children?path=/d").await;
    assert_eq!((page["children"].as_array().map(Vec::len), &page["more"]), (Some(3), &Value::Bool(true)));
    let found = scene.api("search?path=/d&text=x").await;
    assert_eq!(found["names"].as_array().map(Vec::len), Some(6));
}

#[tokio::test]
async fn what_a_search_finds_and_what_a_session_has_is_bounded_in_bytes() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/d")).await;
    let long = "x".repeat(100_000);
    for at in 0..15 {
        client.ask(ephemeral(&format!("/d/{at:02}{long}"))).await;
    }
    let count = |list: &Value| list.as_array().expect("a list").len();
    let found = scene.api("search?path=/d&text=x").await;
    assert_eq!((count(&found["names"]), &found["more"]), (12, &json!(true)));
    let sessions = scene.api("sessions").await;
    let id = sessions["sessions"][0]["id"].as_str().expect("an id");
    let session = scene.api(&format!("session?id={id}")).await;
    assert_eq!((count(&session["ephemerals"]["paths"]), &session["ephemerals"]["length"]), (3, &json!(15)));
}

#[tokio::test]
async fn a_search_looks_at_twenty_thousand_names_at_a_time() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/d")).await;
    many(&mut client, "/d/Node-", 20_600).await;
    let first = scene.api("search?path=/d&text=node-20500").await;
    assert_eq!(
        (&first["names"], &first["looked"], &first["more"]),
        (&json!([]), &json!(20_000), &json!(true))
    );
    let next = first["next"].as_str().expect("a name");
    let rest = scene.api(&format!("search?path=/d&text=node-20500&after={next}")).await;
    assert_eq!(
        (&rest["names"], &rest["looked"], &rest["more"]),
        (&json!(["Node-20500"]), &json!(600), &json!(false))
    );
    let exact = scene.api("search?path=/d&text=NODE-00001").await;
    assert_eq!(exact["names"], json!([]), "a capital letter makes the search exact");
}

#[tokio::test]
async fn acls_hold_as_for_a_client_with_the_same_identities() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create_for("/secret", of_bob())).await;
    client.ask(create_for("/local", only(Perms::READ, "ip", "127.0.0.1"))).await;
    client.ask(create_for("/elsewhere", only(Perms::READ, "ip", "10.0.0.0/8"))).await;
    let no_auth = (403, "NoAuth".to_owned());
    for call in
        ["znode?path=/secret", "children?path=/secret", "search?path=/secret&text=x", "znode?path=/elsewhere"]
    {
        assert_eq!(scene.refusal(call).await, no_auth, "{call}");
    }
    scene.api("znode?path=/local").await;
    let page = scene.api("children?path=/").await;
    let secret =
        page["children"].as_array().and_then(|children| children.iter().find(|child| child[0] == "secret"));
    assert_eq!(secret, Some(&json!(["secret", null, false])), "its name shows, its Stat does not");
    for call in ["znode?path=/secret", "children?path=/secret", "search?path=/secret&text=x"] {
        scene.api_as(BOB, call).await;
    }
    let got = scene.send("GET", "/api/znode?path=/secret", "Authorization: digest bob:wrong\r\n", "").await;
    assert_eq!(got.refusal(), no_auth);
}

#[tokio::test]
async fn digests_of_others_are_hidden_in_an_acl_from_those_who_may_only_read() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/a")).await;
    client.ask(set_acl("/a", [of_bob(), Acl::read_only()].concat())).await;
    let id = |shown: &Value| shown["acl"][0][2].as_str().expect("an id").to_owned();
    assert_eq!(id(&scene.api("znode?path=/a").await), "bob:x");
    assert!(id(&scene.api_as(BOB, "znode?path=/a").await).len() > 20);
}

#[tokio::test]
async fn credentials_of_an_unknown_form_are_refused_and_never_repeated() {
    let scene = Scene::start().await;
    for field in [
        "Basic Ym9iOnNlY3JldA==",
        "digest ",
        "digest",
        "Bearer secret-token",
        &format!("digest bob:{}", "x".repeat(2_000)),
    ] {
        let got = scene.send("GET", "/api/server", &format!("Authorization: {field}\r\n"), "").await;
        assert_eq!(got.refusal(), (401, "Unauthorized".to_owned()), "{field}");
        assert!(!got.body.contains("secret") && !got.body.contains("xxx"), "{}", got.body);
    }
    let shown = scene.api_as(BOB, "server").await;
    assert_eq!(shown["identities"], json!(["digest:bob", "ip:127.0.0.1"]));
    assert!(!shown.to_string().contains("secret"), "{shown}");
}

#[tokio::test]
async fn where_an_authentication_is_required_the_page_needs_it_too() {
    let scene = Scene::of(Server::builder().enforce_auth([AuthScheme::Digest]), |admin| admin).await;
    for call in ["znode?path=/", "sessions", "locks", "load"] {
        assert_eq!(scene.refusal(call).await, (401, "Unauthorized".to_owned()), "{call}");
        scene.api_as(BOB, call).await;
    }
    assert_eq!(scene.get("/").await.status, 200, "the page itself");
}

#[tokio::test]
async fn sessions_are_listed_with_their_ephemerals_and_watches() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create("/open")).await;
    client.ask(create_for("/secret", Acl::open())).await;
    client.ask(ephemeral("/open/e")).await;
    client.ask(ephemeral("/secret/e")).await;
    client.ask(set_acl("/secret/e", of_bob())).await;
    client.ask(set_acl("/secret", of_bob())).await;
    client
        .ask(zoolet_proto::Request::GetData(zoolet_proto::records::GetData {
            path: "/open".into(),
            watch: true,
        }))
        .await;
    let listed = scene.api("sessions").await;
    let session = &listed["sessions"][0];
    assert_eq!(
        (&listed["length"], &session["ephemerals"], &session["watches"]),
        (&json!(1), &json!(2), &json!(1))
    );
    assert!(session["address"].as_str().is_some_and(|addr| addr.starts_with("127.0.0.1:")), "{session}");
    assert_eq!(session["connected"], true);
    let id = session["id"].as_str().expect("an id");
    let detail = scene.api(&format!("session?id={id}")).await;
    assert_eq!(detail["ephemerals"], json!({ "length": 2, "hidden": 1, "paths": ["/open/e"] }));
    assert_eq!(detail["watches"], json!({ "length": 1, "hidden": 0, "paths": ["/open"] }));
    let detail = scene.api_as(BOB, &format!("session?id={id}")).await;
    assert_eq!(detail["ephemerals"]["paths"], json!(["/open/e", "/secret/e"]));
    client.close_session().await;
    assert_eq!(scene.refusal(&format!("session?id={id}")).await.0, 404);
    assert_eq!(scene.refusal("session?id=17").await.0, 400);
}

#[tokio::test]
async fn load_shows_what_was_counted() {
    let scene = Scene::start().await;
    let before = scene.api("load").await;
    let mut client = scene.client().await;
    client.ask(create("/a")).await;
    client.ask(get_data("/a")).await;
    client.ask(set_data("/a", "x")).await;
    let after = scene.api("load").await;
    let more =
        |field: &str| after[field].as_i64().expect("a number") - before[field].as_i64().expect("a number");
    assert_eq!((more("handled"), more("znodes"), more("sessions"), more("connections")), (4, 1, 1, 1));
    assert!(more("latency_micros") >= 0 && more("bytes_received") > 0);
    assert_ne!(after["zxid"], before["zxid"]);
    assert_eq!(after["syncs"], Value::Null, "nothing is measured that nobody looks at");
    assert!(scene.api("load?measure=1").await["syncs"].is_u64());
}

#[tokio::test]
async fn requests_that_ask_for_nothing_known_are_refused() {
    let scene = Scene::start().await;
    assert_eq!(scene.refusal("nothing").await, (404, "NotFound".to_owned()));
    assert_eq!(scene.refusal("znode").await, (400, "BadRequest".to_owned()));
    assert_eq!(scene.refusal("znode?path=a").await, (400, "BadRequest".to_owned()));
    assert_eq!(scene.refusal("znode?path=/none").await, (404, "NoNode".to_owned()));
    assert_eq!(scene.refusal("set").await, (405, "Method".to_owned()));
    assert_eq!(scene.send("POST", "/api/znode?path=/", "", "").await.refusal(), (405, "Method".to_owned()));
}

#[tokio::test]
async fn a_stopped_server_is_said_to_have_stopped() {
    let Scene { server, admin } = Scene::start().await;
    server.shutdown().await;
    let scene = Scene { server: zoolet_server::Server::builder().start().await.expect("a server"), admin };
    for call in ["load", "server", "znode?path=/", "children?path=/", "sessions", "locks", "transactions"] {
        assert_eq!(scene.refusal(call).await, (503, "Stopped".to_owned()), "{call}");
    }
    assert_eq!(scene.get("/").await.status, 200);
}

/// Creates `count` znodes with numbers of five digits.
async fn many(client: &mut Wire, prefix: &str, count: usize) {
    let paths: Vec<String> = (0..count).map(|at| format!("{prefix}{at:05}")).collect();
    for part in paths.chunks(500) {
        let answer = client.ask(multi(part.iter().map(|path| create(path)))).await;
        assert_eq!(answer.error, None);
    }
}
