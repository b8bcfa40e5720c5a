//! Hostile inputs: the ones that crash a real server, and others that must be harmless.

use std::collections::HashMap;

use zoolet_proto::records::Create;
use zoolet_proto::{Acl, ErrorCode, OpCode, Perms, Request, Xid};
use zoolet_server_core::{ConnId, StateMachine, TxnOp};

use crate::common::*;

fn world() -> (World, ConnId) {
    let mut world = World::new();
    let a = world.connect();
    (world, a)
}

#[test]
fn a_ttl_create_without_a_ttl_is_refused_where_a_real_server_dies() {
    let (mut world, a) = world();
    for flags in 0..=4 {
        for ttl in [-1, i64::MIN] {
            assert_eq!(world.refusal(a, create_ttl("/t", flags, ttl)), ErrorCode::BadArguments);
        }
    }
    world.ok(a, exists("/"));
}

#[test]
fn limits_of_the_root_are_an_ordinary_znode() {
    let (mut world, a) = world();
    world.znodes(a, &["/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/zookeeper_stats", "/a"]);
    let stats = world.ok(a, get_data("/zookeeper/quota/zookeeper_stats"));
    assert_eq!(stats.data().as_deref(), Some(&b""[..]));
    world.ok(a, delete("/zookeeper/quota/zookeeper_limits"));
}

#[test]
fn limits_outside_of_the_quotas_are_an_ordinary_znode() {
    let (mut world, a) = world();
    world.znodes(a, &["/zookeeper/zookeeper_limits", "/zookeeper_limits", "/a"]);
    world.ok(a, delete("/zookeeper/zookeeper_limits"));
    world.ok(a, delete("/zookeeper_limits"));
}

#[test]
fn garbage_in_quota_statistics_is_counted_anew() {
    let (mut world, a) = world();
    world.znodes(a, &["/q", "/q/a", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits"]);
    world.znodes(a, &["/zookeeper/quota/q/zookeeper_stats"]);
    let long = format!("count=7,bytes=1,{}", "a=,".repeat(400));
    for garbage in ["", "garbage", "count=x,bytes=1", "\u{0}", &long] {
        world.ok(a, set_data("/zookeeper/quota/q/zookeeper_stats", garbage));
        world.ok(a, set_data("/q/a", "four"));
        let stats = world.ok(a, get_data("/zookeeper/quota/q/zookeeper_stats"));
        assert_eq!(stats.data().as_deref(), Some(&b"count=2,bytes=4"[..]), "{garbage:?}");
    }
}

#[test]
fn statistics_that_a_multi_overwrites_repeatedly_are_right_after_it() {
    const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";
    let (mut world, a) = world();
    world.znodes(a, &["/q", "/q/a", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits", STATS]);
    let usage = |world: &mut World| {
        let data = world.ok(a, get_data(STATS)).data().expect("statistics");
        String::from_utf8_lossy(&data).into_owned()
    };
    let garbage = || [set_data(STATS, "garbage"), set_data("/q/a", "four"), set_data("/q", "ab")];
    world.ok(a, multi(garbage().into_iter().chain(garbage()).chain([create("/q/b")])));
    assert_eq!(usage(&mut world), "count=3,bytes=6");
    let numbers = [set_data(STATS, "count=7,bytes=70"), set_data("/q/a", "seven"), create("/q/c")];
    world.ok(a, multi(garbage().into_iter().chain(numbers)));
    assert_eq!(usage(&mut world), "count=8,bytes=71", "counted on from what the client wrote last");
    let anew = [delete(STATS), create(STATS), set_data("/q/a", ""), delete("/q/b")];
    world.ok(a, multi(anew));
    assert_eq!(usage(&mut world), "count=3,bytes=2", "/q, /q/a and /q/c");
}

#[test]
fn the_quota_of_the_system_znode_counts_its_own_statistics_once() {
    const STATS: &str = "/zookeeper/quota/zookeeper/zookeeper_stats";
    let (mut world, a) = world();
    world.znodes(a, &["/zookeeper/quota/zookeeper", "/zookeeper/quota/zookeeper/zookeeper_limits", STATS]);
    world.znodes(a, &["/zookeeper/a", "/zookeeper/quotaq", "/zookeeper/quotaq/zookeeper_limits"]);
    let stats = world.ok(a, get_data(STATS)).data().expect("statistics");
    let usage = String::from_utf8_lossy(&stats);
    assert!(
        usage.starts_with("count=9,bytes="),
        "four of the system, its quota and two below, three more: {usage}"
    );
    world.ok(a, create("/q"));
    world.ok(a, delete("/zookeeper/quotaq/zookeeper_limits"));
}

#[test]
fn of_quota_statistics_the_first_numbers_count_and_do_not_overflow() {
    let (mut world, a) = world();
    world.znodes(a, &["/q", "/q/a", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits"]);
    world.znodes(a, &["/zookeeper/quota/q/zookeeper_stats", "/zookeeper/quota/q/ "]);
    for (written, counted) in [
        ("count=5,bytes=7,other=1,count=8,bytes=9", "count=5,bytes=11"),
        ("count=1,bytes=9223372036854775807", "count=1,bytes=9223372036854775807"),
    ] {
        world.ok(a, set_data("/q/a", ""));
        world.ok(a, set_data("/zookeeper/quota/q/zookeeper_stats", written));
        world.ok(a, set_data("/q/a", "four"));
        let stats = world.ok(a, get_data("/zookeeper/quota/q/zookeeper_stats"));
        assert_eq!(stats.data().as_deref(), Some(counted.as_bytes()), "{written}");
    }
}

#[test]
fn limits_that_do_not_parse_limit_nothing() {
    let long = format!("countHardLimit=1{}", " ".repeat(1009));
    assert_eq!(long.len(), 1025);
    for limits in
        ["", "garbage", "countHardLimit=", "countHardLimit=x", "countHardLimit=99999999999999999999", &long]
    {
        let mut world = World::with(|config| config.enforce_quota = true);
        let a = world.connect();
        world.znodes(a, &["/q", "/zookeeper/quota/q"]);
        world.ok(a, create("/zookeeper/quota/q/zookeeper_limits").data(limits));
        world.znodes(a, &["/zookeeper/quota/q/zookeeper_stats", "/q/a"]);
    }
}

#[test]
fn limits_of_a_kibibyte_are_limits() {
    let mut world = World::with(|config| config.enforce_quota = true);
    let a = world.connect();
    world.znodes(a, &["/q", "/zookeeper/quota/q"]);
    let limits = format!("{}countHardLimit=1", "a=,".repeat(336));
    assert_eq!(limits.len(), 1024);
    world.ok(a, create("/zookeeper/quota/q/zookeeper_limits").data(&*limits));
    world.znodes(a, &["/zookeeper/quota/q/zookeeper_stats"]);
    assert_eq!(world.ask(a, create("/q/a")).error, Some(ErrorCode::QuotaExceeded));
}

#[test]
fn an_unknown_opcode_is_refused_and_closes_the_connection() {
    for op in [0, 10, 23, 99, 108, 1000, -1, -2, -12, -100, i32::MAX, i32::MIN] {
        let (mut world, a) = world();
        let session = world.session(a);
        world.send_frame(a, &Body::new().frame(Xid(5), op));
        assert_eq!(world.heard(a), ["Unimplemented", "closed"], "{op}");
        world.resume(session);
    }
}

#[test]
fn requests_before_an_unknown_opcode_are_answered() {
    let (mut world, a) = world();
    world.send(a, create("/a"));
    world.send_frame(a, &Body::new().frame(Xid(5), 99));
    world.send(a, create("/b"));
    assert_eq!(world.heard(a), ["reply", "Unimplemented", "closed"]);
    assert_eq!(world.paths_below("/"), ["/a", "/zookeeper"]);
}

#[test]
fn empty_bodies_are_refused_and_harmless() {
    let silent = [OpCode::Ping, OpCode::WhoAmI, OpCode::CloseSession];
    let cut_off = [OpCode::Auth, OpCode::Sasl, OpCode::Check];
    for op in OpCode::ALL.iter().filter(|op| !silent.contains(op) && !cut_off.contains(op)) {
        let (mut world, a) = world();
        assert_eq!(
            world.ask_raw(a, op.code(), Body::new()).error,
            Some(ErrorCode::MarshallingError),
            "{op:?}"
        );
        world.ok(a, exists("/"));
    }
}

#[test]
fn bytes_after_a_record_are_ignored() {
    let (mut world, a) = world();
    let answer = world.ask_raw(a, OpCode::Exists.code(), Body::new().text("/").byte(7).text("more"));
    assert_eq!(answer.error, None);
}

#[test]
fn lengths_that_lie_are_refused() {
    let (mut world, a) = world();
    for length in [-2, i32::MIN, 5, 2_097_151, i32::MAX] {
        let answer = world.ask_raw(a, OpCode::GetData.code(), Body::new().int(length).byte(0));
        assert_eq!(answer.error, Some(ErrorCode::MarshallingError), "{length}");
        let create = Body::new().text("/a").bytes(b"").int(length.max(5)).int(0);
        assert_eq!(world.ask_raw(a, OpCode::Create.code(), create).error, Some(ErrorCode::MarshallingError));
    }
}

#[test]
fn a_negative_count_of_acls_is_an_empty_list() {
    let (mut world, a) = world();
    let create = Body::new().text("/a").bytes(b"").int(-5).int(0);
    assert_eq!(world.ask_raw(a, OpCode::Create.code(), create).error, Some(ErrorCode::InvalidAcl));
}

#[test]
fn a_deep_tree_is_counted_and_deleted() {
    let (mut world, a) = world();
    let mut path = String::new();
    for _ in 0..2_000 {
        path.push_str("/d");
        world.ok(a, create(&path));
    }
    world.ok(a, add_watch("/", RECURSIVE));
    assert_eq!(world.ok(a, get_all_children_number("/d")).count(), 1_999);
    world.ok(a, delete(&path));
    assert_eq!(world.events(a), [format!("deleted {path}")]);
}

#[test]
fn a_wide_multi_is_carried_out() {
    let (mut world, a) = world();
    let answer = world.ok(a, multi((0..5_000).map(|n| create(&format!("/n{n:05}")))));
    assert_eq!(answer.results().len(), 5_000);
    assert_eq!(world.core.tree().len(), 5_004);
    assert_eq!(world.zxid(), 2);
}

#[test]
fn settings_of_nonsense_do_not_panic() {
    for tick in [0, -1, i32::MIN, i32::MAX] {
        let mut world = World::with(|config| {
            config.tick_time = tick;
            config.min_session_timeout = Some(i32::MAX);
            config.max_session_timeout = Some(i32::MIN);
            config.sessionless_timeout = i64::MIN;
            config.container_check_interval = -5;
            config.container_max_per_minute = 0;
        });
        let a = world.socket();
        world.hello(a, new_session());
        world.core.handle_timeout(zoolet_server_core::Millis(START + 10));
    }
}

#[test]
fn times_at_their_limits_do_not_panic() {
    let mut world = World::new();
    let a = world.connect();
    let ping = || zoolet_proto::Incoming { xid: Xid::PING, op: 11, body: Ok(zoolet_proto::Request::Ping) };
    for now in [START, i64::MAX - 1, i64::MAX] {
        world.core.handle(zoolet_server_core::Millis(now), a, zoolet_server_core::Input::Request(ping()));
    }
    world.core.handle_timeout(zoolet_server_core::Millis(i64::MAX));
}

/// The bytes of the ids in the lists that the transactions so far have stored; a shared list counts once.
fn acl_bytes(world: &World) -> usize {
    fn collect<'t>(op: &'t TxnOp, lists: &mut HashMap<*const Acl, &'t [Acl]>) {
        match op {
            TxnOp::Create { acl, .. } | TxnOp::SetAcl { acl, .. } => {
                lists.insert(acl.as_ptr(), acl);
            }
            TxnOp::Multi(ops) => ops.iter().for_each(|op| collect(op, lists)),
            _ => {}
        }
    }
    let mut lists = HashMap::new();
    world.txns.iter().for_each(|txn| collect(&txn.op, &mut lists));
    lists.values().flat_map(|list| list.iter()).map(|entry| entry.id.len()).sum()
}

/// A create with an `auth` entry for each of these permissions.
fn create_for(path: &str, perms: impl Iterator<Item = i32>) -> Request {
    let acl = perms.map(|perms| Acl::new(Perms(perms), "auth", "")).collect::<Vec<_>>();
    Request::Create(Create { path: path.into(), data: None, acl: Some(acl.into()), flags: 0 })
}

/// A client with a long user name.
fn long_user() -> (World, ConnId) {
    let (mut world, a) = world();
    world.ok(a, auth("digest", &format!("{}:pw", "u".repeat(1_000))));
    (world, a)
}

#[test]
fn long_credentials_are_refused_like_false_ones() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", &"u".repeat(1_024)));
    assert_eq!(world.refusal(a, auth("digest", &"u".repeat(1_025))), ErrorCode::AuthFailed);
    assert_eq!(world.heard(a), ["closed"]);
    let b = world.connect();
    let users = |n: usize| auth("digest", &format!("{n:04}{}", "u".repeat(1_000)));
    let added = (0..32).take_while(|n| world.ask(b, users(*n)).error.is_none()).count();
    assert_eq!(added, 7, "8 KiB in all");
}

#[test]
fn auth_entries_take_no_more_than_a_frame() {
    let (mut world, a) = long_user();
    assert_eq!(world.refusal(a, create_for("/a", 1..60_000)), ErrorCode::InvalidAcl);
    assert_eq!(acl_bytes(&world), 0);
    world.ok(a, create_for("/a", 1..1_000));
    assert!((1_000_000..0xf_ffff).contains(&acl_bytes(&world)), "{}", acl_bytes(&world));
}

#[test]
fn auth_entries_of_a_multi_take_no_more_than_a_frame() {
    let (mut world, a) = long_user();
    let creates = |count: i32, perms: fn(i32) -> i32| {
        multi((0..count).map(|n| create_for(&format!("/n{n}"), std::iter::once(perms(n)))))
    };
    let codes = world.ok(a, creates(15_000, |n| n + 1)).codes();
    let invalid = codes.iter().position(|code| *code == ErrorCode::InvalidAcl.code());
    assert!(invalid.is_some_and(|at| (1_000..1_030).contains(&at)), "{invalid:?}");
    assert_eq!(acl_bytes(&world), 0);
    // Equal lists are stored once, so nothing is refused.
    world.ok(a, creates(15_000, |_| 31));
    assert!(acl_bytes(&world) < 2_000, "{}", acl_bytes(&world));
}

#[test]
fn what_a_multi_logs_takes_no_more_than_two_frames() {
    let mut world = World::with(|config| config.logged = true);
    let a = world.connect();
    world.ok(a, auth("digest", &format!("{}:pw", "u".repeat(1_000))));
    // Equal lists are stored once, but each entry of the log has its own.
    let creates = |count: i32| multi((0..count).map(|n| create_for(&format!("/n{n}"), std::iter::once(31))));
    let codes = world.ok(a, creates(15_000)).codes();
    let invalid = codes.iter().position(|code| *code == ErrorCode::InvalidAcl.code());
    assert!(invalid.is_some_and(|at| (500..515).contains(&at)), "{invalid:?}");
    world.ok(a, creates(500));
    assert!(acl_bytes(&world) < 2_000, "{}", acl_bytes(&world));
}

#[test]
fn a_deep_tree_is_counted_at_every_level() {
    const LEVELS: usize = 300;
    let (mut world, a) = world();
    let path = |level: usize| "/x".repeat(level);
    for level in 1..=LEVELS {
        world.ok(a, create(&path(level)));
    }
    world.ok(a, set_data(&path(LEVELS), "data"));
    let counts = |world: &mut World| {
        [1, LEVELS / 2, LEVELS].map(|level| world.ok(a, get_all_children_number(&path(level))).count())
    };
    assert_eq!(counts(&mut world), [LEVELS as i32 - 1, LEVELS as i32 / 2, 0]);
    world.ok(a, delete(&path(LEVELS)));
    world.ok(a, create("/x/y"));
    world.ok(a, delete("/x/y"));
    assert_eq!(world.ok(a, get_all_children_number("/x")).count(), LEVELS as i32 - 2);
}

#[test]
fn a_recursive_watch_above_or_beside_a_deep_path_is_found() {
    let (mut world, a) = world();
    let b = world.connect();
    let deep = "/x".repeat(200);
    for level in 1..=200 {
        world.ok(a, create(&"/x".repeat(level)));
    }
    world.ok(b, add_watch(&"/x".repeat(100), 1));
    world.ok(b, add_watch(&"/y".repeat(300), 1));
    world.ok(a, set_data(&deep, ""));
    world.ok(a, set_data(&"/x".repeat(99), ""));
    assert_eq!(world.events(b), [format!("data {deep}")]);
}
