//! Several operations in one request: all or nothing, each seeing what those before it did.

use zoolet_proto::records::OpResult;
use zoolet_proto::{CreateMode, ErrorCode, OpCode, Perms, Reply, Request, SessionId, Stat, Xid};
use zoolet_server_core::ConnId;

use crate::common::*;

const OK: i32 = 0;
const NOT_EVALUATED: i32 = -2;

fn world() -> (World, ConnId) {
    let mut world = World::new();
    let a = world.connect();
    (world, a)
}

fn shapes(results: &[OpResult]) -> Vec<String> {
    let shape = |result: &OpResult| match result {
        OpResult::Create(path) => format!("create {path}"),
        OpResult::Create2(path, _) => format!("create2 {path}"),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_lowercase(),
    };
    results.iter().map(shape).collect()
}

#[test]
fn each_part_has_its_result() {
    let (mut world, a) = world();
    let done = world.ok(
        a,
        multi([
            create("/a"),
            create2("/b"),
            container("/c"),
            set_data("/a", "x"),
            check("/a", 1),
            delete("/b"),
        ]),
    );
    assert_eq!(
        shapes(done.results()),
        ["create /a", "create2 /b", "create2 /c", "setdata", "check", "delete"]
    );
    assert_eq!(world.ok(a, get_children("/")).names(), ["a", "c", "zookeeper"]);
}

#[test]
fn a_failure_undoes_everything_and_names_the_part() {
    let good = || create("/good");
    let bad = || delete("/none");
    for (parts, codes) in [
        (vec![bad(), good(), good()], [ErrorCode::NoNode.code(), NOT_EVALUATED, NOT_EVALUATED]),
        (vec![good(), bad(), good()], [OK, ErrorCode::NoNode.code(), NOT_EVALUATED]),
        (vec![good(), check("/", 0), bad()], [OK, OK, ErrorCode::NoNode.code()]),
        (vec![good(), good(), bad()], [OK, ErrorCode::NodeExists.code(), NOT_EVALUATED]),
    ] {
        let (mut world, a) = world();
        let answer = world.ok(a, multi(parts));
        assert_eq!((answer.codes(), answer.zxid), (codes.to_vec(), 2));
        assert_eq!(world.refusal(a, exists("/good")), ErrorCode::NoNode);
        assert_eq!(world.stat(a, "/").cversion, -1);
        assert_eq!(world.txns.len(), 2, "one record, which says that nothing changed");
    }
}

#[test]
fn a_multi_is_one_transaction_with_one_zxid_and_one_time() {
    let (mut world, a) = world();
    let answer = world.ok(a, multi([create2("/a"), create2("/a/b"), set_data("/a", "x")]));
    assert_eq!((world.txns.len(), answer.zxid), (2, 2));
    let (a_stat, b_stat) = (world.stat(a, "/a"), world.stat(a, "/a/b"));
    for zxid in [a_stat.czxid, a_stat.mzxid, a_stat.pzxid, b_stat.czxid] {
        assert_eq!(zxid.0, 2);
    }
    assert_eq!((a_stat.ctime, a_stat.mtime, b_stat.ctime), (START, START, START));
}

#[test]
fn parts_see_what_the_parts_before_them_did() {
    for parts in [
        vec![create("/p"), create("/p/c")],
        vec![create("/p"), create("/p/c"), delete("/p/c"), delete("/p")],
        vec![create("/n"), delete("/n"), create("/n")],
        vec![create("/v"), set_data("/v", "1").version(0), set_data("/v", "2").version(1), check("/v", 2)],
        vec![create("/v"), delete("/v").version(0), create("/v"), check("/v", 0)],
        vec![create("/s"), sequential("/s/x-"), sequential("/s/x-"), delete("/s/x-0000000001")],
        vec![create("/locked").acl(anyone(Perms::DELETE)), delete("/locked")],
    ] {
        let (mut world, a) = world();
        let answer = world.ok(a, multi(parts.clone()));
        assert!(!format!("{:?}", answer.results()).contains("Error"), "{parts:?}: {answer:?}");
    }
}

#[test]
fn parts_fail_on_what_the_parts_before_them_did() {
    for (parts, code) in [
        (vec![create("/a"), create("/a")], ErrorCode::NodeExists),
        (vec![create("/a"), create("/a/b"), delete("/a")], ErrorCode::NotEmpty),
        (vec![create("/a"), delete("/a"), set_data("/a", "x")], ErrorCode::NoNode),
        (vec![create("/a"), delete("/a"), create("/a/b")], ErrorCode::NoNode),
        (vec![create("/a"), set_data("/a", "x"), check("/a", 0)], ErrorCode::BadVersion),
        (vec![ephemeral("/e"), create("/e/c")], ErrorCode::NoChildrenForEphemerals),
        (vec![create("/a").acl(anyone(Perms::READ)), set_data("/a", "x")], ErrorCode::NoAuth),
        (vec![create("/a").acl(anyone(Perms::READ)), create("/a/b")], ErrorCode::NoAuth),
        (vec![create("/a").acl(anyone(Perms::WRITE)), check("/a", 0)], ErrorCode::NoAuth),
    ] {
        let (mut world, a) = world();
        let answer = world.ok(a, multi(parts));
        assert_eq!(answer.codes().last(), Some(&code.code()));
        assert_eq!(world.core.tree().len(), 4);
    }
}

#[test]
fn a_stat_in_a_result_is_as_of_its_part() {
    let (mut world, a) = world();
    let answer =
        world.ok(a, multi([create2("/p"), create("/p/c"), set_data("/p", "x"), set_data("/p", "yy")]));
    let stat = |at: usize| match &answer.results()[at] {
        OpResult::Create2(_, stat) | OpResult::SetData(stat) => *stat,
        other => panic!("{other:?}"),
    };
    let counts = |stat: Stat| (stat.num_children, stat.version, stat.data_length);
    assert_eq!([counts(stat(0)), counts(stat(2)), counts(stat(3))], [(0, 0, 0), (1, 1, 1), (1, 2, 2)]);
}

#[test]
fn a_failed_multi_has_a_header_without_error() {
    let (mut world, a) = world();
    let answer = world.ask(a, multi([delete("/none")]));
    assert_eq!((answer.error, answer.codes()), (None, vec![ErrorCode::NoNode.code()]));
}

#[test]
fn nobody_sees_a_part_of_a_multi() {
    let (mut world, a) = world();
    let b = world.connect();
    world.ok(b, add_watch("/", RECURSIVE));
    world.send(a, multi([create("/x"), create("/y"), delete("/none")]));
    world.send(b, get_children("/"));
    assert_eq!(world.heard(b), ["reply"], "no event, and the list is as it was");
    assert_eq!(world.ok(b, get_children("/")).names(), ["zookeeper"]);
}

#[test]
fn what_a_create_means_inside_a_multi_depends_on_opcode_and_flags() {
    for (part, result, is_container) in [
        (create("/a"), "create /a", false),
        (create("/a").flags(2), "create /a0000000000", false),
        (create("/a").flags(4), "create2 /a", true),
        (create2("/a"), "create2 /a", false),
        (create2("/a").flags(4), "create2 /a", true),
        (container("/a"), "create2 /a", true),
        (container("/a").flags(0), "create2 /a", true),
        (create_ttl("/a", 0, 5), "create /a", false),
        (create_ttl("/a", 2, 5), "create /a0000000000", false),
        (create_ttl("/a", 4, 5), "create2 /a", true),
        (create_ttl("/a", 1, -1), "create /a", false),
    ] {
        let (mut world, a) = world();
        let answer = world.ok(a, multi([part.clone()]));
        assert_eq!(shapes(answer.results()), [result], "{part:?}");
        let path = result.rsplit(' ').next().unwrap_or_default();
        let owner = world.core.tree().get(path).expect("the znode").owner();
        assert_eq!(owner == zoolet_server_core::Owner::CONTAINER, is_container, "{part:?}");
    }
}

#[test]
fn some_flags_fail_their_part_and_some_the_whole_multi() {
    for (part, code) in [
        (create_ttl("/a", 5, 5), ErrorCode::Unimplemented),
        (create_ttl("/a", 6, 5), ErrorCode::Unimplemented),
        (create_ttl("/a", 7, 5), ErrorCode::BadArguments),
        (create_ttl("/a", -1, 5), ErrorCode::BadArguments),
    ] {
        let (mut world, a) = world();
        assert_eq!(world.ok(a, multi([part])).codes(), [code.code()]);
    }
    for (parts, zxids) in [
        (vec![create("/a").flags(5)], 1),
        (vec![create2("/a").flags(6)], 1),
        (vec![container("/a").flags(5)], 1),
        (vec![create("/a").flags(7)], 1),
        (vec![create("/a"), create2("/b").flags(-1)], 1),
    ] {
        let (mut world, a) = world();
        let answer = world.ask(a, multi(parts));
        assert_eq!(answer.error, Some(ErrorCode::MarshallingError));
        assert_eq!((answer.zxid, answer.reply), (1 + zxids, Reply::Empty));
    }
}

#[test]
fn ttl_parts_work_where_ttls_are_on() {
    let mut world = World::with(|config| config.extended_types = true);
    let a = world.connect();
    let answer = world.ok(a, multi([create_ttl("/t", 5, 1000), create_ttl("/s", 6, 1000)]));
    assert_eq!(shapes(answer.results()), ["create2 /t", "create2 /s0000000001"]);
    assert_eq!(world.core.tree().get("/t").expect("the znode").owner().as_ttl(), Some(1000));
    assert_eq!(world.ok(a, multi([create_ttl("/u", 5, 0)])).codes(), [ErrorCode::BadArguments.code()]);
}

#[test]
fn ephemerals_of_a_multi_belong_to_the_session() {
    let (mut world, a) = world();
    world.ok(a, multi([ephemeral("/e"), create("/f").flags(3)]));
    assert_ne!(world.stat(a, "/e").ephemeral_owner, SessionId(0));
    assert_eq!(world.ok(a, get_ephemerals(None)).names(), ["/e", "/f0000000001"]);
}

#[test]
fn a_multi_that_does_not_decode_is_refused_as_a_whole_for_one_zxid() {
    let create = || Body::new().part(1).text("/a").bytes(b"").open_acl().int(0);
    let null_path = Body::new().part(2).null().int(-1).end();
    for (why, body) in [
        ("a read", Body::new().part(4).text("/").byte(0).end()),
        ("a mix", create().part(4).text("/").byte(0).end()),
        ("exists", Body::new().part(3).text("/").byte(0).end()),
        ("setACL", Body::new().part(7).text("/").open_acl().int(-1).end()),
        ("deleteContainer", Body::new().part(20).text("/").end()),
        ("an unknown opcode", Body::new().part(99).end()),
        ("no trailer", create()),
        ("half a part", create().part(1).text("/b")),
        ("a trailer that is not done", create().part(-1).end()),
        ("a null path", null_path),
        ("nothing at all", Body::new()),
    ] {
        let (mut world, a) = world();
        let answer = world.ask_raw(a, OpCode::Multi.code(), body);
        assert_eq!(answer.error, Some(ErrorCode::MarshallingError), "{why}");
        assert_eq!((answer.zxid, world.zxid()), (2, 2), "{why}");
        assert_eq!(answer.reply, Reply::Empty, "{why}");
        assert_eq!(world.core.tree().len(), 4, "{why}");
        world.ok(a, exists("/"));
    }
}

#[test]
fn whatever_has_done_set_ends_the_list() {
    let (mut world, a) = world();
    let body = Body::new().part(1).text("/a").bytes(b"").open_acl().int(0).int(99).byte(1).int(5);
    world.send_frame(a, &body.text("garbage").frame(Xid(9), OpCode::Multi.code()));
    assert_eq!(world.heard(a), ["reply"]);
    world.ok(a, exists("/a"));
}

#[test]
fn a_multi_read_answers_each_part_for_itself() {
    let (mut world, a) = world();
    world.ok(a, create("/a").data("x"));
    world.ok(a, create("/z").acl(anyone(Perms::WRITE)));
    world.znodes(a, &["/a/b"]);
    let answer =
        world.ok(a, multi_read([get_data("/a"), get_data("/none"), get_children("/z"), get_children("/a")]));
    let stat = world.stat(a, "/a");
    let expected = [
        OpResult::GetData(Some(b"x"[..].into()), stat),
        OpResult::Error(Some(ErrorCode::NoNode)),
        OpResult::Error(Some(ErrorCode::NoAuth)),
        OpResult::GetChildren(["b"].into_iter().collect()),
    ];
    assert_eq!(answer.results(), expected);
    assert_eq!(world.ok(a, multi_read([])).results(), []);
}

#[test]
fn a_multi_read_of_writes_is_the_one_error_with_a_body() {
    let (mut world, a) = world();
    let answer = world.ask(a, multi_read([create("/a")]));
    assert_eq!((answer.error, answer.reply), (Some(ErrorCode::MarshallingError), Reply::Multi(vec![])));
    for parts in [vec![get_data("/"), create("/a")], vec![create("/a"), get_data("/")]] {
        let answer = world.ask(a, multi_read(parts));
        assert_eq!((answer.error, answer.reply), (Some(ErrorCode::MarshallingError), Reply::Empty));
    }
    for flags in [5, 9] {
        let answer = world.ask(a, multi_read([create("/a").flags(flags)]));
        assert_eq!((answer.error, answer.reply), (Some(ErrorCode::MarshallingError), Reply::Empty));
    }
    assert_eq!((world.zxid(), world.core.tree().len()), (1, 4));
}

#[test]
fn a_top_level_check_is_not_implemented() {
    let (mut world, a) = world();
    world.send(a, check("/", 0));
    assert_eq!(world.heard(a), ["Unimplemented", "closed"]);
}

#[test]
fn quotas_over_a_multi_add_up() {
    let mut world = World::with(|config| config.enforce_quota = true);
    let a = world.connect();
    let limit = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3";
    world.znodes(a, &["/q", "/zookeeper/quota/q"]);
    world.ok(a, create("/zookeeper/quota/q/zookeeper_limits").data(limit));
    world.znodes(a, &["/zookeeper/quota/q/zookeeper_stats"]);
    let quota = ErrorCode::QuotaExceeded.code();
    let too_many = [create("/q/a"), create("/q/b"), create("/q/c")];
    assert_eq!(world.ok(a, multi(too_many)).codes(), [OK, OK, quota]);
    let replaced = multi([create("/q/a"), create("/q/b"), delete("/q/a"), create("/q/c")]);
    assert!(!format!("{:?}", world.ok(a, replaced)).contains("Error"));
}

#[test]
fn the_request_after_a_multi_sees_all_of_it() {
    let (mut world, a) = world();
    world.send(a, multi([create("/a"), set_data("/a", "x")]));
    world.send(a, get_data("/a"));
    world.send(a, Request::Ping);
    assert_eq!(world.heard(a), ["reply", "reply", "reply"]);
}

#[test]
fn a_container_made_with_the_flags_of_an_ephemeral_takes_children_in_its_own_multi() {
    let (mut world, a) = world();
    let Request::CreateContainer(mut record) = container("/c") else { panic!("another request") };
    record.flags = CreateMode::Ephemeral.code();
    let done = world.ok(a, multi([Request::CreateContainer(record), create("/c/x")]));
    assert_eq!(shapes(done.results()), ["create2 /c", "create /c/x"]);
    assert_eq!(world.ok(a, exists("/c")).stat().ephemeral_owner, SessionId(0), "it is no ephemeral");
}
