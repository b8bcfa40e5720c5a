//! Access control: permissions, identities, valid ACLs, and who can see which part of them.

use std::net::IpAddr;

use zoolet_proto::ErrorCode::{self, AuthFailed, InvalidAcl, MarshallingError, NoAuth};
use zoolet_proto::records::{AuthPacket, ClientInfo, SaslToken};
use zoolet_proto::{Acl, OpCode, Perms, Reply, Request};
use zoolet_server_core::{ConnId, Input};

use crate::common::*;

const BOB: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

fn world() -> (World, ConnId) {
    let mut world = World::new();
    let a = world.connect();
    (world, a)
}

fn who_am_i(world: &mut World, conn: ConnId) -> Vec<String> {
    match world.ok(conn, Request::WhoAmI).reply {
        Reply::WhoAmI(ids) => {
            ids.iter().map(|ClientInfo { scheme, user }| format!("{scheme}:{user}")).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_permission_opens_what_it_is_for_and_nothing_else() {
    for (perm, allowed) in [
        (Perms::NONE, &[][..]),
        (Perms::READ, &["exists", "get", "list", "list2", "count", "get_acl", "check"][..]),
        (Perms::WRITE, &["set"][..]),
        (Perms::CREATE, &["create"][..]),
        (Perms::DELETE, &["delete"][..]),
        (Perms::ADMIN, &["get_acl", "set_acl"][..]),
    ] {
        let mut able = Vec::new();
        for (what, request) in [
            ("exists", exists("/z")),
            ("get", get_data("/z")),
            ("list", get_children("/z")),
            ("list2", get_children2("/z")),
            ("count", get_all_children_number("/z")),
            ("get_acl", get_acl("/z")),
            ("check", multi([check("/z", -1)])),
            ("set", set_data("/z", "x")),
            ("create", create("/z/new")),
            ("delete", delete("/z/child")),
            ("set_acl", set_acl("/z", anyone(perm))),
        ] {
            let mut world = World::new();
            let a = world.connect();
            world.znodes(a, &["/z", "/z/child"]);
            world.ok(a, set_acl("/z", anyone(perm)));
            let answer = world.ask(a, request);
            let refused = match &answer.reply {
                Reply::Multi(_) if what == "check" => format!("{:?}", answer.results()).contains("NoAuth"),
                _ => answer.error == Some(NoAuth),
            };
            if !refused {
                able.push(what);
            }
        }
        assert_eq!(able, allowed, "{perm:?}");
    }
}

#[test]
fn requests_that_look_at_no_acl() {
    let (mut world, a) = world();
    world.ok(a, create("/z").acl(anyone(Perms::NONE)));
    for request in [
        sync("/z"),
        add_watch("/z", PERSISTENT),
        check_watches("/z", 4),
        set_watches(0, &["/z"], &["/z"], &["/z"]),
        remove_watches("/z", 3),
        get_ephemerals(Some("/z")),
    ] {
        world.ok(a, request);
    }
}

#[test]
fn the_own_acl_of_a_znode_does_not_guard_its_deletion() {
    let (mut world, a) = world();
    world.ok(a, create("/z").acl(anyone(Perms::NONE)));
    world.ok(a, delete("/z"));
}

#[test]
fn unknown_permission_bits_are_kept() {
    let (mut world, a) = world();
    for perms in [255, -1, i32::MIN, 32] {
        let acl = anyone(Perms(perms | 31));
        world.ok(a, create("/z").acl(acl.clone()));
        assert_eq!(world.ok(a, get_acl("/z")).acl(), acl);
        world.ok(a, delete("/z"));
    }
}

#[test]
fn an_acl_is_refused_if_one_entry_is() {
    let (mut world, a) = world();
    let entry = |scheme: &str, id: &str| Acl::new(Perms::ALL, scheme, id);
    for (acl, valid) in [
        (vec![], false),
        (vec![entry("world", "anyone")], true),
        (vec![entry("world", "someone")], false),
        (vec![entry("world", "")], false),
        (vec![entry("", "x")], false),
        (vec![entry("super", "")], false),
        (vec![entry("sasl", "bob")], false),
        (vec![entry("x509", "CN=bob")], false),
        (vec![entry("unknown", "x")], false),
        (vec![entry("auth", "")], false),
        (vec![entry("digest", "a:b")], true),
        (vec![entry("digest", ":b")], true),
        (vec![entry("digest", "a")], false),
        (vec![entry("digest", "a:")], false),
        (vec![entry("digest", "a:b:c")], false),
        (vec![entry("ip", "10.0.0.1")], true),
        (vec![entry("ip", "10.0.0.0/8")], true),
        (vec![entry("ip", "10.0.0.0/32")], true),
        (vec![entry("ip", "10.0.0.0/33")], false),
        (vec![entry("ip", "10.0.0.0/-1")], false),
        (vec![entry("ip", "10.0.0.0/")], false),
        (vec![entry("ip", "10.0.0")], false),
        (vec![entry("ip", "300.0.0.1")], false),
        (vec![entry("ip", "::1")], true),
        (vec![entry("ip", "2001:db8::/32")], true),
        (vec![entry("ip", "2001:db8::/129")], false),
        (vec![entry("ip", "localhost")], false),
        (vec![entry("world", "anyone"), entry("world", "someone")], false),
    ] {
        let answer = world.ask(a, create("/z").acl(acl.clone()));
        assert_eq!(answer.error, (!valid).then_some(InvalidAcl), "{acl:?}");
        if valid {
            world.ok(a, delete("/z"));
        }
        world.znodes(a, &["/y"]);
        assert_eq!(world.ask(a, set_acl("/y", acl.clone())).error.is_none(), valid, "{acl:?}");
        world.ok(a, delete("/y"));
    }
}

#[test]
fn a_null_list_or_scheme_is_invalid_and_a_null_id_does_not_decode() {
    let (mut world, a) = world();
    let create = || Body::new().text("/z").bytes(b"");
    for (body, code) in [
        (create().null(), InvalidAcl),
        (create().int(1).int(31).null().text("anyone"), InvalidAcl),
        (create().int(1).int(31).text("world").null(), MarshallingError),
        (create().int(1).int(31).text("digest").null(), MarshallingError),
        (create().int(1).int(31).text("unknown").null(), InvalidAcl),
        (create().int(1).int(31).null().null(), InvalidAcl),
    ] {
        let before = world.zxid();
        let answer = world.ask_raw(a, OpCode::Create.code(), body.int(0));
        assert_eq!((answer.error, answer.zxid), (Some(code), before + 1));
    }
    let before = world.zxid();
    let answer = world.ask_raw(a, OpCode::SetAcl.code(), Body::new().text("/").null().int(-1));
    assert_eq!((answer.error, answer.zxid), (Some(InvalidAcl), before + 1));
}

#[test]
fn equal_entries_are_stored_once_in_their_order() {
    let (mut world, a) = world();
    let entry = |perms, scheme: &str, id: &str| Acl::new(perms, scheme, id);
    let (any, bob, less) = (
        entry(Perms::ALL, "world", "anyone"),
        entry(Perms::ALL, "digest", "bob:x"),
        entry(Perms::READ, "world", "anyone"),
    );
    let twice = vec![any.clone(), bob.clone(), any.clone(), less.clone(), bob.clone()];
    world.ok(a, create("/z").acl(twice));
    assert_eq!(world.ok(a, get_acl("/z")).acl(), [any, bob, less]);
}

#[test]
fn auth_stands_for_every_digest_of_the_connection() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", "bob:pw"));
    world.ok(a, auth("digest", "eve:pw"));
    world.ok(a, create("/z").acl(only(Perms::ALL, "auth", "whatever")));
    let acl = world.ok(a, get_acl("/z")).acl();
    assert_eq!(acl.len(), 2);
    assert_eq!(acl[0], Acl::new(Perms::ALL, "digest", BOB));
    assert_eq!((acl[1].scheme.as_str(), acl[1].id.starts_with("eve:")), ("digest", true));

    let b = world.connect();
    assert_eq!(world.refusal(b, get_data("/z")), NoAuth);
    world.ok(b, auth("digest", "bob:pw"));
    world.ok(b, get_data("/z"));
}

#[test]
fn what_auth_becomes_may_repeat_an_entry() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", "bob:pw"));
    let acl = [only(Perms::ALL, "auth", "x"), only(Perms::ALL, "digest", BOB), only(Perms::ALL, "auth", "y")];
    world.ok(a, create("/z").acl(acl.concat()));
    assert_eq!(world.ok(a, get_acl("/z")).acl(), vec![Acl::new(Perms::ALL, "digest", BOB); 3]);
}

#[test]
fn a_null_scheme_is_an_unknown_one_wherever_it_is() {
    let mut world = World::new();
    let a = world.connect();
    let world_anyone = || Body::new().text("/n").bytes(b"").int(2).int(31).text("world").text("anyone");
    for perms in [31, 1] {
        let body = world_anyone().int(perms).null().text("anyone").int(0);
        assert_eq!(world.ask_raw(a, OpCode::Create.code(), body).error, Some(ErrorCode::InvalidAcl));
    }
}

#[test]
fn auth_looks_at_no_id_and_takes_a_null_one() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", "bob:pw"));
    let create = Body::new().text("/z").bytes(b"").int(1).int(31).text("auth").null().int(0);
    assert_eq!(world.ask_raw(a, OpCode::Create.code(), create).error, None);
    assert_eq!(world.ok(a, get_acl("/z")).acl(), only(Perms::ALL, "digest", BOB));
}

#[test]
fn auth_entries_with_a_null_id_and_with_an_empty_one_are_the_same() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", "bob:pw"));
    let null = |body: Body| body.int(31).text("auth").null();
    let create = null(null(Body::new().text("/z").bytes(b"").int(3)).int(31).text("auth").text("")).int(0);
    assert_eq!(world.ask_raw(a, OpCode::Create.code(), create).error, None);
    assert_eq!(world.ok(a, get_acl("/z")).acl(), only(Perms::ALL, "digest", BOB));
}

#[test]
fn an_addauth_adds_an_identity_to_the_connection_and_not_to_the_session() {
    let (mut world, a) = world();
    world.ok(a, auth("digest", "bob:pw"));
    world.ok(a, auth("digest", "bob:pw"));
    world.ok(a, auth("ip", ""));
    assert_eq!(who_am_i(&mut world, a), ["ip:127.0.0.1", "digest:bob"]);
    let again = world.resume(world.session(a));
    assert_eq!(who_am_i(&mut world, again), ["ip:127.0.0.1"]);
}

#[test]
fn a_digest_needs_no_colon_and_its_password_may_have_one() {
    let (mut world, a) = world();
    for credentials in ["user", "user:", "user:a:b", "", ":"] {
        world.ok(a, auth("digest", credentials));
    }
    assert_eq!(
        who_am_i(&mut world, a),
        ["ip:127.0.0.1", "digest:user", "digest:user", "digest:user", "digest:", "digest:"]
    );
}

#[test]
fn a_false_addauth_is_refused_and_cut_off_but_the_session_survives() {
    let packet = |scheme: Option<&str>, auth: Option<&[u8]>| {
        let auth = auth.map(|auth| auth.to_vec().into());
        Request::Auth(AuthPacket { kind: 0, scheme: scheme.map(Into::into), auth })
    };
    for request in [
        packet(Some("world"), Some(b"anyone")),
        packet(Some("auth"), Some(b"")),
        packet(Some("super"), Some(b"super:x")),
        packet(Some("sasl"), Some(b"x")),
        packet(Some("x509"), Some(b"x")),
        packet(Some("unknown"), Some(b"x")),
        packet(Some(""), Some(b"x")),
        packet(None, Some(b"x")),
        packet(Some("digest"), None),
    ] {
        let (mut world, a) = world();
        let session = world.session(a);
        let answer = world.ask(a, request);
        assert_eq!((answer.error, answer.zxid), (Some(AuthFailed), 0));
        assert_eq!(world.heard(a), ["closed"]);
        world.resume(session);
    }
}

#[test]
fn an_auth_or_sasl_body_that_does_not_decode_is_cut_off_without_a_word() {
    for (op, body) in [
        (OpCode::Auth, Body::new().int(0)),
        (OpCode::Auth, Body::new().int(0).text("digest").int(50)),
        (OpCode::Sasl, Body::new()),
        (OpCode::Sasl, Body::new().null()),
        (OpCode::Sasl, Body::new().int(9)),
    ] {
        let (mut world, a) = world();
        world.send_frame(a, &body.frame(zoolet_proto::Xid(1), op.code()));
        assert_eq!(world.heard(a), ["closed"]);
    }
}

#[test]
fn sasl_is_not_configured_and_says_so_by_a_null_token() {
    let (mut world, a) = world();
    assert_eq!(world.ok(a, Request::Sasl(SaslToken(Some(b"token"[..].into())))).reply, Reply::Sasl(None));
}

#[test]
fn an_ip_entry_matches_by_prefix_within_its_family() {
    let (mut world, a) = world();
    for (entry, peer, allowed) in [
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "10.1.2.4", false),
        ("10.1.2.0/24", "10.1.2.99", true),
        ("10.1.2.0/24", "10.1.3.99", false),
        ("10.1.2.3/0", "192.168.0.1", true),
        ("0.0.0.0/0", "::1", false),
        ("2001:db8::/32", "2001:db8::9", true),
        ("2001:db8::/32", "2001:db9::9", false),
    ] {
        world.ok(a, create("/z").acl(only(Perms::ALL, "ip", entry)));
        let peer: IpAddr = peer.parse().unwrap();
        let b = world.socket_from(peer);
        world.hello(b, new_session());
        world.take_welcome(b);
        assert_eq!(world.ask(b, get_data("/z")).error.is_none(), allowed, "{entry} {peer}");
        world.ok(a, delete("/z"));
    }
}

#[test]
fn who_am_i_returns_addresses_in_full() {
    let (mut world, _) = world();
    let b = world.socket_from("2001:db8::1".parse().unwrap());
    world.hello(b, new_session());
    world.take_welcome(b);
    assert_eq!(who_am_i(&mut world, b), ["ip:2001:db8:0:0:0:0:0:1"]);
}

#[test]
fn readers_without_admin_do_not_see_digests() {
    let (mut world, a) = world();
    let acl = vec![
        Acl::new(Perms::READ, "world", "anyone"),
        Acl::new(Perms::ALL, "digest", BOB),
        Acl::new(Perms::WRITE, "ip", "10.0.0.1"),
        Acl::new(Perms::WRITE, "digest", ":x"),
        Acl::new(Perms::WRITE, "digest", "a:b\nc\u{2028}"),
    ];
    world.ok(a, create("/z").acl(acl.clone()));
    let masked = vec![
        acl[0].clone(),
        Acl::new(Perms::ALL, "digest", "bob:x"),
        acl[2].clone(),
        Acl::new(Perms::WRITE, "digest", ":x"),
        // Up to the end of the line.
        Acl::new(Perms::WRITE, "digest", "a:x\nc\u{2028}"),
    ];
    assert_eq!(world.ok(a, get_acl("/z")).acl(), masked);
    world.ok(a, auth("digest", "bob:pw"));
    assert_eq!(world.ok(a, get_acl("/z")).acl(), acl);
}

#[test]
fn admin_alone_reads_the_acl() {
    let (mut world, a) = world();
    world.ok(a, create("/z").acl(anyone(Perms::ADMIN)));
    assert_eq!(world.ok(a, get_acl("/z")).acl(), anyone(Perms::ADMIN));
    assert_eq!(world.refusal(a, get_data("/z")), NoAuth);
}

#[test]
fn super_passes_every_acl_but_no_other_check() {
    let mut world = World::with(|config| config.super_digest = Some(BOB.into()));
    let a = world.connect();
    world.ok(a, create("/z").acl(anyone(Perms::NONE)));
    assert_eq!(world.refusal(a, set_data("/zookeeper/config", "x")), NoAuth);
    world.ok(a, auth("digest", "bob:pw"));
    assert_eq!(who_am_i(&mut world, a), ["ip:127.0.0.1", "digest:bob", "super:"]);
    for request in [get_data("/z"), set_data("/z", "x"), create("/z/a"), delete("/z/a"), get_acl("/z")] {
        world.ok(a, request);
    }
    world.ok(a, set_data("/zookeeper/config", "x"));
    world.ok(a, set_acl("/z", Acl::open()));
    assert_eq!(world.refusal(a, delete("/zookeeper/config")), ErrorCode::BadArguments);
}

#[test]
fn acls_can_be_switched_off() {
    let mut world = World::with(|config| config.skip_acl = true);
    let a = world.connect();
    world.ok(a, create("/z").acl(anyone(Perms::NONE)));
    world.ok(a, set_data("/z", "x"));
    world.ok(a, get_data("/z"));
}

#[test]
fn an_identity_counts_from_the_addauth_on() {
    let (mut world, a) = world();
    world.ok(a, create("/z").acl(only(Perms::ALL, "digest", BOB)));
    world.send(a, get_data("/z"));
    world.send(a, auth("digest", "bob:pw"));
    world.send(a, get_data("/z"));
    assert_eq!(world.heard(a), ["NoAuth", "reply", "reply"]);
}

#[test]
fn a_write_after_a_set_acl_is_checked_against_the_new_one() {
    let (mut world, a) = world();
    world.ok(a, create("/z"));
    world.send(a, set_acl("/z", only(Perms::READ | Perms::ADMIN, "world", "anyone")));
    world.send(a, set_data("/z", "x"));
    assert_eq!(world.heard(a), ["reply", "NoAuth"]);
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let request = auth("digest", "bob:hidden");
    let input = format!(
        "{:?}",
        Input::Request(zoolet_proto::Incoming { xid: zoolet_proto::Xid(1), op: 100, body: Ok(request) })
    );
    assert!(!input.contains("hidden"), "{input}");
    let acl = format!("{:?}", only(Perms::ALL, "digest", BOB));
    assert!(!acl.contains("ikIa"), "{acl}");
}
