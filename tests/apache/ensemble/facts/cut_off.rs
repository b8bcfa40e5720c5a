//! A member that has lost the others and answers reads only (`readonlymode.enabled`).

use std::time::Duration;

use zoolet_test_support::{
    ErrorCode, Hello, Request, RequestExt as _, SessionId, close_session, create, delete, exists,
    get_children, get_data, ping, secs, set_data, sync,
};

use super::{Got, STABLE, ask, check, dial, greet, open, payload, welcome};

use crate::ensemble::begin;
use crate::ensemble::members::{Ensemble, MEMBERS, Mode};
use crate::ensemble::words::wait_for;

const LIMIT: Duration = secs(60);

/// Without local sessions, which are off by default, it can open no session.
#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn a_member_that_is_cut_off_refuses_known_sessions_and_opens_local_ones() {
    let mut rng = begin();
    let settings = format!("{STABLE}localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n");
    let properties = ["readonlymode.enabled=true"];
    let mut ensemble = Ensemble::start_with("cut-off", &mut rng, &settings, &properties).await;
    let leader = ensemble.wait_until_served().await;
    let alone = (leader + 1) % MEMBERS;
    let mut old = open(&ensemble, alone, Hello::new().read_only(true)).await;
    // A session is that of one member alone until it has an ephemeral.
    old.ask(create("/a")).await;
    old.ask(create("/b").ephemeral()).await;

    let others: Vec<_> = (0..MEMBERS).filter(|at| *at != alone).collect();
    others.iter().for_each(|at| ensemble.kill(*at));
    assert_eq!(payload(&mut old).await, None, "its connections are closed");
    let read_only = async || (ensemble.mode(alone).await == Mode::ReadOnly).then_some(());
    wait_for("it answers reads only", LIMIT, read_only).await;

    let content = || Hello::new().read_only(true);
    for (what, hello) in [
        ("a client that refuses read-only", Hello::new()),
        ("a client with a session", Hello::again(&old.welcome).read_only(true)),
        ("a client that has seen more", content().has_seen(i64::MAX)),
    ] {
        assert_eq!(
            greet(&mut dial(&ensemble, alone).await, hello).await,
            None,
            "{what} is closed without a word"
        );
    }
    let unknown = greet(&mut dial(&ensemble, alone).await, content().session(SessionId(77))).await;
    let unknown = welcome(&unknown.expect("an answer"));
    assert_eq!((unknown.is_refusal(), unknown.read_only), (true, Some(true)));

    let mut new = open(&ensemble, alone, content()).await;
    assert_eq!(new.welcome.read_only, Some(true));
    let refused = Got::Refusal(ErrorCode::NotReadOnly);
    let asks: [(Request, Got); 9] = [
        (get_data("/a"), Got::Answer),
        (exists("/c"), Got::Refusal(ErrorCode::NoNode)),
        (get_children("/"), Got::Answer),
        (create("/c"), refused),
        (set_data("/a", ""), refused),
        (delete("/a"), refused),
        (check("/a"), refused),
        (sync("/"), refused),
        (ping(), Got::Answer),
    ];
    for (question, answer) in asks {
        assert_eq!(ask(&mut new, question.clone()).await, answer, "{question:?}");
    }
    let mut another = open(&ensemble, alone, content()).await;
    assert_eq!(ask(&mut another, close_session()).await, Got::Answer);

    others.iter().for_each(|at| ensemble.restart(*at));
    ensemble.wait_until_served().await;
    assert_eq!(payload(&mut new).await, None, "its connections are closed when the others are back");
    let known = greet(&mut dial(&ensemble, alone).await, Hello::again(&new.welcome)).await;
    assert!(welcome(&known.expect("an answer")).is_refusal(), "its session is unknown");
    open(&ensemble, alone, Hello::again(&old.welcome)).await;
}
