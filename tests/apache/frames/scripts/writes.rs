use zoolet_proto::{Acl, OpCode, Perms};
use zoolet_test_support::*;

use super::{NULLS, ODD_PATHS, all, clear};

use crate::frames::duo::Duo;

pub fn creates(duo: &mut Duo) {
    let a = duo.connect();
    for flags in [0, 1, 2, 3, 4, 5, 6, 7, -1, i32::MIN, i32::MAX] {
        all(
            duo,
            a,
            [
                create("/f-").flags(flags),
                create2("/g-").flags(flags).data("some"),
                container("/h-").flags(flags),
                create("/f-").flags(flags),
                get_children2("/"),
                create("/f-/child"),
                create("/g-/child"),
                create("/h-/child"),
            ],
        );
        clear(duo, a, &["/f-/child", "/g-/child", "/h-/child", "/f-", "/g-", "/h-"]);
    }
    for ttl in [0, 1, 5000] {
        for flags in [0, 1, 4, 5, 6, 7, -1] {
            duo.ask(a, create_ttl("/t", flags, ttl));
        }
    }
    // Negative ones with these flags are not asked: they kill the other side.
    for flags in [5, 6, 7] {
        duo.ask(a, create_ttl("/t", flags, -1));
    }
}

pub fn odd_creates(duo: &mut Duo) {
    let a = duo.connect();
    for path in ODD_PATHS {
        all(duo, a, [create(path), create2(path), container(path)]);
        all(duo, a, [exists(path), set_data(path, "x"), set_acl(path, Acl::open()), delete(path)]);
        all(duo, a, [multi([create(path), set_data(path, "x"), delete(path)]), get_children2("/")]);
        duo.ask(a, multi([delete(path)]));
        duo.ask(a, multi([sequential(path), check("/none", 0)]));
    }
    duo.ask(a, create("/a"));
    for path in
        ["/", "/a/", "/a/s-", "//", "/a//", "/a/\u{1}", "/a/.", "/a/..", "", "x", "/none/", "/zookeeper/"]
    {
        duo.ask(a, multi([sequential(path)]));
        duo.ask(a, get_children2("/a"));
        all(duo, a, [sequential(path), get_children2("/a"), get_children2("/")]);
    }
}

pub fn combined_faults(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [create("/n"), create("/n/child"), create("/locked"), create("/locked/in"), ephemeral("/e")]);
    all(duo, a, [set_acl("/locked/in", anyone(Perms::NONE)), set_acl("/locked", anyone(Perms::READ))]);
    let lists = [Acl::open(), vec![], only(Perms::ALL, "nobody", "knows"), only(Perms::ALL, "auth", "")];
    for acl in &lists {
        for path in [
            "x",
            "",
            "/n",
            "/none/x",
            "/none/\u{1}",
            "/locked/x",
            "/locked/\u{1}",
            "/locked/in",
            "/e/x",
            "/e/\u{1}",
            "/\0",
        ] {
            for flags in [0, 1, 2, 4, 5, 9] {
                // What would succeed here succeeded elsewhere.
                duo.ask(a, create(path).flags(flags).acl(acl.clone()));
            }
            for version in [-1, 0, 7] {
                duo.ask(a, set_acl(path, acl.clone()).version(version));
            }
        }
    }
    for path in
        ["/n", "/n/child", "/locked", "/locked/in", "/locked/none", "/e", "/none", "/none/x", "/\u{1}"]
    {
        for version in [7, -2, i32::MIN, i32::MAX] {
            all(duo, a, [set_data(path, "x").version(version), delete(path).version(version)]);
            all(duo, a, [multi([check(path, version)]), multi([set_data(path, "x").version(version)])]);
            duo.ask(a, multi([delete(path).version(version)]));
        }
        all(duo, a, [delete(path), exists(path), get_data(path), get_children2(path), get_acl(path)]);
    }
}

pub fn sequences(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [create("/p"), create("/p/a"), create("/p/b"), delete("/p/a"), sequential("/p/s-")]);
    all(duo, a, [create("/p/b"), create("/p/x-").flags(3), sequential("/p/"), container("/p/c-").flags(2)]);
    all(
        duo,
        a,
        [container("/p/c-").flags(3), create("/p/s-0000000008"), sequential("/p/w-"), get_children2("/p")],
    );
    all(duo, a, [create("/q"), create("/q/s-0000000001"), sequential("/q/s-"), sequential("/q/s-")]);
    all(duo, a, [create("/q/other"), sequential("/q/s-"), exists("/q"), get_children2("/q")]);
    all(
        duo,
        a,
        [
            multi([sequential("/q/m-"), sequential("/q/m-"), create("/q/plain"), sequential("/q/m-")]),
            multi([sequential("/q/m-"), delete("/none")]),
            sequential("/q/m-"),
            multi([create("/new"), sequential("/new/a"), sequential("/new/a"), sequential("/new/")]),
            multi([sequential("/new/a"), delete("/new/a0000000003"), sequential("/new/a")]),
            get_children2("/q"),
            get_children2("/new"),
            create2("/new/b").flags(2),
            create2("/new/b").flags(3),
        ],
    );
}

pub fn versions(duo: &mut Duo) {
    let a = duo.connect();
    duo.ask(a, create2("/v").data("0"));
    for version in [0, 0, 1, -1, 3, 2, -2, i32::MAX, i32::MIN, -1] {
        all(
            duo,
            a,
            [
                set_data("/v", "data").version(version),
                set_acl("/v", Acl::open()).version(version),
                exists("/v"),
            ],
        );
        all(duo, a, [multi([check("/v", version), set_data("/v", "x").version(version)]), get_data("/v")]);
    }
    all(
        duo,
        a,
        [set_acl("/v", anyone(Perms::ALL)), get_acl("/v"), delete("/v").version(1), delete("/v").version(-1)],
    );
    all(
        duo,
        a,
        [
            create2("/v"),
            exists("/v"),
            create2("/v/w"),
            exists("/v"),
            delete("/v/w"),
            exists("/v"),
            delete("/v"),
        ],
    );
}

pub fn nulls(duo: &mut Duo) {
    let a = duo.connect();
    let create = |path: &str| Body::new().text(path).null().open_acl().int(0);
    duo.raw("null data", a, OpCode::Create, create("/null"));
    duo.raw("null data", a, OpCode::Create2, create("/null2"));
    all(duo, a, [get_data("/null"), get_data("/null2"), set_data("/null", ""), get_data("/null")]);
    duo.raw("null data", a, OpCode::SetData, Body::new().text("/null").null().int(-1));
    duo.ask(a, get_data("/null"));
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
        duo.raw("null path", a, op, Body::new().null().bytes(b"").open_acl().int(0));
        for flags in [5, 9] {
            let body = Body::new().null().bytes(b"").open_acl().int(flags);
            duo.deviates(NULLS, |duo| duo.raw("null path, bad flags", a, op, body));
        }
        duo.raw("null path, null ACL", a, op, Body::new().null().bytes(b"").null().int(0));
        duo.raw("null ACL", a, op, Body::new().text("/x").bytes(b"").null().int(0));
        duo.raw("negative count of ACLs", a, op, Body::new().text("/x").bytes(b"").int(-7).int(0));
        duo.raw("no ACL", a, op, Body::new().text("/x").bytes(b"").int(0).int(0));
    }
    for flags in [0, 5, 9] {
        let body = Body::new().null().bytes(b"").open_acl().int(flags).long(0);
        duo.deviates(NULLS, |duo| duo.raw("null path", a, OpCode::CreateTtl, body));
    }
    duo.raw("null path", a, OpCode::Delete, Body::new().null().int(-1));
    duo.raw("null path", a, OpCode::DeleteContainer, Body::new().null());
    duo.raw("null path", a, OpCode::SetData, Body::new().null().bytes(b"").int(-1));
    duo.raw("null path", a, OpCode::SetAcl, Body::new().null().open_acl().int(-1));
    duo.raw("null path, null ACL", a, OpCode::SetAcl, Body::new().null().null().int(-1));
    duo.raw("null ACL", a, OpCode::SetAcl, Body::new().text("/null").null().int(-1));
    for op in [OpCode::Exists, OpCode::GetData, OpCode::GetChildren, OpCode::GetChildren2] {
        duo.raw("null path", a, op, Body::new().null().byte(0));
        duo.raw("null path, watched", a, op, Body::new().null().byte(1));
    }
    for op in [OpCode::GetAcl, OpCode::GetAllChildrenNumber, OpCode::GetEphemerals, OpCode::Sync] {
        duo.raw("null path", a, op, Body::new().null());
    }
    for op in [OpCode::AddWatch, OpCode::CheckWatches, OpCode::RemoveWatches] {
        for number in [0, 1, 2, 3, 4, 5, 9, -1] {
            duo.raw("null path", a, op, Body::new().null().int(number));
        }
    }
    for nulls in 0..3 {
        let lists =
            (0..3).fold(Body::new().long(0), |body, at| if at == nulls { body.null() } else { body.int(0) });
        duo.raw("a null list", a, OpCode::SetWatches, lists);
        let lists = (0..5).fold(
            Body::new().long(0),
            |body, at| {
                if at == nulls + 2 { body.null() } else { body.int(0) }
            },
        );
        duo.raw("a null list", a, OpCode::SetWatches2, lists);
    }
    for list in 0..5 {
        let lists =
            |count| {
                (0..count).fold(Body::new().long(0), |body, at| {
                    if at == list { body.int(1).null() } else { body.int(0) }
                })
            };
        duo.raw("a null path in a list", a, OpCode::SetWatches, lists(3));
        let both = |duo: &mut Duo| duo.raw("a null path in a list", a, OpCode::SetWatches2, lists(5));
        // Apache watches null, and never reports it.
        if list < 3 { both(duo) } else { duo.deviates(NULLS, both) }
    }
    let lists = Body::new().long(0).int(1).text("/null").null().int(0);
    duo.deviates(NULLS, |duo| duo.raw("a null list after another", a, OpCode::SetWatches, lists));
    duo.ask(a, exists("/"));
    clear(duo, a, &["/null", "/null2"]);
}

/// Every character that is one unit in Java, in a path: whether it is valid there.
pub fn characters(duo: &mut Duo) {
    let a = duo.connect();
    let characters: Vec<char> = ('\u{1}'..='\u{ffff}').collect();
    for some in characters.chunks(512) {
        duo.pipeline(a, some.iter().map(|c| set_data(&format!("/none{c}"), "")).collect());
    }
}
