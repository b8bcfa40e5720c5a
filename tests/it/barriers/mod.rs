//! Barriers under faults: no client passes too early or waits forever, and nothing is left over.

mod rounds;

use std::sync::Arc;
use std::time::Duration;

use rounds::{PATH, check_rounds, is_clean};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use zoolet::Client;
use zoolet::recipes::{Barrier, BarrierError, BarrierGuard, DoubleBarrier};
use zoolet::testing::request;

use crate::common::{test_ensemble, test_server};
use crate::request_fault::{RunEnd, at_every_request, run_with_fault};

fn wait(client: &Client) -> JoinHandle<Result<(), BarrierError>> {
    let barrier = Barrier::new(client, PATH);
    tokio::spawn(async move { barrier.wait().await })
}

/// Enters with two others, and leaves.
fn round(client: &Client) -> impl Future<Output = Result<(), BarrierError>> + Send + 'static + use<> {
    let barrier = DoubleBarrier::new(client, PATH, 3);
    async move { barrier.enter().await?.leave().await }
}

#[tokio::test]
async fn a_barrier_is_raised_and_lowered_whatever_happens_at_any_request() {
    at_every_request(async |fault, nth| {
        let zk = test_server().start().await.unwrap();
        let (client, other) = (zk.client().await, zk.client().await);
        let barrier = Barrier::new(&client, PATH);
        let both = async move {
            barrier.raise().await?;
            barrier.lower().await
        };
        let end = run_with_fault(&zk, &client, fault, nth, both).await?;
        let case = format!("{fault:?} at request {nth}");
        if let RunEnd::Returned(told) = end {
            told.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(zk.get(PATH), None, "{case}");
        }
        // Whatever was left by a program that is gone, another goes on with it.
        let barrier = Barrier::new(&other, PATH);
        barrier.raise().await.unwrap();
        assert!(zk.get(PATH).is_some(), "{case}");
        barrier.lower().await.unwrap();
        assert_eq!(zk.get(PATH), None, "{case}");
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_lowering_whose_reply_is_lost_spares_a_barrier_raised_later() {
    let zk = test_server().start().await.unwrap();
    let (client, other) = (zk.client().await, zk.client().await);
    let barrier = Barrier::new(&client, PATH);
    barrier.raise().await.unwrap();
    let id = client.session_id();
    // sync and exists come before the delete.
    zk.faults().on(request().session(id).nth(3)).lose_reply().unwrap();
    zk.refuse_connections();
    let lowering = tokio::spawn(async move { barrier.lower().await });
    zk.wait_until_idle().await.unwrap();
    assert_eq!(zk.get(PATH), None);
    Barrier::new(&other, PATH).raise().await.unwrap();
    zk.accept_connections();
    zk.pass_time_until(lowering).await.unwrap().unwrap().unwrap();
    assert!(zk.get(PATH).is_some(), "it is another one");
}

#[tokio::test]
async fn a_waiter_is_released_only_by_the_lowering_whatever_is_lost() {
    for lose in [false, true] {
        for nth in 1.. {
            let zk = test_server().znode(PATH, "").start().await.unwrap();
            let client = zk.client().await;
            let at = zk.faults().on(request().session(client.session_id()).nth(nth));
            if lose { at.lose_reply() } else { at.drop_request() }.unwrap();
            let waiting = wait(&client);
            zk.advance(Duration::from_secs(5)).await.unwrap();
            assert!(!waiting.is_finished(), "request {nth}");
            zk.delete(PATH).await.unwrap();
            zk.pass_time_until(waiting).await.unwrap().unwrap().unwrap();
            assert_eq!(zk.watches(), [], "request {nth}");
            if zk.faults().fired().is_empty() {
                assert!(nth > 2, "{nth}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_is_cut_off_does_not_miss_a_lowering_even_if_the_barrier_is_raised_again() {
    for again in [false, true] {
        let zk = test_server().znode(PATH, "").start().await.unwrap();
        let client = zk.client().await;
        let waiting = wait(&client);
        zk.wait_until_idle().await.unwrap();
        zk.refuse_connections();
        zk.disconnect(client.session_id()).await.unwrap();
        zk.delete(PATH).await.unwrap();
        if again {
            zk.set(PATH, "").await.unwrap();
        }
        zk.accept_connections();
        zk.pass_time_until(waiting).await.unwrap().unwrap().unwrap();
        assert_eq!(zk.watches(), []);
    }
}

#[tokio::test]
async fn a_waiter_at_an_endpoint_that_lags_is_not_released_by_old_state() {
    let zk = test_ensemble(2).znode("/barriers", "").start().await.unwrap();
    let (here, there) = (zk.client_at(0).await, zk.client_at(1).await);
    let late = zk.endpoint(1).unwrap();
    late.lag().await.unwrap();
    Barrier::new(&here, PATH).raise().await.unwrap();
    let waiting = wait(&there);
    zk.wait_until_idle().await.unwrap();
    assert!(!waiting.is_finished(), "there it does not look raised");
    late.catch_up().await.unwrap();
    zk.wait_until_idle().await.unwrap();
    assert!(!waiting.is_finished());
    Barrier::new(&here, PATH).lower().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dropped_wait_leaves_no_watch_whatever_was_in_flight() {
    for nth in 1.. {
        let zk = test_server().znode(PATH, "").start().await.unwrap();
        let client = zk.client().await;
        let at = zk.faults().on(request().session(client.session_id()).nth(nth));
        at.delay_reply(Duration::from_millis(50)).unwrap();
        let waiting = wait(&client);
        zk.wait_until_idle().await.unwrap();
        waiting.abort();
        zk.advance(Duration::from_secs(1)).await.unwrap();
        assert_eq!(zk.watches(), [], "dropped at request {nth}");
        if zk.faults().fired().is_empty() {
            assert!(nth > 2, "{nth}");
            return;
        }
    }
}

#[tokio::test]
async fn a_waiter_whose_session_expires_gets_an_error() {
    let zk = test_server().znode("/barrier", "").start().await.unwrap();
    let client = zk.client().await;
    let barrier = Barrier::new(&client, "/barrier");
    let waiting = tokio::spawn(async move { barrier.wait().await });
    let entering = tokio::spawn(round(&client));
    zk.wait_until_idle().await.unwrap();
    assert_eq!(zk.children(PATH).len(), 1);
    zk.expire_session(client.session_id()).await.unwrap();
    for told in [waiting, entering] {
        let told = told.await.unwrap();
        assert!(matches!(told, Err(BarrierError::SessionOver { .. })), "{told:?}");
    }
    is_clean(&zk, "");
}

#[tokio::test]
async fn three_pass_whatever_happens_to_one_of_them_at_any_of_its_requests() {
    // First, second or last to come: what it has to ask differs.
    for before in 0..3 {
        let requests = at_every_request(async |fault, nth| {
            let zk = test_server().start().await.unwrap();
            let client = zk.client().await;
            let others = [zk.client().await, zk.client().await];
            let mut rounds = Vec::new();
            for other in &others[..before] {
                rounds.push(tokio::spawn(round(other)));
                zk.wait_until_idle().await.unwrap();
            }
            // The rest come when it has come as far as it does.
            let rest: Vec<_> = others[before..].iter().map(round).collect();
            let come = Arc::new(Notify::new());
            let came = Arc::clone(&come);
            let running = run_with_fault(&zk, &client, fault, nth, round(&client));
            rounds.push(tokio::spawn(async move {
                came.notified().await;
                for round in rest.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
                    round.await.unwrap()?;
                }
                Ok(())
            }));
            if fault.is_survived() {
                come.notify_one();
            }
            let end = running.await?;
            let case = format!("{fault:?} at request {nth}, {before} before it");
            match end {
                RunEnd::Returned(told) => told.unwrap_or_else(|error| panic!("{case}: {error}")),
                RunEnd::Unknown => {
                    zk.advance(Duration::from_secs(30)).await.unwrap();
                    come.notify_one();
                    zk.wait_until_idle().await.unwrap();
                    if rounds.iter().any(|round| !round.is_finished()) {
                        // Another in its place.
                        assert!(zk.get(&format!("{PATH}/ready")).is_none(), "{case}: two are not three");
                        rounds.push(tokio::spawn(round(&zk.client().await)));
                    }
                }
            }
            for round in rounds {
                let passed = zk.pass_time_until(round).await.unwrap().unwrap();
                passed.unwrap_or_else(|error| panic!("{case}: {error}"));
            }
            zk.advance(Duration::from_secs(30)).await.unwrap();
            check_rounds(&zk, 3, &case);
            is_clean(&zk, &case);
            Some(())
        })
        .await;
        assert!(requests >= 5, "{requests}");
    }
}

fn enter(client: &Client) -> JoinHandle<Result<BarrierGuard, BarrierError>> {
    let barrier = DoubleBarrier::new(client, PATH, 2);
    tokio::spawn(async move { barrier.enter().await })
}

#[tokio::test]
async fn a_member_that_joins_just_after_a_round_began_is_not_in_it() {
    let zk = test_server().znode(PATH, "").start().await.unwrap();
    let [late, b, c, d] = [zk.client().await, zk.client().await, zk.client().await, zk.client().await];
    // It has seen no sign of a round, and its create is in flight.
    let create = zk.faults().on(request().session(late.session_id()).nth(2));
    create.delay_request(Duration::from_millis(50)).unwrap();
    let joining = enter(&late);
    zk.wait_until_idle().await.unwrap();
    let (b, c) = (enter(&b), enter(&c));
    let (b, c) = (b.await.unwrap().unwrap(), c.await.unwrap().unwrap());
    zk.advance(Duration::from_millis(100)).await.unwrap();
    assert_eq!(zk.faults().fired().len(), 1);
    assert!(!joining.is_finished(), "it is not one of the two");
    assert_eq!(zk.children(PATH).len(), 3, "and no other client waits for it");

    let (b, c) = (tokio::spawn(b.leave()), tokio::spawn(c.leave()));
    b.await.unwrap().unwrap();
    c.await.unwrap().unwrap();
    zk.wait_until_idle().await.unwrap();
    assert!(!joining.is_finished(), "it is alone");
    let d = enter(&d);
    drop((joining.await.unwrap().unwrap(), d.await.unwrap().unwrap()));
    zk.wait_until_idle().await.unwrap();
    is_clean(&zk, "");
}

#[tokio::test]
async fn a_round_does_not_begin_with_a_member_that_is_gone_by_then() {
    let zk = test_server().znode(PATH, "").start().await.unwrap();
    let [gone, b, c] = [zk.client().await, zk.client().await, zk.client().await];
    let waiting = enter(&gone);
    zk.wait_until_idle().await.unwrap();
    // exists, create, exists and the list, which shows two; the data; and what is to begin the round.
    let multi = zk.faults().on(request().session(b.session_id()).nth(6));
    multi.delay_request(Duration::from_millis(50)).unwrap();
    let entering = enter(&b);
    zk.wait_until_idle().await.unwrap();
    zk.expire_session(gone.session_id()).await.unwrap();
    assert!(waiting.await.unwrap().is_err());
    zk.advance(Duration::from_secs(1)).await.unwrap();
    assert_eq!(zk.faults().fired().len(), 2, "the fault and the expiry");
    assert!(!entering.is_finished(), "it is alone");
    let c = enter(&c);
    drop((entering.await.unwrap().unwrap(), c.await.unwrap().unwrap()));
    zk.wait_until_idle().await.unwrap();
    check_rounds(&zk, 2, "");
    is_clean(&zk, "");
}

#[tokio::test]
async fn a_dropped_enter_or_leave_leaves_no_znode_and_no_watch_whatever_was_in_flight() {
    for before in 0..3 {
        for nth in 1.. {
            let zk = test_server().start().await.unwrap();
            let client = zk.client().await;
            let others = [zk.client().await, zk.client().await];
            let mut rounds = Vec::new();
            for other in &others[..before] {
                rounds.push(tokio::spawn(round(other)));
                zk.wait_until_idle().await.unwrap();
            }
            let at = zk.faults().on(request().session(client.session_id()).nth(nth));
            at.delay_reply(Duration::from_millis(50)).unwrap();
            let dropped = tokio::spawn(round(&client));
            zk.wait_until_idle().await.unwrap();
            dropped.abort();
            zk.advance(Duration::from_secs(1)).await.unwrap();
            let happened = !zk.faults().fired().is_empty();
            // A client that still waits is released by others; one that has passed needs no other.
            for other in &others[before..] {
                rounds.push(tokio::spawn(round(other)));
                zk.wait_until_idle().await.unwrap();
            }
            if rounds.iter().any(|round| !round.is_finished()) {
                rounds.push(tokio::spawn(round(&zk.client().await)));
            }
            let case = format!("dropped at request {nth}, {before} before it");
            for round in rounds {
                zk.pass_time_until(round).await.unwrap().unwrap().unwrap();
            }
            zk.wait_until_idle().await.unwrap();
            check_rounds(&zk, 3, &case);
            is_clean(&zk, &case);
            if !happened {
                assert!(nth > 4, "{nth}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn the_first_member_sends_five_requests_to_enter_and_is_notified_of_the_rest() {
    let zk = test_server().znode(PATH, "").start().await.unwrap();
    let clients = [zk.client().await, zk.client().await, zk.client().await];
    let asked = |client: &Client| {
        let requests = zk.requests(client.session_id());
        requests.iter().map(|entry| entry.event.to_string()).collect::<Vec<_>>()
    };
    let mut entering = Vec::new();
    for client in &clients {
        let barrier = DoubleBarrier::new(client, PATH, 3);
        entering.push(tokio::spawn(async move { barrier.enter().await }));
        zk.wait_until_idle().await.unwrap();
    }
    // exists, create, the sign and its own znode with their watches, the list; and after the event, its own znode and the
    // sign, and a watch is taken back.
    assert_eq!(asked(&clients[0]).len(), 5 + 3, "{:#?}", asked(&clients[0]));
    // That and a second look of three, with the data and the multi in between, and three watches that it does not need.
    assert_eq!(asked(&clients[2]).len(), 5 + 2 + 3 + 3, "{:#?}", asked(&clients[2]));
    for entering in entering {
        drop(entering.await.unwrap().unwrap());
    }
    zk.wait_until_idle().await.unwrap();
    is_clean(&zk, "");
}
