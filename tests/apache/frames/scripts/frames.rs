use bytes::BytesMut;
use zoolet_proto::records::Reconfig;
use zoolet_proto::{Acl, OpCode, Perms, Request, Xid};
use zoolet_test_support::*;

use super::{all, clear};

use crate::frames::duo::{Duo, framed};

pub fn opcodes(duo: &mut Duo) {
    let session = duo.connect();
    let mut conn = session;
    for op in (-13..=30).chain(95..=115).chain([1000, i32::MIN, i32::MAX, -100, 255, 256]) {
        // These end a session, or are answered by a handshake: they have their own steps.
        if [OpCode::CloseSession.code(), OpCode::CreateSession.code()].contains(&op) {
            continue;
        }
        duo.raw_op("an empty body", conn, op, Body::new());
        if !duo.is_ready(conn) {
            conn = duo.resume(session, |_| {});
        }
    }
    for body in [Body::new(), Body::new().text("/"), Body::new().text("/").int(0)] {
        duo.raw("a top-level check", conn, OpCode::Check, body);
        conn = duo.resume(session, |_| {});
    }
    all(duo, conn, [check("/", -1)]);
    conn = duo.resume(session, |_| {});
    duo.ask(conn, exists("/"));
}

pub fn reconfig(duo: &mut Duo) {
    let a = duo.connect();
    duo.raw("an empty body", a, OpCode::Reconfig, Body::new());
    for config in [-1, 0, 5] {
        let (joining, leaving) = (Some("server.1=localhost:1:2;3".into()), Some("1".into()));
        all(
            duo,
            a,
            [Request::Reconfig(Reconfig { joining, leaving, new_members: None, config }), exists("/")],
        );
        let nothing = Reconfig { joining: None, leaving: None, new_members: None, config };
        all(duo, a, [Request::Reconfig(nothing), exists("/")]);
    }
}

/// A request of every kind that a session survives.
fn every_request() -> Vec<Request> {
    vec![
        create("/f"),
        create2("/g"),
        container("/h"),
        create_ttl("/t", 5, 1000),
        set_data("/f", "data"),
        set_acl("/f", Acl::open()),
        exists("/f"),
        get_data("/f"),
        get_acl("/f"),
        get_children("/"),
        get_children2("/"),
        get_all_children_number("/"),
        get_ephemerals(Some("/")),
        sync("/f"),
        multi([create("/f/a"), set_data("/f/a", "x"), check("/f/a", 1), delete("/f/a")]),
        multi_read([get_data("/f"), get_children("/f")]),
        add_watch("/f", 0),
        check_watches("/f", 4),
        remove_watches("/f", 4),
        set_watches(i64::MAX, &["/f"], &["/none"], &["/f"]),
        set_persistent_watches(0, &["/f"], &["/g"]),
        Request::Reconfig(Reconfig { joining: None, leaving: None, new_members: None, config: -1 }),
        remove_watches("/f", 3),
        remove_watches("/g", 3),
        Request::WhoAmI,
        delete_container("/h"),
        delete("/g"),
        delete("/f"),
    ]
}

fn payload_of(request: &Request, xid: i32) -> Vec<u8> {
    let mut wire = BytesMut::new();
    request.encode_frame(Xid(xid), &mut wire);
    wire[4..].to_vec()
}

/// Every request with its last bytes missing, one after the other, and with some too many.
pub fn cuts(duo: &mut Duo) {
    let a = duo.connect();
    for request in every_request() {
        let payload = payload_of(&request, 0);
        for cut in 8..payload.len() {
            let body = Body::from_bytes(&payload[8..cut]);
            duo.raw(&format!("{cut} bytes of {request:?}"), a, request.op(), body);
        }
        let body = Body::from_bytes(&payload[8..]).text("after the record");
        duo.raw(&format!("more than {request:?}"), a, request.op(), body);
    }
    clear(duo, a, &["/f/a", "/f", "/g", "/h"]);
}

/// Every request with each byte of its body replaced.
pub fn odd_bytes(duo: &mut Duo) {
    let session = duo.connect();
    let mut a = session;
    for request in every_request() {
        let payload = payload_of(&request, 0);
        for at in 8..payload.len() {
            for byte in [0xff, 0x80, 0, 2, b'/'] {
                let mut body = payload[8..].to_vec();
                body[at - 8] = byte;
                // A ttl below zero without its flags kills the other side.
                if request.op() == OpCode::CreateTtl && at >= payload.len() - 12 {
                    continue;
                }
                duo.raw(
                    &format!("{request:?} with byte {at} {byte:#x}"),
                    a,
                    request.op(),
                    Body::from_bytes(&body),
                );
                if !duo.is_ready(a) {
                    a = duo.resume(session, |_| {});
                }
            }
        }
        duo.ask(a, remove_watches("/f", 3));
        clear(duo, a, &["/f/a", "/f", "/g", "/h"]);
    }
}

pub fn xids(duo: &mut Duo) {
    let a = duo.connect();
    for xid in [1, 0, -3, -4, -8, -77, i32::MAX, i32::MIN] {
        for request in
            [exists("/"), auth("ip", ""), set_watches(0, &[], &[], &[]), create("/x"), delete("/x")]
        {
            duo.ask_as(a, xid, request);
        }
        duo.ask_as(a, xid, exists("/none"));
        duo.ask_as(a, xid, Request::Ping);
    }
}

pub fn lengths(duo: &mut Duo) {
    for length in [0i32, -1, i32::MIN, 0x10_0000, i32::MAX] {
        let a = duo.connect();
        duo.bytes(&format!("length {length}"), a, &length.to_be_bytes());
        let again = duo.resume(a, |_| {});
        duo.ask(again, Request::CloseSession);
        let fresh = duo.open();
        duo.bytes(&format!("length {length} at first"), fresh, &length.to_be_bytes());
    }
    for header in 1..8 {
        let a = duo.connect();
        duo.bytes(&format!("a frame of {header} bytes"), a, &framed(&vec![0; header]));
        let again = duo.resume(a, |_| {});
        duo.ask(again, Request::CloseSession);
    }
    let a = duo.connect();
    duo.bytes("a word of four letters after the handshake", a, b"ruok");
    let a = duo.connect();
    for fill in [0xf_ffff - 8 - 4 - 2 - 4 - 4, 0xf_ffff - 8 - 4 - 2 - 4 - 4 - 1] {
        duo.ask(a, create("/l"));
        let data = "x".repeat(fill);
        all(duo, a, [set_data("/l", &data), exists("/l"), get_data("/l"), delete("/l")]);
    }
    // More than a request may be long: replies are not bounded.
    let long = "n".repeat(900_000);
    duo.ask(a, create("/l"));
    for last in ["1", "2"] {
        duo.ask(a, create(&format!("/l/{long}{last}")));
    }
    all(
        duo,
        a,
        [get_children("/l"), delete(&format!("/l/{long}1")), delete(&format!("/l/{long}2")), delete("/l")],
    );
}

pub fn pipelines(duo: &mut Duo) {
    let a = duo.connect();
    duo.pipeline(
        a,
        vec![
            create("/p"),
            create("/p/a"),
            set_data("/p/a", "x").version(0),
            get_data("/p/a"),
            delete("/p/a"),
        ],
    );
    duo.pipeline(
        a,
        vec![exists("/w").watch(), create("/w"), get_data("/w").watch(), set_data("/w", "x"), get_data("/w")],
    );
    duo.pipeline(
        a,
        vec![
            get_children("/p").watch(),
            multi([create("/p/b"), set_data("/w", "y")]),
            get_children2("/p"),
            delete("/p/b"),
        ],
    );
    duo.pipeline(
        a,
        vec![add_watch("/p", 1), create("/p/c"), ephemeral("/p/c"), delete("/p/c"), Request::WhoAmI],
    );
    duo.pipeline(a, (0..50).map(|n| create(&format!("/p/n{n}"))).collect());
    duo.pipeline(a, (0..50).map(|n| delete(&format!("/p/n{n}"))).collect());
    duo.pipeline(a, (0..50).map(|_| create("/p/s-").flags(3)).collect());
    duo.pipeline(a, vec![remove_watches("/p", 3), delete("/w"), get_children2("/p")]);
    // What follows a closeSession is dropped, or refused in a race whose end is not visible.
    duo.unordered();
    duo.ask(a, Request::CloseSession);
    let b = duo.connect();
    all(duo, b, [get_children2("/p"), delete("/p")]);
}

/// Batches in which each request needs what those before it have left, or what they were refused.
pub fn dependent_pipelines(duo: &mut Duo) {
    let a = duo.connect();
    let unreadable = || anyone(Perms(31 & !1));
    for batch in [
        vec![
            create("/p"),
            create("/p"),
            delete("/p"),
            delete("/p"),
            create2("/p"),
            set_data("/p", "1").version(0),
        ],
        vec![
            set_data("/p", "2").version(0),
            set_data("/p", "3").version(1),
            get_data("/p"),
            delete("/p").version(2),
        ],
        vec![container("/p"), create("/p/a"), delete("/p/a"), delete_container("/p"), exists("/p")],
        vec![create("/p"), ephemeral("/p/e"), create("/p/e/c"), delete_container("/p/e"), delete("/p/e")],
        vec![multi([create("/p/x"), create("/p/x/y"), delete("/none")]), create("/p/x"), get_children("/p")],
        vec![multi([sequential("/p/s"), delete("/none")]), sequential("/p/s"), multi([sequential("/p/s")])],
        vec![
            create("/p/l").acl(unreadable()),
            get_data("/p/l"),
            delete("/p/l"),
            get_children("/p"),
            delete("/p/x"),
        ],
        vec![
            add_watch("/", 1),
            create("/q"),
            multi([set_data("/q", "1"), set_data("/q", "2")]),
            delete("/q"),
        ],
        vec![
            remove_watches("/", 5),
            remove_watches("/", 5),
            create("/q"),
            exists("/q").watch(),
            delete("/q"),
        ],
        vec![
            exists("/q").watch(),
            create("/q"),
            get_data("/q").watch(),
            multi([set_data("/q", "a"), delete("/q")]),
        ],
        vec![
            multi([]),
            multi([check("/", -1)]),
            Request::WhoAmI,
            set_data("/", "r"),
            multi([set_data("/", "s")]),
        ],
        vec![container("/q").flags(1), create("/q/c"), delete("/q/c"), delete("/q"), get_ephemerals(None)],
    ] {
        duo.pipeline(a, batch);
    }
    for name in ["s0000000002", "s0000000003"] {
        duo.ask(a, delete(&format!("/p/{name}")));
    }
    duo.ask(a, get_children2("/p"));
    clear(duo, a, &["/p"]);
    // What a session leaves that has made and deleted its ephemerals in the same breath.
    for parts in [
        vec![ephemeral("/z"), delete("/z"), create("/z")],
        vec![create("/z"), delete("/z"), ephemeral("/z")],
        vec![ephemeral("/z"), multi([delete("/z"), create("/z")])],
        vec![ephemeral("/z"), multi([delete("/z"), create("/z"), delete("/none")])],
        vec![container("/z"), ephemeral("/z/e"), delete("/z/e"), multi([ephemeral("/z/f")])],
    ] {
        let b = duo.connect();
        duo.pipeline(b, parts.into_iter().chain([exists("/z"), Request::CloseSession]).collect());
        all(duo, a, [exists("/z"), delete("/z")]);
    }
}
