//! Faults at the requests of a member, and random ones.

use zoolet::testing::request;
use zoolet_test_support::{Dice, secs};

use super::{Member, World};

/// A member joins beside another one and leaves, with a fault at its `nth` request; `false` if there are not so many.
async fn join_and_leave(executed: bool, expires: bool, nth: u64) -> bool {
    let world = World::start().await;
    let one = world.join("a");
    world.settle(&[&one], "alone").await;
    let sessions = world.sessions();
    let id = world.zk.pass_time_until(sessions.client()).await.unwrap().unwrap().session_id();
    let at = world.zk.faults().on(request().session(id).nth(nth));
    match executed {
        true => at.lose_reply().unwrap(),
        false => at.drop_request().unwrap(),
    };
    let fired = || world.zk.faults().fired().iter().any(|entry| entry.event.is_fault());
    let case = format!("executed: {executed}, expires: {expires}, request {nth}");
    let other = world.join_by("b", "b", sessions);
    if expires {
        world.zk.wait_until_idle().await.unwrap();
        if fired() {
            world.zk.expire_session(id).await.unwrap();
        }
    }
    world.settle(&[&one, &other], &case).await;
    assert!(expires || !world.plan.were_shared(), "{case}");
    world.zk.pass_time_until(other.partitioner.leave()).await.unwrap();
    world.settle(&[&one], &case).await;
    fired()
}

#[tokio::test]
async fn a_fault_at_any_request_of_a_member_that_joins_and_leaves_changes_nothing_in_the_end() {
    for (executed, expires) in [(false, false), (true, false), (true, true)] {
        let mut nth = 1;
        while join_and_leave(executed, expires, nth).await {
            nth += 1;
            assert!(nth < 200, "there is no end of requests");
        }
        assert!(nth > 20, "only {nth} requests");
    }
}

#[tokio::test]
async fn members_that_come_leave_expire_and_lose_connections_at_random_end_with_what_belongs_to_them() {
    let schedules = std::env::var("ZOOLET_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(20);
    let first = std::env::var("ZOOLET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + schedules {
        run_schedule(seed).await;
    }
}

async fn run_schedule(seed: u64) {
    let case = format!("ZOOLET_SEED={seed}");
    let mut dice = Dice::new(seed);
    let world = World::start().await;
    let mut absent = vec!["a", "b", "c", "d", "e"];
    let mut members: Vec<Member> = Vec::new();
    for _ in 0..25 {
        match dice.below(6) {
            0 | 1 if !absent.is_empty() => {
                let name = absent.swap_remove(dice.below(absent.len()));
                members.push(world.join(name));
            }
            2 if !members.is_empty() => {
                let member = members.swap_remove(dice.below(members.len()));
                absent.push(member.name);
                drop(member.partitioner);
                // A member that comes again under the name has another session, and waits for this one.
            }
            3 if !members.is_empty() => {
                let client = members[dice.below(members.len())].sessions.client();
                let id = world.zk.pass_time_until(client).await.unwrap().unwrap().session_id();
                // It may be gone already, by the step before.
                let _ = world.zk.expire_session(id).await;
            }
            4 if !members.is_empty() => {
                let client = members[dice.below(members.len())].sessions.client();
                let id = world.zk.pass_time_until(client).await.unwrap().unwrap().session_id();
                let _ = world.zk.disconnect(id).await;
            }
            _ => world.zk.advance(secs(dice.below(3) as u64)).await.unwrap(),
        }
    }
    if members.is_empty() {
        members.push(world.join(absent.remove(0)));
    }
    let members: Vec<_> = members.iter().collect();
    world.settle(&members, &case).await;
}
