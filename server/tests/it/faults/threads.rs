//! Faults on a runtime of many threads.

use zoolet_proto::OpCode;
use zoolet_server::Server;
use zoolet_server::fault::{Action, op, request};

use crate::common::*;
use crate::faults::story::fault;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn faults_and_looks_and_deeds_from_many_threads_do_not_get_in_each_others_way() {
    let zk = std::sync::Arc::new(Zk::with(Server::builder()).await);
    zk.faults().on(request().probability(0.02)).lose_reply().unwrap();
    zk.faults().on(request().probability(0.02)).reset().unwrap();
    zk.faults().on(op(OpCode::Create).probability(0.1)).delay_reply(millis(1)).unwrap();
    let clients = (0..4).map(|_| {
        let zk = std::sync::Arc::clone(&zk);
        tokio::spawn(async move {
            let mut answered = 0;
            for _ in 0..25 {
                let mut peer = zk.raw();
                let mut heard = peer.open().await;
                while heard == "session" || heard.ends_with("ok") {
                    peer.send(sequential("/s-")).await;
                    heard = peer.hear().await;
                    answered += 1;
                }
            }
            answered
        })
    });
    let clients: Vec<_> = clients.collect();
    let looks = {
        let zk = std::sync::Arc::clone(&zk);
        tokio::spawn(async move {
            for _ in 0..30 {
                let sessions = zk.sessions();
                if let Some(session) = sessions.last() {
                    let _ = zk.freeze(session.id).await;
                    let _ = zk.heal_all().await;
                }
                let _ = (zk.tree(), zk.report(), zk.counters());
            }
            let _ = zk.heal_all().await;
        })
    };
    let _ = looks.await;
    for client in clients {
        assert!(client.await.expect("a client that ends") >= 25);
    }
    zk.idle().await;
    let record = zk.record();
    assert!(record.iter().enumerate().all(|(at, entry)| entry.seq == at as u64));
    let resets = record.iter().filter(|entry| fault(entry) == Some(Action::Reset)).count();
    let lost = record.iter().filter(|entry| fault(entry) == Some(Action::LoseReply)).count();
    assert_eq!(resets + lost, 100, "each connection ended by one of the two");
}
