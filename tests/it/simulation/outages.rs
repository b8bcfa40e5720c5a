//! One outage at a time: what becomes of a session and of a lock.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use zoolet::server::TxnOp;
use zoolet::{HoldState, Lock, LockError, LostReason, SessionState};

use crate::simulation::audit::time_of;
use crate::simulation::contender::{COUNTER, DIR};
use crate::simulation::world::{SERVER, TICK, TIMEOUT, World, now};

#[test]
fn a_holder_that_is_cut_off_learns_it_by_its_lease_and_then_the_next_one_gets_the_lock() {
    let mut world = World::new(1);
    let (learnt, held) = (Rc::new(Cell::new(Duration::ZERO)), Rc::new(Cell::new(None)));

    let (site, told, of) = (world.site.clone(), Rc::clone(&learnt), Rc::clone(&held));
    world.sim.client("holder", async move {
        let zk = site.connect(1, 0).await?;
        let guard = Lock::new(&zk, DIR).acquire().await?;
        of.set(Some((guard.session_id(), guard.token())));
        while site.server().children(DIR).len() < 2 {
            sleep(TICK).await;
        }
        turmoil::partition("holder", SERVER);
        let lease_end = now() + guard.lease_left();
        assert_eq!(guard.lost().await, LostReason::LeaseElapsed);
        assert!(now() <= lease_end, "learnt at {:?}, held until {lease_end:?}", now());
        told.set(now());

        sleep(2 * TIMEOUT).await;
        turmoil::repair("holder", SERVER);
        assert_eq!(zk.ended().await, SessionState::Expired);
        let late = guard.fenced().set_data(COUNTER, "1 1").commit().await;
        assert!(matches!(late, Err(LockError::NotHeld { .. })), "{late:?}");
        Ok(())
    });

    let site = world.site.clone();
    world.sim.client("next", async move {
        let zk = site.connect(2, 0).await?;
        sleep(TICK).await;
        let guard = Lock::new(&zk, DIR).acquire().await?;
        let (session, token) = held.get().ok_or("the holder came first")?;
        assert!(guard.token() > token);

        let ends = |op: &TxnOp| matches!(op, TxnOp::CloseSession { ephemerals } if ephemerals.len() == 1);
        let mut txns = site.server().transactions().into_iter();
        let expiry = txns.find(|txn| txn.session == session && ends(&txn.op));
        let expiry = time_of(&expiry.ok_or("the session takes its znode with it")?);
        let (learnt, got) = (learnt.get(), now());
        assert!(learnt > Duration::ZERO && learnt < expiry, "learnt at {learnt:?}, gone at {expiry:?}");
        assert!(expiry < got && got < expiry + TICK, "gone at {expiry:?}, had by the next at {got:?}");
        Ok(())
    });
    world.run(|_, _| {});
}

#[test]
fn a_link_that_stalls_for_less_than_the_lease_costs_no_lock() {
    let mut world = World::new(1);
    let site = world.site.clone();
    world.sim.client("holder", async move {
        let zk = site.connect(1, 0).await?;
        let guard = Lock::new(&zk, DIR).acquire().await?;
        for _ in 0..10 {
            turmoil::hold("holder", SERVER);
            sleep(TIMEOUT / 2).await;
            turmoil::release("holder", SERVER);
            sleep(TIMEOUT / 2).await;
            assert_eq!(guard.state(), HoldState::Held);
        }
        guard.verify().await?;
        Ok(())
    });
    world.run(|_, _| {});
}

#[test]
fn a_waiter_that_was_cut_off_when_the_lock_came_free_gets_it_once_it_is_back() {
    let mut world = World::new(1);
    let site = world.site.clone();
    world.sim.client("holder", async move {
        let zk = site.connect(1, 0).await?;
        let guard = Lock::new(&zk, DIR).acquire().await?;
        while site.server().watches().is_empty() {
            sleep(TICK).await;
        }
        sleep(TICK).await;
        turmoil::partition("waiter", SERVER);
        guard.release().await?;
        sleep(TIMEOUT / 2).await;
        turmoil::repair("waiter", SERVER);
        Ok(())
    });
    let site = world.site.clone();
    world.sim.client("waiter", async move {
        let zk = site.connect(2, 0).await?;
        let session = zk.session_id();
        sleep(TICK).await;
        let guard = Lock::new(&zk, DIR).acquire().timeout(2 * TIMEOUT).await?;
        assert_eq!(guard.session_id(), session);
        assert_eq!(site.server().children(DIR).len(), 1, "it waited in its place");
        Ok(())
    });
    world.run(|_, _| {});
}

#[test]
fn clients_of_a_server_that_restarts_empty_are_told_at_once_and_tokens_go_on_rising() {
    let mut world = World::new(1);
    let site = world.site.clone();
    let back = TIMEOUT + TICK;
    world.sim.client("client", async move {
        let old = site.connect(1, 0).await?;
        let token = Lock::new(&old, DIR).acquire().await?.token();
        old.create("/kept", "").await?;
        assert_eq!(old.ended().await, SessionState::Expired);
        assert!(back < now() && now() < back + TIMEOUT + Duration::from_secs(1), "told at {:?}", now());

        let new = site.connect(1, 1).await?;
        assert_ne!(new.session_id(), old.session_id());
        assert_eq!(new.exists("/kept").await?, None);
        assert!(Lock::new(&new, DIR).acquire().await?.token() > token);
        Ok(())
    });
    world.run(|sim, _| {
        if sim.elapsed() == TIMEOUT {
            sim.partition("client", SERVER);
            sim.crash(SERVER);
        }
        if sim.elapsed() == back {
            sim.repair("client", SERVER);
            sim.bounce(SERVER);
        }
    });
    assert_eq!(world.site.lives().len(), 2);
}
