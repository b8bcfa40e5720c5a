use zoolet_proto::{Acl, Perms, Request};
use zoolet_test_support::*;

use super::{all, clear};

use crate::frames::duo::Duo;

/// Everything that can happen to `/w` and its child.
fn changes() -> Vec<Request> {
    vec![
        create("/w"),
        set_data("/w", "1"),
        set_acl("/w", Acl::open()),
        create("/w/c"),
        set_data("/w/c", "1"),
        create("/w/c/d"),
        delete("/w/c/d"),
        delete("/w/c"),
        multi([check("/w", -1), set_data("/w", "2"), set_data("/w", "3")]),
        multi([create("/w/m"), delete("/w/m")]),
        multi([create("/w/m"), delete("/none")]),
        delete("/w"),
        create("/w"),
        delete("/w"),
    ]
}

pub fn one_shot(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    let watches = [
        exists("/w").watch(),
        get_data("/w").watch(),
        get_children("/w").watch(),
        get_children2("/w").watch(),
    ];
    let parents = [get_children("/").watch(), exists("/").watch(), exists("/w/c").watch()];
    for watch in watches.iter().chain(&parents) {
        // Set once, before it all; then again before each change.
        duo.ask(a, watch.clone());
        all(duo, b, changes());
        for change in changes() {
            duo.ask(a, watch.clone());
            duo.ask(b, change);
        }
        duo.ask(a, remove_watches("/w", 3));
    }
    for change in changes() {
        all(duo, a, watches.iter().chain(&parents).cloned());
        duo.ask(b, change);
    }
    for change in changes() {
        all(duo, a, watches.iter().chain(&parents).cloned());
        duo.ask(a, change);
    }
}

pub fn persistent(duo: &mut Duo) {
    let (a, b, c) = (duo.connect(), duo.connect(), duo.connect());
    for (path, mode) in [
        ("/w", 0),
        ("/w", 1),
        ("/", 0),
        ("/", 1),
        ("/w/c", 0),
        ("/w/c", 1),
        ("", 1),
        ("/w/", 1),
        ("w", 1),
        ("//", 1),
    ] {
        duo.ask(a, add_watch(path, mode));
        all(duo, b, changes());
        duo.ask(a, remove_watches(path, 3));
    }
    // All modes side by side, on several levels and connections.
    for path in ["/", "/w", "/w/c"] {
        for mode in [0, 1] {
            duo.ask(a, add_watch(path, mode));
            duo.ask(a, add_watch(path, mode));
        }
        duo.ask(c, add_watch(path, 1));
        duo.ask(a, exists(path).watch());
        duo.ask(a, get_children(path).watch());
    }
    all(duo, b, changes());
    all(duo, c, changes());
    all(duo, a, changes());
    // Ephemerals that go with their session, seen by it and by others.
    all(duo, b, [create("/w"), ephemeral("/w/e")]);
    all(duo, b, [get_data("/w/e").watch(), get_children("/w").watch(), get_children("/w/e").watch()]);
    duo.ask(b, Request::CloseSession);
    all(duo, a, [exists("/w"), delete("/w")]);
}

pub fn filtered(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    let blind = || anyone(Perms(31 & !1));
    for watches in [
        vec![get_data("/w").watch(), get_children("/w").watch()],
        vec![add_watch("/w", 0)],
        vec![add_watch("/w", 1)],
        vec![add_watch("/", 1), get_children("/").watch()],
        vec![add_watch("/w", 0), add_watch("/w", 1), get_data("/w").watch()],
    ] {
        duo.ask(b, create("/w"));
        all(duo, a, watches.clone());
        all(duo, b, [set_acl("/w", blind()), set_data("/w", "x"), create("/w/c"), set_data("/w/c", "y")]);
        all(duo, b, [set_acl("/w", Acl::open()), set_data("/w", "z"), set_acl("/w/c", blind())]);
        all(duo, a, watches.clone());
        all(duo, b, [set_data("/w/c", "z"), delete("/w/c"), create("/w/s").acl(blind()), delete("/w/s")]);
        all(duo, b, [set_acl("/w", blind()), delete("/w")]);
        duo.ask(a, remove_watches("/w", 3));
        duo.ask(a, remove_watches("/", 3));
    }
    // A watch that is used up though its event is filtered.
    all(duo, a, [exists("/w").watch()]);
    all(duo, b, [create("/w").acl(blind()), set_data("/w", "x")]);
    all(duo, a, [check_watches("/w", 2)]);
    duo.ask(b, delete("/w"));
    // Identities of the moment.
    all(duo, b, [auth("digest", "bob:pw")]);
    for path in ["/w", "/w/c"] {
        duo.ask(a, exists(path).watch());
        duo.ask(b, create(path).acl(only(Perms::ALL, "auth", "")));
        duo.ask(a, auth("digest", "bob:pw"));
    }
    clear(duo, b, &["/w/c", "/w"]);
}

pub fn reconcile(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    all(
        duo,
        b,
        [
            create("/w"),
            create("/w/c"),
            create("/q"),
            set_data("/w", "x"),
            create("/w/d"),
            set_data("/w/c", "x"),
        ],
    );
    duo.ask(b, create("/z").acl(anyone(Perms::NONE)));
    let paths = ["/w", "/w/c", "/w/d", "/q", "/z", "/gone", "/", "", "x", "/w/"];
    for relative in [0, -1, i64::MIN, i64::MAX] {
        duo.ask(a, set_watches(relative, &paths, &[], &[]));
        duo.ask(a, set_watches(relative, &[], &paths, &[]));
        duo.ask(a, set_watches(relative, &[], &[], &paths));
        duo.ask(a, set_watches(relative, &["/w", "/w", "/gone"], &["/w", "/gone"], &["/w", "/w"]));
        duo.ask(a, set_persistent_watches(relative, &paths, &["/w", "/gone"]));
        for path in paths {
            for kind in 1..=5 {
                duo.ask(a, check_watches(path, kind));
            }
            duo.ask(a, remove_watches(path, 3));
        }
    }
    for back in 0..8 {
        duo.ask_since(a, back, |since| {
            set_watches(since, &["/w", "/w/c", "/w/d", "/q"], &[], &["/w", "/w/c", "/q"])
        });
        all(duo, a, paths.map(|path| remove_watches(path, 3)));
    }
    all(
        duo,
        a,
        [
            set_watches(i64::MAX, &["/w"], &["/gone"], &["/w", "/q"]),
            set_persistent_watches(0, &["/p"], &["/r"]),
        ],
    );
    all(
        duo,
        b,
        [set_data("/w", "y"), create("/gone"), create("/w/e"), create("/q/x"), create("/p"), create("/r")],
    );
    all(
        duo,
        b,
        [
            set_data("/p", "x"),
            create("/r/x"),
            set_data("/r/x", "y"),
            delete("/r/x"),
            create("/p/x"),
            delete("/p/x"),
        ],
    );
    clear(duo, b, &["/r", "/p", "/q/x", "/q", "/gone", "/w/e", "/w/d", "/w/c", "/w", "/z"]);
}

pub fn removal(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    duo.ask(b, create("/w"));
    let watches = [
        get_data("/w").watch(),
        exists("/w").watch(),
        get_children("/w").watch(),
        add_watch("/w", 0),
        add_watch("/w", 1),
    ];
    for watch in &watches {
        for kind in [1, 2, 3, 4, 5, 0, 6, -1, i32::MAX] {
            all(duo, a, [watch.clone(), check_watches("/w", kind), remove_watches("/w", kind)]);
            all(duo, a, [check_watches("/w", 3), remove_watches("/w", kind), remove_watches("/w", 3)]);
        }
    }
    for kind in 1..=5 {
        all(duo, a, watches.clone());
        duo.ask(a, remove_watches("/w", kind));
        all(duo, a, (1..=5).map(|kind| check_watches("/w", kind)));
        all(duo, b, [set_data("/w", "x"), create("/w/c"), delete("/w/c")]);
        duo.ask(a, remove_watches("/w", 3));
        all(duo, b, [set_data("/w", "x"), create("/w/c"), delete("/w/c")]);
    }
    all(
        duo,
        a,
        [add_watch("/w", 1), check_watches("/w/c", 5), remove_watches("/w/c", 3), remove_watches("/", 3)],
    );
    duo.ask(b, remove_watches("/w", 3));
    duo.ask(b, delete("/w"));
}

pub fn odd(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    for mode in [-1, 2, 3, i32::MAX, i32::MIN] {
        duo.ask(a, add_watch("/w", mode));
    }
    // Watches of a connection that is left and of a session that moves.
    all(duo, a, [exists("/w").watch(), add_watch("/w", 0), add_watch("/", 1)]);
    let again = duo.resume(a, |_| {});
    all(duo, again, [check_watches("/w", 3)]);
    all(duo, b, [create("/w"), delete("/w")]);
    duo.ask(again, exists("/w").watch());
    duo.cut(again);
    all(duo, b, [create("/w"), delete("/w")]);
}
