use zoolet_proto::records::{AuthPacket, SaslToken};
use zoolet_proto::{Acl, OpCode, Perms, Request};
use zoolet_test_support::*;

use super::{NULLS, UTF8, all, clear};

use crate::frames::duo::{Conn, Duo};

const BOB: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

pub fn lists(duo: &mut Duo) {
    let a = duo.connect();
    duo.ask(a, create("/keep"));
    let entry = |scheme: &str, id: &str| Acl::new(Perms::ALL, scheme, id);
    let ids = [
        ("world", &["anyone", "", "Anyone", "someone", "anyone "][..]),
        ("", &["", "x", "anyone"]),
        ("super", &["", "x"]),
        ("sasl", &["bob"]),
        ("x509", &["CN=bob"]),
        ("unknown", &["", "x"]),
        ("auth", &["", "x"]),
        (
            "digest",
            &["", ":", "::", "a", "a:", "a::", ":b", "::b", "a:b", "a:b:", "a:b:c", "a b:c d", "ä:ö", "😀:b"],
        ),
        (
            "ip",
            &["", "/", "127.0.0.1", "10.0.0.0/8", "10.0.0.1/", "10.0.0.1/0", "10.0.0.1/32", "10.0.0.1/33"],
        ),
        (
            "ip",
            &[
                "10.0.0.1/-1",
                "10.0.0.1/+8",
                "10.0.0.1/08",
                "10.0.0.1/8/8",
                "10.0.0.1/x",
                "10.0.0.1/ 8",
                "10.0.0",
            ],
        ),
        (
            "ip",
            &[
                "10.0.0.256",
                "10.0.0.1.2",
                "010.0.0.1",
                "10.0.0.1 ",
                " 10.0.0.1",
                "10.0.0.01",
                "localhost",
                "1",
                "+1.0.0.0",
            ],
        ),
        (
            "ip",
            &[
                "10..0.1",
                ".10.0.0.1",
                "10.0.0.1.",
                "0x0a.0.0.1",
                "-1.0.0.0",
                "1.2.3.4.5/8",
                "/8",
                "10.0.0.1/4294967304",
            ],
        ),
        (
            "ip",
            &[
                "::",
                "::1",
                "::/0",
                "2001:db8::/32",
                "2001:db8::/128",
                "2001:db8::/129",
                "2001:db8::1::2",
                ":::",
            ],
        ),
        (
            "ip",
            &[
                "1:2:3:4:5:6:7:8",
                "1:2:3:4:5:6:7",
                "1:2:3:4:5:6:7:8:9",
                "::ffff:10.0.0.1",
                "::10.0.0.1",
                "fe80::1%eth0",
            ],
        ),
        (
            "ip",
            &[
                "FE80::A",
                "12345::",
                "g::",
                "[::1]",
                "1::/",
                ":1",
                "1:",
                "::1/128",
                "0:0:0:0:0:0:0:1",
                "::ffff:10.0.0.1/96",
            ],
        ),
        ("IP", &["10.0.0.1"]),
        ("Digest", &["a:b"]),
    ];
    for (scheme, ids) in ids {
        for id in ids {
            all(duo, a, [create("/z").acl(vec![entry(scheme, id)]), get_acl("/z"), delete("/z")]);
        }
    }
    let (any, bob, less) =
        (entry("world", "anyone"), entry("digest", "b:x"), Acl::new(Perms::READ, "world", "anyone"));
    for list in [
        vec![any.clone(), any.clone()],
        vec![any.clone(), bob.clone(), any.clone(), less.clone(), bob.clone()],
        vec![any.clone(), entry("nobody", "x")],
        vec![entry("", "x"), entry("", "x")],
        vec![less.clone(), any.clone()],
        vec![Acl::new(Perms::NONE, "world", "anyone"), any],
    ] {
        all(duo, a, [create("/z").acl(list.clone()), get_acl("/z"), delete("/z")]);
        all(
            duo,
            a,
            [set_acl("/keep", list.clone()), get_acl("/keep"), multi([create("/z").acl(list)]), delete("/z")],
        );
    }
    for perms in [0, 1, 16, 17, 31, 32, 255, -1, i32::MIN, i32::MAX] {
        all(
            duo,
            a,
            [
                create("/z").acl(anyone(Perms(perms))),
                get_acl("/z"),
                get_data("/z"),
                set_data("/z", "x"),
                delete("/z"),
            ],
        );
    }
    for credentials in ["bob:pw", "eve:pw"] {
        duo.ask(a, auth("digest", credentials));
        for list in [
            only(Perms::ALL, "auth", ""),
            only(Perms::READ, "auth", "whatever"),
            [only(Perms::ALL, "auth", ""), only(Perms::ALL, "auth", "")].concat(),
            [only(Perms::ALL, "auth", ""), only(Perms::ALL, "auth", "x")].concat(),
            [only(Perms::ALL, "auth", ""), only(Perms::READ, "auth", "")].concat(),
            [only(Perms::ALL, "digest", BOB), only(Perms::ALL, "auth", "")].concat(),
            [only(Perms::ALL, "auth", ""), only(Perms::ALL, "digest", BOB)].concat(),
            [only(Perms::ALL, "auth", ""), only(Perms::ALL, "nobody", "x")].concat(),
        ] {
            all(duo, a, [create("/z").acl(list.clone()), get_acl("/z"), delete("/z")]);
            all(duo, a, [multi([create("/z").acl(list), check("/z", 0)]), get_acl("/z"), delete("/z")]);
        }
    }
    clear(duo, a, &["/keep"]);
}

/// Lists with nulls, and ids of odd bytes.
pub fn raw_lists(duo: &mut Duo) {
    let a = duo.connect();
    duo.ask(a, create("/keep"));
    duo.ask(a, auth("digest", "bob:pw"));
    let one = |scheme: &str, id: Option<&str>| {
        let entry = Body::new().int(31).text(scheme);
        if let Some(id) = id { entry.text(id) } else { entry.null() }
    };
    let lists = ["world", "digest", "ip", "auth", "super", "unknown", "sasl"]
        .map(|scheme| Body::new().int(1).append(&one(scheme, None)))
        .into_iter()
        .chain([
            Body::new().int(1).int(31).null().text("anyone"),
            Body::new().int(1).int(31).null().null(),
            Body::new().int(2).append(&one("world", Some("anyone"))).append(&one("world", None)),
            Body::new().int(2).append(&one("world", None)).append(&one("nobody", Some("x"))),
            Body::new().int(1).int(31).bytes(b"world\xff").text("anyone"),
            Body::new().int(1).int(31).text("digest").bytes(b"a\xff:b"),
            Body::new().int(1).int(31).text("digest").bytes(b"a\xed\xa0\x80:b"),
            Body::new().int(1).int(31).text("digest").bytes(b"a\xc0\x80:b"),
            Body::new().int(1).int(31).text("digest").bytes(b"a\xe2\x82:b"),
            Body::new().int(1).int(31).text("digest").bytes(b"a\0:b"),
            Body::new().int(1),
            Body::new().int(3).append(&one("world", Some("anyone"))),
            Body::new().int(i32::MAX),
            Body::new().int(-2),
        ]);
    for (at, list) in lists.enumerate() {
        raw_list(duo, a, &format!("ACL list {at}"), &list);
    }
    let anyone = one("world", Some("anyone"));
    for list in [
        Body::new().int(2).int(31).null().text("x").int(31).null().text("x"),
        Body::new().int(2).append(&anyone).int(31).null().text("anyone"),
        Body::new().int(2).append(&one("nobody", Some("x"))).append(&one("world", None)),
    ] {
        duo.deviates(NULLS, |duo| raw_list(duo, a, "nulls beside other faults", &list));
    }
    clear(duo, a, &["/keep"]);
}

fn raw_list(duo: &mut Duo, a: Conn, what: &str, list: &Body) {
    duo.raw(what, a, OpCode::Create, Body::new().text("/z").bytes(b"").append(list).int(0));
    all(duo, a, [get_acl("/z"), delete("/z")]);
    duo.raw(what, a, OpCode::SetAcl, Body::new().text("/keep").append(list).int(-1));
    all(duo, a, [get_acl("/keep"), set_acl("/keep", Acl::open())]);
    let multi = Body::new().part(1).text("/z").bytes(b"").append(list).int(0).end();
    duo.raw(what, a, OpCode::Multi, multi);
    all(duo, a, [get_acl("/z"), delete("/z")]);
}

pub fn permissions(duo: &mut Duo) {
    let a = duo.connect();
    for perms in 0..32 {
        // Each under a name of its own, as what is locked cannot be taken away again.
        let z = &format!("/z{perms}");
        let below = |name: &str| format!("{z}/{name}");
        all(
            duo,
            a,
            [create(z), create(&below("child")), create(&below("other")), set_acl(z, anyone(Perms(perms)))],
        );
        all(
            duo,
            a,
            [
                exists(z),
                get_data(z),
                get_children(z),
                get_children2(z),
                get_all_children_number(z),
                get_acl(z),
                sync(z),
            ],
        );
        all(
            duo,
            a,
            [set_data(z, "x"), create(&below("new")), delete(&below("child")), multi([check(z, -1)])],
        );
        all(
            duo,
            a,
            [
                multi_read([get_data(z), get_children(z)]),
                exists(z).watch(),
                check_watches(z, 2),
                get_data(z).watch(),
            ],
        );
        all(
            duo,
            a,
            [get_children(z).watch(), check_watches(z, 1), check_watches(z, 2), remove_watches(z, 3)],
        );
        all(duo, a, [multi([create(&below("m")), set_data(z, "y")]), multi([delete(&below("other"))])]);
        all(duo, a, [delete_container(&below("none")), set_acl(z, Acl::open()), get_children2(z), delete(z)]);
    }
}

pub fn identities(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    duo.ask(a, Request::WhoAmI);
    for credentials in ["bob:pw", "bob:pw", "bob:other", "user", "user:", "user:a:b", "", ":", "ä:ö"] {
        all(duo, a, [auth("digest", credentials), Request::WhoAmI]);
    }
    all(duo, a, [auth("ip", ""), auth("ip", "whatever"), Request::WhoAmI]);
    let raw = |bytes: &[u8]| Body::new().int(0).text("digest").bytes(bytes);
    duo.raw("digest of odd bytes", a, OpCode::Auth, raw(b"a\xff\xfe:x"));
    duo.raw("digest of odd bytes", a, OpCode::Auth, raw(b"\xff"));
    duo.raw("digest of odd bytes", a, OpCode::Auth, raw(b"a\0b:x"));
    duo.raw("digest of a type", a, OpCode::Auth, Body::new().int(99).text("digest").bytes(b"typed:x"));
    duo.raw("ip with null", a, OpCode::Auth, Body::new().int(0).text("ip").null());
    duo.ask(a, Request::WhoAmI);
    all(duo, a, [create("/z").acl(only(Perms::ALL, "digest", BOB)), get_data("/z"), get_acl("/z")]);
    all(
        duo,
        b,
        [get_data("/z"), get_acl("/z"), set_data("/z", "x"), auth("digest", "bob:wrong"), get_data("/z")],
    );
    all(duo, b, [auth("digest", "bob:pw"), get_data("/z"), get_acl("/z")]);
    for entry in [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.0/8",
        "127.0.0.0/31",
        "10.0.0.0/0",
        "126.0.0.0/7",
        "::1",
        "::/0",
        "128.0.0.0/1",
    ] {
        all(
            duo,
            b,
            [
                create("/i").acl(only(Perms::ALL, "ip", entry)),
                get_data("/i"),
                set_data("/i", "x"),
                delete("/i"),
            ],
        );
    }
    let again = duo.resume(a, |_| {});
    all(duo, again, [Request::WhoAmI, get_data("/z")]);
    duo.ask(again, Request::Sasl(SaslToken(Some(bytes::Bytes::from_static(b"token")))));
    duo.ask(again, Request::Sasl(SaslToken(Some(bytes::Bytes::new()))));
    clear(duo, b, &["/z"]);
    duo.ask(b, auth("digest", "😀:x"));
    duo.deviates(UTF8, |duo| duo.ask(b, Request::WhoAmI));
}

pub fn masking(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    duo.ask(b, auth("digest", "bob:pw"));
    let entry = |perms, scheme: &str, id: &str| Acl::new(perms, scheme, id);
    let acl = vec![
        entry(Perms::READ, "world", "anyone"),
        entry(Perms::ALL, "digest", BOB),
        entry(Perms::WRITE, "ip", "10.0.0.1"),
    ];
    for list in [
        acl.clone(),
        vec![entry(Perms::READ, "digest", ":x"), entry(Perms::READ, "world", "anyone")],
        vec![entry(Perms::READ | Perms::WRITE, "world", "anyone"), entry(Perms::ADMIN, "digest", "eve:x")],
        vec![entry(Perms::ADMIN, "world", "anyone"), entry(Perms::READ, "digest", "eve:x")],
        vec![entry(Perms::WRITE, "world", "anyone"), entry(Perms::READ, "digest", BOB)],
        vec![entry(Perms::READ, "world", "anyone"), entry(Perms::ALL, "digest", "a:b\nc\u{85}\r\u{2028}d")],
    ] {
        duo.ask(a, create("/z").acl(list));
        for conn in [a, b] {
            all(duo, conn, [get_acl("/z"), get_data("/z")]);
        }
        clear(duo, a, &["/z"]);
    }
    duo.ask(
        a,
        create("/z").acl(vec![entry(Perms::ALL, "digest", "😀:x"), entry(Perms::READ, "world", "anyone")]),
    );
    duo.deviates(UTF8, |duo| duo.ask(a, get_acl("/z")));
    clear(duo, a, &["/z"]);
}

pub fn false_identities(duo: &mut Duo) {
    let packet = |scheme: Option<&str>, auth: Option<&'static [u8]>| {
        let auth = auth.map(bytes::Bytes::from_static);
        Request::Auth(AuthPacket { kind: 0, scheme: scheme.map(Into::into), auth })
    };
    for (scheme, auth) in [
        (Some("world"), Some(&b"anyone"[..])),
        (Some("auth"), Some(b"")),
        (Some("super"), Some(b"super:x")),
        (Some("sasl"), Some(b"x")),
        (Some("x509"), Some(b"x")),
        (Some("unknown"), Some(b"x")),
        (Some(""), Some(b"x")),
        (Some("digest"), None),
        (Some("unknown"), None),
        (None, Some(b"x")),
        (None, None),
    ] {
        let a = duo.connect();
        duo.ask(a, packet(scheme, auth));
        let again = duo.resume(a, |_| {});
        duo.ask(again, Request::CloseSession);
    }
    for (what, op, body) in [
        ("an auth of four bytes", OpCode::Auth, Body::new().int(0)),
        ("an auth cut short", OpCode::Auth, Body::new().int(0).text("digest").int(50)),
        ("an auth without a body", OpCode::Auth, Body::new()),
        ("a sasl without a body", OpCode::Sasl, Body::new()),
        ("a sasl with a null token", OpCode::Sasl, Body::new().null()),
        ("a sasl cut short", OpCode::Sasl, Body::new().int(9)),
    ] {
        let a = duo.connect();
        duo.raw(what, a, op, body);
        let again = duo.resume(a, |_| {});
        duo.ask(again, Request::CloseSession);
    }
}

pub fn super_user(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [create("/z").acl(anyone(Perms::NONE)), get_data("/z"), set_data("/zookeeper/config", "x")]);
    all(duo, a, [auth("digest", "super:wrong"), get_data("/z"), Request::WhoAmI]);
    all(
        duo,
        a,
        [auth("digest", "super:secret"), Request::WhoAmI, get_data("/z"), get_acl("/z"), set_data("/z", "x")],
    );
    all(duo, a, [create("/z/a"), create("/z/b").acl(only(Perms::ALL, "auth", "")), get_acl("/z/b")]);
    all(
        duo,
        a,
        [delete("/z/a"), delete("/z/b"), set_data("/zookeeper/config", "x"), get_data("/zookeeper/config")],
    );
    all(duo, a, [delete("/zookeeper/config"), delete("/zookeeper"), set_acl("/z", vec![]), delete("/")]);
    all(duo, a, [create("/zookeeper/config/x"), delete("/zookeeper/config/x"), exists("/zookeeper/config")]);
    all(duo, a, [auth("digest", "super:secret"), Request::WhoAmI]);
    let again = duo.resume(a, |_| {});
    all(duo, again, [Request::WhoAmI, get_data("/z")]);
    all(
        duo,
        again,
        [auth("digest", "super:secret"), set_acl("/z", Acl::open()), get_acl("/z"), delete("/z")],
    );
}
