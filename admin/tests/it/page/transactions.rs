//! Transactions as they come.

use serde_json::{Value, json};
use zoolet_test_support::{RequestExt, create, delete, ephemeral, multi, set_data};

use super::{BOB, Scene, create_for, of_bob};

/// Where a page begins.
async fn begin(scene: &Scene) -> String {
    let begin = scene.api("transactions").await;
    assert_eq!(begin["transactions"], json!([]));
    begin["last"].as_str().expect("a zxid").to_owned()
}

fn kinds(answer: &Value) -> Vec<&str> {
    let txns = answer["transactions"].as_array().expect("a list");
    txns.iter().map(|txn| txn["kind"].as_str().expect("a kind")).collect()
}

#[tokio::test]
async fn a_write_is_shown_when_it_comes() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    let last = begin(&scene).await;
    let call = format!("transactions?after={last}");
    let (shown, answer) = tokio::join!(scene.api(&call), client.ask(create("/a")));
    assert_eq!((answer.error, kinds(&shown)), (None, vec!["create"]));
    let txn = &shown["transactions"][0];
    assert_eq!(txn["steps"], json!([{ "kind": "create", "path": "/a", "length": 0, "hidden": false }]));
    assert_eq!(txn["zxid"], shown["last"]);
    let id = &scene.api("sessions").await["sessions"][0]["id"];
    assert_eq!(&txn["session"], id);
}

#[tokio::test]
async fn all_kinds_are_shown_in_their_order_and_the_filter_selects() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    let last = begin(&scene).await;
    client.ask(create("/a")).await;
    client.ask(set_data("/a", "xyz")).await;
    client.ask(multi([create("/b"), delete("/a")])).await;
    client.ask(delete("/none")).await;
    client.ask(ephemeral("/e")).await;
    let session = scene.api("sessions").await["sessions"][0]["id"].as_str().expect("an id").to_owned();
    client.close_session().await;
    let mut other = scene.client().await;
    other.ask(create("/other")).await;
    let all = scene.api(&format!("transactions?after={last}")).await;
    let expected =
        ["create", "setData", "multi", "error", "create", "closeSession", "createSession", "create"];
    assert_eq!(kinds(&all), expected);
    assert_eq!(all["transactions"][3]["error"], "NoNode");
    assert_eq!(all["transactions"][5]["steps"][0]["path"], "/e");
    for (filter, expected) in [
        ("path=/a".to_owned(), &["create", "setData", "multi"][..]),
        ("kind=create&path=/o".to_owned(), &["create"]),
        (format!("session={session}&kind=closeSession"), &["closeSession"]),
        ("path=/nothing".to_owned(), &[]),
    ] {
        let some = scene.api(&format!("transactions?after={last}&{filter}")).await;
        assert_eq!(kinds(&some), expected, "{filter}");
        assert_eq!(some["last"], all["last"], "what was left out is not asked for again");
    }
    assert_eq!(scene.refusal("transactions?session=17").await.0, 400);
}

#[tokio::test]
async fn paths_that_a_reader_may_not_know_of_are_hidden() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(create_for("/secret", of_bob())).await;
    client.ask(zoolet_test_support::auth("digest", "bob:secret")).await;
    let last = begin(&scene).await;
    client.ask(create("/secret/plan")).await;
    client.ask(delete("/secret/plan")).await;
    client.ask(create_for("/secret/deep", of_bob())).await;
    let call = format!("transactions?after={last}");
    let hidden = scene.api(&call).await;
    assert!(!hidden.to_string().contains("/secret/"), "{hidden}");
    client.ask(multi([create("/open"), create_for("/secret/more", of_bob()), create("/last")])).await;
    client.ask(set_data("/open", "x")).await;
    let after = scene.api(&call).await;
    let paths = |at: usize| -> Value {
        let steps = after["transactions"][at]["steps"].as_array().expect("a list");
        steps.iter().map(|step| step["path"].clone()).collect()
    };
    assert_eq!((paths(3), paths(4)), (json!(["/open", null, "/last"]), json!(["/open"])));
    // One that is open itself is no secret while it is there, as for any client.
    let plan = scene.api_as(BOB, &call).await;
    assert_eq!(plan["transactions"][0]["steps"][0]["path"], "/secret/plan");
    let found = scene.api(&format!("{call}&path=/secret")).await;
    assert_eq!(found["transactions"], json!([]), "not by a filter either");
}

#[tokio::test]
async fn what_a_private_subtree_had_stays_hidden_when_all_of_it_is_deleted() {
    let scene = Scene::start().await;
    let mut client = scene.client().await;
    client.ask(zoolet_test_support::auth("digest", "bob:secret")).await;
    let last = begin(&scene).await;
    let long = format!("/secret/{}", "x".repeat(600));
    client.ask(create_for("/secret", of_bob())).await;
    for path in ["/secret/plan", &long] {
        client.ask(create_for(path, of_bob()).data("12345")).await;
    }
    let call = format!("transactions?after={last}");
    let steps = |answer: &Value| -> Vec<Value> {
        let txns = answer["transactions"].as_array().expect("a list");
        txns.iter().skip(1).map(|txn| txn["steps"][0].clone()).collect()
    };
    let shown = |hidden| json!({ "kind": "create", "path": null, "length": null, "hidden": hidden });
    // A long path is not kept.
    let expected = [shown(true), shown(false)];
    assert_eq!(steps(&scene.api(&call).await), expected);
    for path in ["/secret/plan", &long, "/secret"] {
        client.ask(delete(path)).await;
    }
    assert_eq!(steps(&scene.api(&call).await)[..2], expected);
}

#[tokio::test(start_paused = true)]
async fn without_a_write_the_answer_is_empty_after_twenty_seconds() {
    let scene = Scene::start().await;
    let last = begin(&scene).await;
    let begun = tokio::time::Instant::now();
    let answer = scene.api(&format!("transactions?after={last}")).await;
    assert_eq!(answer, json!({ "transactions": [], "last": last, "missed": false }));
    assert_eq!(begun.elapsed().as_secs(), 20);
}
