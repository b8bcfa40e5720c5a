//! A fault at every request of a candidate.

use zoolet::Sessions;
use zoolet::testing::{handshake, request};

use super::{World, session_of};
use crate::request_fault::{REQUEST_FAULTS, RequestFault};

/// How often each candidate leads. The second candidacy begins while the other one leads.
const TURNS: usize = 2;

/// Runs two candidates, with a fault at the `nth` request of the first; `false` if there are not so many.
async fn run_two(fault: RequestFault, nth: u64) -> bool {
    let world = World::start().await;
    let (one, other) = (world.sessions(), world.sessions());
    let id = world.time(session_of(&one)).await;
    let at = world.zk.faults().on(request().session(id).nth(nth));
    match fault {
        RequestFault::DropRequest => at.drop_request(),
        RequestFault::LoseReply | RequestFault::ExpireAfter | RequestFault::CrashAfter => at.lose_reply(),
        RequestFault::CutReply => at.cut_reply(7),
        RequestFault::ExpireBefore | RequestFault::CrashBefore => at.freeze(),
    }
    .unwrap();
    if !fault.is_survived() {
        world.zk.faults().on(handshake().session(id)).freeze().unwrap();
    }
    let case = format!("{fault:?} at request {nth}");
    let first = world.candidate(&one, "one", TURNS);
    let second = world.candidate(&other, "other", TURNS);
    let mut crashed = None;
    let fired = || world.zk.faults().fired().iter().any(|entry| entry.event.is_fault());
    if !fault.is_survived() {
        while !(fired() || first.is_finished() && second.is_finished()) {
            world.zk.wait_until_idle().await.unwrap();
            world.zk.advance_to_next_timeout().await.unwrap();
        }
        if fired() {
            crashed = end_session(&world, fault, id, &one).await;
        }
    }
    if crashed.is_some() {
        first.abort();
    } else {
        let token = world.time(first).await.unwrap();
        let token = token.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(world.log.tokens("one").last(), Some(&token), "{case}");
    }
    let token = world.time(second).await.unwrap().unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(world.log.tokens("other").last(), Some(&token), "{case}");
    world.log.check(fault.is_survived(), &case);
    assert_eq!(world.log.running(), Vec::<&str>::new(), "{case}");
    world.check_empty(&case).await;
    fired()
}

/// Ends a session whose client does not know. `Some` if its program has crashed, and its session is left.
async fn end_session(
    world: &World,
    fault: RequestFault,
    id: zoolet::SessionId,
    sessions: &Sessions,
) -> Option<()> {
    if matches!(fault, RequestFault::CrashBefore | RequestFault::CrashAfter) {
        return Some(());
    }
    world.zk.faults().clear();
    world.zk.expire_session(id).await.unwrap();
    world.zk.unfreeze_all().await.unwrap();
    assert_ne!(world.time(session_of(sessions)).await, zoolet::SessionId(0));
    None
}

/// Each fault at the first request, the second and so on, until there are not so many.
async fn at_every_request_of_a_candidate(is_survived: bool) {
    for fault in REQUEST_FAULTS.into_iter().filter(|fault| fault.is_survived() == is_survived) {
        let mut nth = 1;
        while run_two(fault, nth).await {
            nth += 1;
            assert!(nth < 100, "there is no end of requests");
        }
        assert!(nth > 8, "{fault:?}: only {nth} requests");
    }
}

#[tokio::test]
async fn a_lost_request_or_reply_never_makes_two_leaders_or_stops_the_election() {
    at_every_request_of_a_candidate(true).await;
}

#[tokio::test]
async fn a_candidate_whose_session_expires_or_that_crashes_at_any_request_is_followed_by_the_next() {
    at_every_request_of_a_candidate(false).await;
}
