//! Znodes that the server itself deletes or writes: containers, TTL znodes, quota statistics.

use zoolet_proto::{ErrorCode, Request};
use zoolet_server_core::{ConnId, EXPIRED_AT_ONCE, Millis, StateMachine};

use crate::common::*;

const SWEEP: i64 = 60_000;

/// TTLs are enabled; the session has a long timeout.
fn world() -> (World, ConnId) {
    let mut world = World::with(|config| {
        config.extended_types = true;
        config.min_session_timeout = Some(i32::MAX);
        config.max_session_timeout = Some(i32::MAX);
    });
    let a = world.connect();
    (world, a)
}

fn is_there(world: &World, path: &str) -> bool {
    world.core.tree().get(path).is_some()
}

#[test]
fn a_container_goes_at_the_sweep_after_its_last_child() {
    let (mut world, a) = world();
    world.ok(a, container("/c"));
    world.znodes(a, &["/c/x", "/c/y"]);
    let before = world.zxid();
    world.advance(SWEEP);
    assert_eq!(world.zxid(), before, "with children it is not even tried");
    world.ok(a, delete("/c/x"));
    world.advance(SWEEP);
    assert!(is_there(&world, "/c"), "it has a child");
    world.ok(a, delete("/c/y"));
    world.advance(SWEEP - 1);
    assert!(is_there(&world, "/c"), "no sweep yet");
    world.advance(1);
    assert!(!is_there(&world, "/c"));
}

#[test]
fn a_container_that_never_had_a_child_stays_unless_configured_otherwise() {
    let (mut world, a) = world();
    world.ok(a, container("/c"));
    world.advance(100 * SWEEP);
    assert!(is_there(&world, "/c"));

    let mut world = World::with(|config| {
        config.container_max_never_used = Some(SWEEP);
        config.min_session_timeout = Some(i32::MAX);
        config.max_session_timeout = Some(i32::MAX);
    });
    let a = world.connect();
    world.ok(a, container("/c"));
    world.advance(SWEEP);
    assert!(is_there(&world, "/c"), "not older than the limit");
    world.advance(SWEEP);
    assert!(!is_there(&world, "/c"));
}

#[test]
fn the_end_of_a_session_may_take_the_last_child_of_a_container() {
    let (mut world, a) = world();
    let b = world.connect();
    world.ok(a, container("/c"));
    world.ok(b, ephemeral("/c/e"));
    world.expire(world.session(b));
    world.advance(SWEEP);
    assert!(!is_there(&world, "/c"));
}

#[test]
fn each_expired_znode_takes_a_zxid_and_triggers_watches_like_any_deletion() {
    let (mut world, a) = world();
    for path in ["/c1", "/c2"] {
        world.ok(a, container(path));
        world.znodes(a, &[&format!("{path}/x")]);
        world.ok(a, delete(&format!("{path}/x")));
    }
    world.ok(a, exists("/c1").watch());
    world.ok(a, get_children("/").watch());
    let before = world.zxid();
    world.advance(2 * SWEEP);
    assert_eq!(world.zxid(), before + 2);
    assert_eq!(world.events(a), ["deleted /c1", "children /"]);
    assert_eq!(world.ok(a, get_children("/")).names(), ["zookeeper"]);
}

#[test]
fn sweeping_is_slowed_down_to_so_many_a_minute() {
    let mut world = World::with(|config| {
        config.container_max_per_minute = 60;
        config.min_session_timeout = Some(i32::MAX);
        config.max_session_timeout = Some(i32::MAX);
    });
    let a = world.connect();
    for n in 0..5 {
        let path = format!("/c{n}");
        world.ok(a, container(&path));
        world.znodes(a, &[&format!("{path}/x")]);
        world.ok(a, delete(&format!("{path}/x")));
    }
    world.advance(SWEEP);
    let mut left = vec![world.core.tree().len() - 4];
    for _ in 0..5 {
        world.advance(1_000);
        left.push(world.core.tree().len() - 4);
    }
    assert_eq!(left, [4, 3, 2, 1, 0, 0]);
}

#[test]
fn many_containers_and_ttl_znodes_are_looked_at_in_several_calls() {
    let mut world = World::with(|config| {
        config.extended_types = true;
        config.min_session_timeout = Some(i32::MAX);
        config.max_session_timeout = Some(i32::MAX);
        config.container_max_per_minute = 60_000;
        config.container_max_never_used = Some(1);
    });
    let a = world.connect();
    world.ok(a, multi((0..6_000).map(|n| container(&format!("/c{n}")))));
    world.ok(a, multi((0..6_000).map(|n| create_ttl(&format!("/t{n}"), 5, 1))));
    assert_eq!(world.advance_in_parts(SWEEP), 3);
    world.advance(SWEEP / 2);
    assert_eq!(world.core.tree().len(), 4);
}

#[test]
fn one_call_deletes_a_bounded_number_of_containers_however_many_are_due() {
    for (max_per_minute, stall) in [(i64::MAX, 0), (10_000, 60 * SWEEP)] {
        let mut world = World::with(|config| {
            config.container_max_per_minute = max_per_minute;
            config.container_max_never_used = Some(1);
            config.min_session_timeout = Some(i32::MAX);
            config.max_session_timeout = Some(i32::MAX);
        });
        let a = world.connect();
        world.ok(a, multi((0..4_000).map(|n| container(&format!("/c{n}")))));
        let mut left = Vec::new();
        let mut now = Millis(world.now() + SWEEP);
        while left.last() != Some(&0) {
            world.core.handle_timeout(now);
            left.push(world.core.tree().len() - 4);
            assert!(world.core.next_timeout() <= now || left.len() == 1 || left.last() == Some(&0));
            now = now.plus(if left.len() == 1 { stall } else { 0 });
        }
        let at_once = left.windows(2).map(|two| two[0] - two[1]).max();
        assert_eq!(at_once, Some(EXPIRED_AT_ONCE), "{left:?} of so many a minute: {max_per_minute}");
    }
}

/// Two containers that are found to be empty, of which the second is deleted a second after the first.
fn second_of_two_candidates() -> (World, ConnId) {
    let mut world = World::with(|config| {
        config.container_max_per_minute = 60;
        config.min_session_timeout = Some(i32::MAX);
        config.max_session_timeout = Some(i32::MAX);
        config.extended_types = true;
    });
    let a = world.connect();
    for path in ["/c1", "/c2"] {
        world.ok(a, container(path));
        world.znodes(a, &[&format!("{path}/x")]);
        world.ok(a, delete(&format!("{path}/x")));
    }
    world.advance(SWEEP);
    assert!(!is_there(&world, "/c1") && is_there(&world, "/c2"));
    (world, a)
}

#[test]
fn a_candidate_that_got_a_child_meanwhile_is_left_alone_for_a_zxid() {
    let (mut world, a) = second_of_two_candidates();
    world.znodes(a, &["/c2/again"]);
    let before = world.zxid();
    world.advance(1_000);
    assert!(is_there(&world, "/c2"));
    assert_eq!(world.zxid(), before + 1);
}

#[test]
fn a_candidate_that_was_created_again_meanwhile_as_a_znode_that_is_to_stay_stays() {
    for again in [create("/c2"), create_ttl("/c2", 5, 10 * SWEEP)] {
        let (mut world, a) = second_of_two_candidates();
        world.ok(a, delete("/c2"));
        world.ok(a, again);
        let before = world.zxid();
        world.advance(1_000);
        assert!(is_there(&world, "/c2"));
        assert_eq!(world.zxid(), before);
    }
}

#[test]
fn a_ttl_znode_goes_when_its_time_since_the_last_set_is_over() {
    let (mut world, a) = world();
    world.ok(a, create_ttl("/t", 5, SWEEP));
    world.advance(SWEEP);
    assert!(is_there(&world, "/t"), "its time is not over but just up");
    world.ok(a, set_data("/t", "x"));
    world.advance(SWEEP);
    assert!(is_there(&world, "/t"), "a set begins its time anew");
    world.advance(SWEEP);
    assert!(!is_there(&world, "/t"));
}

#[test]
fn a_ttl_znode_with_a_child_stays_and_children_do_not_renew_it() {
    let (mut world, a) = world();
    world.ok(a, create_ttl("/t", 5, 1));
    world.znodes(a, &["/t/x"]);
    let before = world.zxid();
    world.advance(5 * SWEEP);
    assert!(is_there(&world, "/t"));
    assert_eq!(world.zxid(), before, "it is not even tried");
    world.ok(a, delete("/t/x"));
    world.advance(SWEEP);
    assert!(!is_there(&world, "/t"));
}

#[test]
fn containers_and_ttl_znodes_may_have_ephemeral_children() {
    let (mut world, a) = world();
    world.ok(a, container("/c"));
    world.ok(a, create_ttl("/t", 5, 1000));
    world.ok(a, ephemeral("/c/e"));
    world.ok(a, ephemeral("/t/e"));
}

/// A quota of `/q`, with these limits.
fn quota(world: &mut World, conn: ConnId, limits: &str) {
    world.znodes(conn, &["/zookeeper/quota/q"]);
    world.ok(conn, create("/zookeeper/quota/q/zookeeper_limits").data(limits));
    world.znodes(conn, &["/zookeeper/quota/q/zookeeper_stats"]);
}

fn stats(world: &mut World, conn: ConnId, top: &str) -> String {
    let data = world.ok(conn, get_data(&format!("/zookeeper/quota{top}/zookeeper_stats"))).data();
    String::from_utf8(data.expect("statistics").to_vec()).expect("text")
}

#[test]
fn the_statistics_of_a_quota_are_counted_when_they_are_created_and_kept_from_then_on() {
    let (mut world, a) = world();
    world.ok(a, create("/q").data("12"));
    world.ok(a, create("/q/a").data("345"));
    quota(&mut world, a, "count=5,bytes=-1");
    assert_eq!(stats(&mut world, a, "/q"), "count=2,bytes=5");
    world.ok(a, create("/q/b").data("x"));
    world.ok(a, set_data("/q/a", "longer"));
    assert_eq!(stats(&mut world, a, "/q"), "count=3,bytes=9");
    world.ok(a, delete("/q/a"));
    world.znodes(a, &["/qq", "/other"]);
    assert_eq!(stats(&mut world, a, "/q"), "count=2,bytes=3");
}

#[test]
fn counting_changes_only_data_and_triggers_no_watch() {
    let (mut world, a) = world();
    world.znodes(a, &["/q"]);
    quota(&mut world, a, "count=5,bytes=-1");
    let path = "/zookeeper/quota/q/zookeeper_stats";
    let before = world.stat(a, path);
    world.ok(a, get_data(path).watch());
    world.ok(a, create("/q/a").data("0123456789"));
    let after = world.stat(a, path);
    assert_eq!(world.events(a), [] as [String; 0]);
    assert_eq!(zoolet_proto::Stat { data_length: before.data_length, ..after }, before);
    assert_eq!(after.data_length, 16);
}

#[test]
fn only_the_deepest_quota_counts() {
    let (mut world, a) = world();
    world.znodes(a, &["/q", "/q/in"]);
    quota(&mut world, a, "count=5,bytes=-1");
    world.znodes(a, &["/zookeeper/quota/q/in"]);
    world.znodes(a, &["/zookeeper/quota/q/in/zookeeper_limits", "/zookeeper/quota/q/in/zookeeper_stats"]);
    world.znodes(a, &["/q/in/a", "/q/b"]);
    assert_eq!(stats(&mut world, a, "/q"), "count=3,bytes=0");
    assert_eq!(stats(&mut world, a, "/q/in"), "count=2,bytes=0");
}

#[test]
fn without_limits_the_statistics_do_not_change() {
    let (mut world, a) = world();
    world.znodes(a, &["/q"]);
    quota(&mut world, a, "count=5,bytes=-1");
    world.ok(a, delete("/zookeeper/quota/q/zookeeper_limits"));
    world.znodes(a, &["/q/a"]);
    assert_eq!(stats(&mut world, a, "/q"), "count=1,bytes=0");
}

#[test]
fn a_quota_refuses_nothing_unless_enforced() {
    let (mut world, a) = world();
    world.znodes(a, &["/q"]);
    quota(&mut world, a, "count=1,bytes=1=;byteHardLimit=1;countHardLimit=1");
    world.ok(a, create("/q/a").data("far too long"));
}

fn enforcing() -> (World, ConnId) {
    let mut world = World::with(|config| config.enforce_quota = true);
    let a = world.connect();
    world.znodes(a, &["/q"]);
    (world, a)
}

#[test]
fn an_enforced_hard_limit_may_be_reached_and_not_passed() {
    let (mut world, a) = enforcing();
    quota(&mut world, a, "count=1,bytes=1=;byteHardLimit=4;countHardLimit=3");
    world.ok(a, create("/q/a").data("12"));
    assert_eq!(world.refusal(a, create("/q/b").data("345")), ErrorCode::QuotaExceeded);
    world.ok(a, create("/q/b").data("34"));
    assert_eq!(world.refusal(a, create("/q/c")), ErrorCode::QuotaExceeded);
    assert_eq!(world.refusal(a, set_data("/q/a", "123")), ErrorCode::QuotaExceeded);
    world.ok(a, set_data("/q/a", "1"));
    world.ok(a, set_data("/q/b", "345"));
    world.ok(a, delete("/q/a"));
    world.ok(a, create("/q/c"));
}

#[test]
fn limits_without_statistics_refuse_nothing() {
    let (mut world, a) = enforcing();
    quota(&mut world, a, "count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0");
    assert_eq!(world.refusal(a, create("/q/a")), ErrorCode::QuotaExceeded);
    world.ok(a, delete("/zookeeper/quota/q/zookeeper_stats"));
    world.ok(a, create("/q/a").data("x"));
}

#[test]
fn soft_limits_refuse_nothing() {
    let (mut world, a) = enforcing();
    quota(&mut world, a, "count=1,bytes=1=;byteHardLimit=-1;countHardLimit=-1");
    world.ok(a, create("/q/a").data("far too long"));
}

#[test]
fn a_quota_is_checked_after_existence_and_before_the_version() {
    let (mut world, a) = enforcing();
    world.ok(a, ephemeral("/q/e"));
    quota(&mut world, a, "count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=1");
    assert_eq!(world.refusal(a, create("/q/e")), ErrorCode::NodeExists);
    assert_eq!(world.refusal(a, create("/q/e/x")), ErrorCode::NoChildrenForEphemerals);
    assert_eq!(world.refusal(a, set_data("/q", "xx").version(9)), ErrorCode::QuotaExceeded);
    assert_eq!(world.refusal(a, set_data("/q", "").version(9)), ErrorCode::BadVersion);
}

#[test]
fn sessions_end_in_a_quota_too() {
    let (mut world, a) = world();
    let b = world.connect();
    world.znodes(a, &["/q"]);
    quota(&mut world, a, "count=5,bytes=-1");
    world.ok(b, ephemeral("/q/e"));
    assert_eq!(stats(&mut world, a, "/q"), "count=2,bytes=0");
    world.ok(b, Request::CloseSession);
    assert_eq!(stats(&mut world, a, "/q"), "count=1,bytes=0");
}
