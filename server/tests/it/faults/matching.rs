//! Which requests a fault meets.

use zoolet_proto::records::{Create, CreateTtl};
use zoolet_proto::{CreateMode, ErrorCode, OpCode, Request};
use zoolet_server::fault::{handshake, op, request};

use crate::common::*;

#[tokio::test]
async fn the_oldest_fault_is_asked_first_and_one_that_fires_keeps_the_others_from_counting() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::GetData).times(2)).fail(ErrorCode::NoAuth).unwrap();
    zk.faults().on(request().nth(2)).fail(ErrorCode::BadVersion).unwrap();
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(peer.ask(get("/")).await);
    }
    assert_eq!(heard, ["1 NoAuth", "2 NoAuth", "3 ok", "4 BadVersion"]);
    assert_eq!(zk.fired().len(), 3);
}

#[tokio::test]
async fn a_multi_is_met_by_any_of_its_paths_and_nobody_by_what_does_not_fit() {
    let zk = Zk::start().await;
    let (mut one, mut two) = (zk.peer().await, zk.peer().await);
    let faults = zk.faults();
    faults.on(request().path("/locks/**").session(one.session())).fail(ErrorCode::NoAuth).unwrap();
    faults.on(request().client("10.0.0.1".parse().unwrap())).reset().unwrap();
    assert_eq!(one.ask(create("/a")).await, "1 ok");
    assert_eq!(one.ask(multi([create("/b"), create("/locks")])).await, "2 NoAuth");
    assert_eq!(one.ask(multi([create("/b"), create("/c")])).await, "3 ok");
    assert_eq!(two.ask(create("/locks")).await, "1 ok");
}

#[tokio::test]
async fn a_create_is_met_whatever_its_opcode_and_not_inside_of_a_multi() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(zoolet_server::fault::create()).fail(ErrorCode::NoAuth).unwrap();
    let Request::Create(record) = create("/a") else { panic!("a create") };
    let (acl, data) = (record.acl.clone(), record.data.clone());
    let ttl = CreateTtl { path: "/a".into(), data, acl, flags: CreateMode::PersistentWithTtl.code(), ttl: 1 };
    peer.send_all([
        Request::Create2(record.clone()),
        Request::CreateContainer(Create { flags: CreateMode::Container.code(), ..record.clone() }),
        Request::CreateTtl(ttl),
        Request::Create(record),
        multi([create("/b")]),
        get("/b"),
    ])
    .await;
    zk.idle().await;
    assert_eq!(peer.heard().await, ["1 NoAuth", "2 NoAuth", "3 NoAuth", "4 NoAuth", "5 ok", "6 ok"]);
}

#[tokio::test]
async fn a_fault_by_address_meets_what_a_client_left_behind() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    let here = "127.0.0.1".parse().unwrap();
    zk.faults().on(op(OpCode::Create).nth(1)).delay_request(secs(1)).unwrap();
    zk.faults().on(op(OpCode::SetData).client(here)).fail(ErrorCode::NoAuth).unwrap();
    peer.send_all([create("/a"), set("/a", "x")]).await;
    zk.idle().await;
    drop(peer);
    zk.advance(secs(1)).await;
    assert_eq!(zk.get("/a").unwrap().text(), "");
}

#[tokio::test]
async fn a_fault_that_is_taken_away_meets_nothing_more() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    let faults = zk.faults();
    let id = faults.on(op(OpCode::GetData)).fail(ErrorCode::NoAuth).unwrap();
    assert_eq!(peer.ask(get("/")).await, "1 NoAuth");
    assert!(faults.remove(id));
    assert!(!faults.remove(id));
    assert_eq!(peer.ask(get("/")).await, "2 ok");
    faults.on(op(OpCode::GetData)).fail(ErrorCode::NoAuth).unwrap();
    faults.clear();
    assert_eq!(peer.ask(get("/")).await, "3 ok");
}

#[tokio::test]
async fn what_a_probability_meets_depends_on_the_seed_alone() {
    async fn met(seed: u64, others: bool) -> Vec<bool> {
        let zk = Zk::start().await;
        let mut peer = zk.peer().await;
        zk.faults().seed(seed);
        zk.faults().on(op(OpCode::GetData).probability(0.3)).fail(ErrorCode::NoAuth).unwrap();
        if others {
            zk.faults().on(request().path("/none").probability(0.5)).reset().unwrap();
        }
        let mut met = Vec::new();
        for _ in 0..100 {
            met.push(peer.ask(get("/")).await.ends_with("NoAuth"));
        }
        met
    }
    let first = met(1, false).await;
    assert_eq!(met(1, false).await, first);
    assert_eq!(met(1, true).await, first);
    assert_ne!(met(2, false).await, first);
    let times = first.iter().filter(|met| **met).count();
    assert!((15..45).contains(&times), "{times} of 100");
}

#[tokio::test]
async fn a_probability_of_none_or_all_leaves_nothing_to_chance() {
    let zk = Zk::start().await;
    let mut peer = zk.peer().await;
    zk.faults().on(op(OpCode::GetData).probability(0.0)).reset().unwrap();
    zk.faults().on(op(OpCode::GetData).probability(1.0)).fail(ErrorCode::NoAuth).unwrap();
    for xid in 1..50 {
        assert_eq!(peer.ask(get("/")).await, format!("{xid} NoAuth"));
    }
}
#[tokio::test]
async fn a_handshake_of_a_session_is_met_by_the_session_it_asks_for() {
    let zk = Zk::start().await;
    let (one, two) = (zk.peer().await, zk.peer().await);
    zk.faults().on(handshake().session(one.session())).drop_request().unwrap();
    drop(zk.again(&two.welcome).await);
    let mut again = zk.raw();
    again.hello(one.session(), &one.welcome.password).await;
    assert_eq!(again.hear().await, "end");
}
