use zoolet_proto::{Acl, Perms, Request};
use zoolet_test_support::*;

use super::{ODD_PATHS, UTF8, all, clear};

use crate::frames::duo::Duo;

pub fn fresh(duo: &mut Duo) {
    let a = duo.connect();
    for path in ["/", "", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        all(
            duo,
            a,
            [
                exists(path),
                get_data(path),
                get_acl(path),
                get_children(path),
                get_children2(path),
                get_all_children_number(path),
            ],
        );
    }
    all(duo, a, [sequential("/"), delete("/0000000000"), exists("/"), Request::WhoAmI]);
    all(duo, a, [create("/zookeeper/mine"), exists("/zookeeper"), delete("/zookeeper/mine")]);
    all(
        duo,
        a,
        [
            set_data("/", "root"),
            get_data("/"),
            set_data("/zookeeper", "x"),
            set_data("/zookeeper/quota", "x"),
        ],
    );
    all(duo, a, [set_data("/zookeeper/config", "x"), set_acl("/zookeeper/config", Acl::open())]);
    all(duo, a, [create("/zookeeper/config/x"), get_children("/zookeeper/config")]);
    all(duo, a, [set_acl("/", anyone(Perms::ALL)), get_acl("/"), exists("/")]);
}

pub fn paths(duo: &mut Duo) {
    let a = duo.connect();
    duo.ask(a, create("/a"));
    for path in ODD_PATHS {
        all(
            duo,
            a,
            [
                exists(path),
                get_data(path),
                get_acl(path),
                get_children(path),
                get_children2(path),
                get_all_children_number(path),
                sync(path),
                get_ephemerals(Some(path)),
                multi_read([get_data(path), get_children(path)]),
                multi([check(path, 0)]),
                check_watches(path, 3),
                add_watch(path, PERSISTENT),
                check_watches(path, 4),
                remove_watches(path, 3),
                set_watches(0, &[path], &[path], &[path]),
                remove_watches(path, 3),
                exists(path).watch(),
                remove_watches(path, 2),
            ],
        );
    }
    clear(duo, a, &["/a"]);
    let path = "/😀";
    all(
        duo,
        a,
        [
            exists(path),
            get_data(path),
            create(path),
            set_data(path, ""),
            delete(path),
            check_watches(path, 3),
        ],
    );
    all(duo, a, [multi([check(path, 0)]), add_watch(path, PERSISTENT), remove_watches(path, 3)]);
    duo.deviates(UTF8, |duo| duo.ask(a, sync(path)));
    duo.deviates(UTF8, |duo| duo.ask(a, set_watches(0, &[path], &[path], &[path])));
}

pub fn reads(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    all(duo, a, [create("/r").data("data"), create2("/r/a"), create2("/r/b").data("x"), create("/r/a/deep")]);
    duo.ask(b, set_data("/r/b", "another session's zxid"));
    for path in ["/r", "/r/a", "/r/b", "/r/none", "/none/none"] {
        all(
            duo,
            a,
            [
                exists(path),
                get_data(path),
                get_acl(path),
                get_children(path),
                get_children2(path),
                get_all_children_number(path),
            ],
        );
        all(duo, b, [multi_read([get_data(path), get_children(path), get_data("/r")])]);
    }
    clear(duo, a, &["/r/a/deep", "/r/a", "/r/b", "/r"]);
}

pub fn ephemerals_by_prefix(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    all(
        duo,
        a,
        [create("/o"), create("/o/p"), container("/o/c"), ephemeral("/o/eph1"), ephemeral("/o/eph2")],
    );
    all(duo, a, [create("/o/s-").flags(3), ephemeral("/other"), exists("/o/eph1")]);
    duo.ask(b, ephemeral("/o/foreign"));
    for prefix in [
        "", " ", "  \t", "/", "\t/\0", " /", "/ ", " /o", "/o ", "/o", "/o/", "/o/e", "/o/eph1", "/o/eph1/",
        "/none", "o", "/oth", "\u{a0}", "\u{2003}",
    ] {
        duo.ask(a, get_ephemerals(Some(prefix)));
    }
    duo.ask(a, get_ephemerals(None));
    duo.ask(b, get_ephemerals(None));
    all(duo, b, [delete("/o/eph1"), exists("/o/eph2")]);
    duo.ask(a, get_ephemerals(None));
    duo.unordered();
    duo.ask(a, Request::CloseSession);
    all(duo, b, [exists("/o"), get_children("/o"), exists("/other"), exists("/")]);
    clear(duo, b, &["/o/foreign", "/o/p", "/o/c", "/o"]);
}
