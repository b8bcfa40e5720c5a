use zoolet_proto::{OpCode, Perms, Request};
use zoolet_test_support::*;

use super::{NULLS, all, clear};

use crate::frames::duo::Duo;

pub fn parts(duo: &mut Duo) {
    let a = duo.connect();
    duo.ask(a, create("/m"));
    let good = || create("/m/good");
    let bad = || delete("/none");
    for parts in [
        vec![],
        vec![
            create("/m/a"),
            create2("/m/b"),
            container("/m/c"),
            set_data("/m/a", "x"),
            check("/m/a", 1),
            delete("/m/b"),
        ],
        vec![bad(), good(), good()],
        vec![good(), bad(), good()],
        vec![good(), check("/", 0), bad()],
        vec![good(), good(), bad()],
        vec![check("/m", -1)],
        vec![check("/m", 0)],
        vec![check("/m", 5)],
        vec![check("/none", -1)],
        vec![check("m", 0)],
        vec![
            create2("/m/p"),
            create("/m/p/c"),
            set_data("/m/p", "x"),
            set_data("/m/p", "yy"),
            create2("/m/p/d"),
        ],
        vec![delete("/m/p/c"), delete("/m/p/d"), delete("/m/p")],
        vec![delete("/m/a"), delete("/m/c")],
        vec![create("/m/n"), delete("/m/n"), create("/m/n"), delete("/m/n").version(0), create2("/m/n")],
        vec![
            create("/m/v"),
            set_data("/m/v", "1").version(0),
            set_data("/m/v", "2").version(1),
            check("/m/v", 2),
        ],
        vec![ephemeral("/m/e"), create("/m/e/c")],
        vec![ephemeral("/m/e"), create2("/m/f").flags(3), set_data("/m/e", "x")],
        vec![delete("/m/e"), ephemeral("/m/e"), delete("/m/e")],
        vec![create("/m/l").acl(anyone(Perms::READ)), set_data("/m/l", "x")],
        vec![create("/m/l").acl(anyone(Perms::READ)), create("/m/l/x")],
        vec![create("/m/l").acl(anyone(Perms::WRITE)), check("/m/l", 0)],
        vec![create("/m/l").acl(anyone(Perms::NONE)), delete("/m/l")],
        vec![create("/m/l").acl(vec![])],
        vec![create("/m/l").acl(only(Perms::ALL, "nobody", "x")), create("x")],
        vec![create("/m/l").acl(only(Perms::ALL, "auth", ""))],
        vec![delete("/m")],
        vec![set_data("/", "x"), set_data("/zookeeper", "y"), check("/zookeeper/config", 0)],
        vec![set_data("/zookeeper/config", "x")],
        vec![delete("/zookeeper/config")],
        vec![create("/")],
    ] {
        all(duo, a, [multi(parts), get_children2("/m"), exists("/m"), exists("/")]);
    }
    clear(duo, a, &["/m/n", "/m/v"]);
}

/// Every kind of part where it succeeds and where it fails, alone and after one that succeeds.
pub fn each_part(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    all(duo, a, [create("/m"), create("/m/x"), add_watch("/m", 0), add_watch("/m", 1)]);
    all(duo, b, [add_watch("/m", 1), get_children("/m").watch(), get_data("/m").watch()]);
    for path in ["/m", "/m/x", "/m/y", "/m/y/z", "/m/x/z", "m", "/m/", "/m/\u{1}"] {
        for part in [
            create(path),
            create(path).flags(1),
            create(path).flags(2),
            create2(path).flags(3),
            container(path),
            set_data(path, "x"),
            set_data(path, "x").version(1),
            delete(path),
            delete(path).version(1),
            check(path, -1),
            check(path, 1),
        ] {
            duo.ask(a, multi([part.clone()]));
            duo.ask(a, multi([set_data("/m", "first"), part.clone(), set_data("/m", "last")]));
            duo.ask(a, multi([create("/m/y"), part.clone(), delete("/m/y")]));
            duo.ask(a, multi([delete("/m/x"), part, create("/m/x")]));
            all(duo, a, [get_children2("/m"), create("/m/x"), exists("/m/x"), exists("/m/y")]);
        }
    }
}

pub fn flags(duo: &mut Duo) {
    let a = duo.connect();
    for flags in [0, 1, 2, 3, 4, 5, 6, 7, -1, i32::MIN, i32::MAX] {
        for part in [
            create("/f").flags(flags),
            create2("/f").flags(flags),
            container("/f").flags(flags),
            create_ttl("/f", flags, 0),
            create_ttl("/f", flags, 5),
            create_ttl("/f", flags, -1),
        ] {
            all(duo, a, [multi([part.clone()]), exists("/f"), create("/f/c"), delete("/f/c"), delete("/f")]);
            all(duo, a, [multi([create("/f"), part.clone()]), multi([delete("/none"), part]), delete("/f")]);
        }
    }
    duo.ask(a, get_children2("/"));
}

pub fn by_hand(duo: &mut Duo) {
    let a = duo.connect();
    let create = || Body::new().part(1).text("/h").bytes(b"").open_acl().int(0);
    let null_acl_with = |op, flags| Body::new().part(op).text("/h").bytes(b"").null().int(flags);
    let null_acl = |op| null_acl_with(op, 0);
    let no_acl = |op| Body::new().part(op).text("/h").bytes(b"").int(0).int(0);
    let flags = |flags| Body::new().part(1).text("/h").bytes(b"").open_acl().int(flags);
    for op in [OpCode::Multi, OpCode::MultiRead] {
        for (what, body) in [
            ("nothing at all", Body::new()),
            ("only the end", Body::new().end()),
            ("an end that is not done", Body::new().part(-1).end()),
            ("an end of another type", Body::new().int(4).byte(1).int(0)),
            ("an end of type 1 and err 7", create().int(1).byte(1).int(7).text("garbage")),
            ("done is 7", create().int(-1).byte(7).int(-1)),
            ("a part with err 0", Body::new().int(2).byte(0).int(0).text("/none").int(-1).end()),
            ("a create", create().end()),
            ("no end", create()),
            ("half an end", create().int(-1)),
            ("half a part", create().part(1).text("/b")),
            ("a read", Body::new().part(4).text("/").byte(0).end()),
            ("a write, then a read", create().part(4).text("/").byte(0).end()),
            ("a read, then a write", Body::new().part(4).text("/").byte(0).append(&create()).end()),
            ("exists", Body::new().part(3).text("/").byte(0).end()),
            ("getACL", Body::new().part(6).text("/").end()),
            ("setACL", Body::new().part(7).text("/").open_acl().int(-1).end()),
            ("getChildren2", Body::new().part(12).text("/").byte(0).end()),
            ("sync", Body::new().part(9).text("/").end()),
            ("deleteContainer", Body::new().part(20).text("/h").end()),
            ("a multi", Body::new().part(14).end()),
            ("an unknown opcode", Body::new().part(99).end()),
            ("error", Body::new().part(-1).int(0).end()),
            ("closeSession", Body::new().part(-11).end()),
            ("null data", Body::new().part(5).text("/").null().int(-1).end()),
            ("a null ACL in createTTL", null_acl(21).long(5).end()),
            ("a null ACL, then bad flags", null_acl(1).append(&flags(9)).end()),
            ("bad flags, then a null ACL", flags(9).append(&null_acl(1)).end()),
            ("a null ACL with bad flags", null_acl_with(1, 9).end()),
            ("a null ACL", null_acl(1).end()),
            ("a null ACL with the flags of a ttl", null_acl_with(1, 5).end()),
            ("a null ACL with those of a sequential one", null_acl_with(15, 6).end()),
            ("the flags of a ttl", flags(5).end()),
            ("the flags of a ttl, then a null ACL", flags(5).append(&null_acl(1)).end()),
            ("a null ACL in create2", null_acl(15).end()),
            ("a null ACL in createContainer", null_acl(19).end()),
            ("a create, then a null ACL", create().append(&null_acl(1)).end()),
            ("a null ACL, then a create", null_acl(1).append(&create()).end()),
            ("no ACL", no_acl(1).end()),
            (
                "a failed delete, then bad flags",
                Body::new().part(2).text("/none").int(-1).append(&flags(9)).end(),
            ),
        ] {
            duo.raw(what, a, op, body);
            all(duo, a, [exists("/h"), delete("/h")]);
        }
    }
    for (what, body) in [
        ("a getData, then one of null", Body::new().part(4).text("/").byte(0).part(4).null().byte(0).end()),
        (
            "a failed delete, then a null path",
            Body::new().part(2).text("/none").int(-1).part(2).null().int(-1).end(),
        ),
        ("a delete of null", Body::new().part(2).null().int(-1).end()),
        ("a create of null", Body::new().part(1).null().bytes(b"").open_acl().int(0).end()),
        ("a setData of null", Body::new().part(5).null().bytes(b"").int(-1).end()),
        ("a check of null", Body::new().part(13).null().int(-1).end()),
        ("a getData of null", Body::new().part(4).null().byte(0).end()),
        ("a getChildren of null", Body::new().part(8).null().byte(0).end()),
    ] {
        duo.raw(what, a, OpCode::Multi, body.clone());
        duo.deviates(NULLS, |duo| duo.raw(what, a, OpCode::MultiRead, body));
        all(duo, a, [exists("/h"), delete("/h")]);
    }
    for (what, body) in [
        ("a null ACL, then nothing", null_acl(1)),
        ("a null ACL, then a null path", null_acl(1).part(2).null().int(-1).end()),
        ("a null path, then a null ACL", Body::new().part(2).null().int(-1).append(&null_acl(1)).end()),
        ("a null ACL, then a read", null_acl(1).part(4).text("/").byte(0).end()),
        ("a null ACL with a null path", Body::new().part(1).null().bytes(b"").null().int(0).end()),
    ] {
        duo.deviates(NULLS, |duo| duo.raw(what, a, OpCode::Multi, body));
        all(duo, a, [exists("/h"), delete("/h")]);
    }
    duo.ask(a, Request::Ping);
}

pub fn reads(duo: &mut Duo) {
    let a = duo.connect();
    all(
        duo,
        a,
        [create("/r").data("x"), create("/r/a"), create("/r/b"), create("/z").acl(anyone(Perms::WRITE))],
    );
    duo.raw("null data", a, OpCode::SetData, Body::new().text("/r/a").null().int(-1));
    for parts in [
        vec![],
        vec![get_data("/r"), get_children("/r"), get_data("/r/a")],
        vec![get_data("/none"), get_data("/r"), get_children("/none"), get_children("/r/a")],
        vec![get_data("/z"), get_children("/z"), get_data("/")],
        vec![get_data("/r").watch(), get_children("/r").watch()],
        vec![get_data(""), get_children(""), get_data("x"), get_children("/r/"), get_data("\0")],
        vec![create("/x")],
        vec![get_data("/r"), create("/x")],
        vec![check("/r", 0)],
        vec![delete("/r"), delete("/r/a")],
    ] {
        duo.ask(a, multi_read(parts.clone()));
        duo.ask(a, multi(parts));
    }
    all(duo, a, [set_data("/r", "y"), create("/r/c"), check_watches("/r", 3), get_children("/")]);
    clear(duo, a, &["/r/a", "/r/b", "/r/c", "/r", "/z", "/x"]);
}
