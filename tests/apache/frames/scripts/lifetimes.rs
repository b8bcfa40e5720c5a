use zoolet_proto::{OpCode, Request};
use zoolet_test_support::*;

use super::{all, clear};

use crate::frames::duo::{Conn, Duo};

const LIMITS: &str = "/zookeeper/quota/q/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

fn quota(duo: &mut Duo, conn: Conn, limits: &str) {
    all(
        duo,
        conn,
        [create("/zookeeper/quota/q"), create(LIMITS).data(limits), create2(STATS).data("count=0,bytes=0")],
    );
    all(duo, conn, [get_data(STATS), exists(STATS)]);
}

pub fn quota_statistics(duo: &mut Duo) {
    let (a, b) = (duo.connect(), duo.connect());
    all(duo, a, [create("/q").data("12"), create("/q/a").data("345"), create("/qq"), create("/q/a/deep")]);
    quota(duo, a, "count=5,bytes=-1");
    duo.ask(b, get_data(STATS).watch());
    for request in [
        create("/q/b").data("x"),
        set_data("/q/a", "longer"),
        set_data("/q/a", ""),
        delete("/q/b"),
        create("/qq/x"),
        delete("/qq/x"),
        ephemeral("/q/e"),
        container("/q/c"),
        sequential("/q/s-"),
        multi([create("/q/m").data("four"), set_data("/q/m", "sixsix"), delete("/q/a/deep")]),
        multi([create("/q/n").data("four"), delete("/none")]),
        set_acl("/q", anyone(zoolet_proto::Perms::ALL)),
        set_data("/q", "top"),
    ] {
        all(duo, a, [request, get_data(STATS)]);
    }
    duo.raw("null data", a, OpCode::SetData, Body::new().text("/q/m").null().int(-1));
    all(
        duo,
        a,
        [
            get_data(STATS),
            exists(STATS),
            set_data(STATS, "count=100,bytes=100"),
            create("/q/d").data("x"),
            get_data(STATS),
        ],
    );
    all(duo, a, [set_data(STATS, "count=7,bytes=8"), create("/q/f").data("x"), get_data(STATS)]);
    // A quota below a quota.
    all(duo, a, [create("/q/in"), create("/q/in/x").data("yz"), create("/zookeeper/quota/q/in")]);
    all(duo, a, [create("/zookeeper/quota/q/in/zookeeper_limits").data("count=1,bytes=1")]);
    all(
        duo,
        a,
        [create("/zookeeper/quota/q/in/zookeeper_stats"), get_data("/zookeeper/quota/q/in/zookeeper_stats")],
    );
    all(
        duo,
        a,
        [create("/q/in/y").data("abc"), get_data("/zookeeper/quota/q/in/zookeeper_stats"), get_data(STATS)],
    );
    all(duo, a, [delete("/zookeeper/quota/q/in/zookeeper_limits"), create("/q/in/z"), get_data(STATS)]);
    all(duo, a, [get_data("/zookeeper/quota/q/in/zookeeper_stats"), delete("/q/in/z"), get_data(STATS)]);
    // Statistics without limits, limits without statistics.
    all(
        duo,
        a,
        [delete(LIMITS), create("/q/g"), get_data(STATS), create(LIMITS), create("/q/h"), get_data(STATS)],
    );
    all(
        duo,
        a,
        [
            delete(STATS),
            create("/q/i"),
            exists(STATS),
            create(STATS),
            get_data(STATS),
            delete("/q/i"),
            get_data(STATS),
        ],
    );
    all(duo, a, [set_data(LIMITS, "garbage"), create("/q/i"), get_data(STATS), get_data(LIMITS)]);
    // Quotas of what does not exist, and of system znodes.
    all(duo, a, [create("/zookeeper/quota/none"), create("/zookeeper/quota/none/zookeeper_limits")]);
    all(
        duo,
        a,
        [create("/zookeeper/quota/none/zookeeper_stats"), get_data("/zookeeper/quota/none/zookeeper_stats")],
    );
    all(
        duo,
        a,
        [create("/none").data("xx"), get_data("/zookeeper/quota/none/zookeeper_stats"), delete("/none")],
    );
    duo.ask(a, get_data("/zookeeper/quota/none/zookeeper_stats"));
    let c = duo.connect();
    all(duo, c, [ephemeral("/q/c/e"), get_data(STATS)]);
    duo.ask(c, Request::CloseSession);
    all(duo, a, [get_data(STATS), get_children2("/q"), get_all_children_number("/q")]);
    clear(
        duo,
        a,
        &[
            "/zookeeper/quota/none/zookeeper_stats",
            "/zookeeper/quota/none/zookeeper_limits",
            "/zookeeper/quota/none",
            "/zookeeper/quota/q/in/zookeeper_stats",
            "/zookeeper/quota/q/in",
            STATS,
            LIMITS,
            "/zookeeper/quota/q",
            "/q/a",
            "/q/d",
        ],
    );
}

pub fn quota_enforced(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [create("/q"), ephemeral("/q/e")]);
    for limits in [
        "count=1,bytes=1",
        "count=1,bytes=1=;byteHardLimit=-1;countHardLimit=-1",
        "count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=4",
        "count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0",
        "count=-1,bytes=-1;byteHardLimit=4;countHardLimit=4",
        "count=-1,bytes=-1,byteHardLimit=4,countHardLimit=4",
        "byteHardLimit=4",
        "countHardLimit=4",
        "",
    ] {
        quota(duo, a, limits);
        all(duo, a, [create("/q/a").data("12"), create("/q/b").data("345"), create("/q/b").data("34")]);
        all(
            duo,
            a,
            [
                create("/q/c"),
                create("/q/d"),
                set_data("/q/a", "123"),
                set_data("/q/a", "1"),
                set_data("/q/b", "345"),
            ],
        );
        all(
            duo,
            a,
            [
                set_data("/q/b", "3456").version(9),
                set_data("/q/none", "xxxxxx"),
                create("/q/e"),
                create("/q/e/x"),
            ],
        );
        all(
            duo,
            a,
            [
                create("/q/e").data("xxxxxxx"),
                create("/q/\u{1}").data("xxxxxxx"),
                get_data(STATS),
                set_data("/q", "12345"),
            ],
        );
        all(
            duo,
            a,
            [
                sequential("/q/s-").data("xxxxxx"),
                container("/q/f"),
                get_data(STATS),
                set_data("/q", ""),
                get_data(STATS),
            ],
        );
        clear(duo, a, &["/q/a", "/q/b", "/q/c", "/q/d", "/q/f", STATS, LIMITS, "/zookeeper/quota/q"]);
    }
    quota(duo, a, "count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0");
    all(
        duo,
        a,
        [create("/q/a"), delete(STATS), create("/q/a").data("x"), set_data("/q/a", "more"), create(STATS)],
    );
    all(
        duo,
        a,
        [
            get_data(STATS),
            create("/q/b"),
            set_data("/q/a", "less"),
            set_data("/q/a", "more and more"),
            set_data("/q/a", ""),
        ],
    );
    for number in 0..60 {
        clear(duo, a, &[&format!("/q/s-{number:010}")]);
    }
    clear(duo, a, &["/q/a", "/q/b", STATS, LIMITS, "/zookeeper/quota/q", "/q/e", "/q"]);
}

pub fn quota_in_multi(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [create("/q"), get_children("/q")]);
    quota(duo, a, "count=-1,bytes=-1=;byteHardLimit=6;countHardLimit=3");
    for parts in [
        vec![create("/q/a").data("123456"), delete("/q/a")],
        vec![create("/q/a").data("1234567")],
        vec![set_data("/q", "1234567")],
        vec![set_data("/q", "123"), delete("/none")],
        vec![create("/other").data("1234567"), delete("/other")],
        vec![set_data("/q", "123"), set_data("/q", "123456"), set_data("/q", "")],
        vec![create("/q/a"), create("/q/b")],
        vec![create("/q/c")],
    ] {
        all(duo, a, [multi(parts), get_data(STATS), get_children2("/q")]);
    }
    duo.deviates("a hard quota holds for the parts of a multi together", |duo| {
        duo.ask(a, multi([delete("/q/a"), create("/q/c")]));
        duo.ask(a, multi([create("/q/a"), delete("/q/b"), create("/q/b"), create("/q/d")]));
        clear(duo, a, &["/q/d", "/q/c", "/q/a", "/q/b"]);
    });
    clear(duo, a, &[STATS, LIMITS, "/zookeeper/quota/q", "/q"]);
}

pub fn ttl_off(duo: &mut Duo) {
    let a = duo.connect();
    for flags in [5, 6] {
        for ttl in [i64::MIN, -1, 0, 1, 1 << 40] {
            all(duo, a, [create_ttl("/t", flags, ttl), multi([create_ttl("/t", flags, ttl)]), exists("/t")]);
        }
        all(duo, a, [create("/t").flags(flags), create2("/t").flags(flags), container("/t").flags(flags)]);
    }
}

pub fn ttl_on(duo: &mut Duo) {
    let a = duo.connect();
    for flags in [5, 6] {
        for ttl in [i64::MIN, -1, 0, 1, 5, 0xff_ffff_ffff, 0x100_0000_0000, i64::MAX] {
            all(
                duo,
                a,
                [
                    create_ttl("/t", flags, ttl),
                    exists("/t"),
                    create("/t/c"),
                    ephemeral("/t/e"),
                    delete("/t/e"),
                ],
            );
            clear(duo, a, &["/t/c", "/t"]);
        }
        all(duo, a, [create("/t").flags(flags), create2("/t").flags(flags), container("/t").flags(flags)]);
    }
    for flags in [0, 1, 2, 3, 4, 7, -1] {
        for ttl in [0, 1, 1000] {
            duo.ask(a, create_ttl("/t", flags, ttl));
        }
    }
    all(
        duo,
        a,
        [create_ttl("/t", 5, 1_000_000), get_ephemerals(None), delete_container("/t"), get_children2("/")],
    );
}

pub fn ttl_in_multi(duo: &mut Duo) {
    let a = duo.connect();
    for flags in [0, 1, 2, 3, 4, 5, 6, 7, -1] {
        for ttl in [i64::MIN, -1, 0, 1_000_000, 0xff_ffff_ffff, 0x100_0000_0000] {
            all(duo, a, [multi([create_ttl("/t", flags, ttl)]), exists("/t"), delete("/t")]);
            duo.ask(
                a,
                multi([create("/u"), create_ttl("/u/t", flags, ttl), create("/u/t/x"), delete("/none")]),
            );
        }
    }
    duo.ask(a, get_children2("/"));
}

pub fn containers_deleted(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [container("/c"), create("/c/x"), create("/p"), ephemeral("/e"), get_children("/").watch()]);
    for path in [
        "/c",
        "/c/x",
        "/c",
        "/p",
        "/e",
        "/none",
        "/none/x",
        "",
        "x",
        "x/y",
        "/",
        "/zookeeper",
        "/\0",
        "/c/",
        "//",
    ] {
        all(duo, a, [delete_container(path), get_children2("/")]);
    }
    clear(duo, a, &["/e", "/p", "/c/x", "/c"]);
}
