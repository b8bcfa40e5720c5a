use bytes::BytesMut;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Request, SessionId, Zxid};
use zoolet_test_support::*;

use super::all;

use crate::frames::duo::{Duo, framed, new_session};

pub fn handshakes(duo: &mut Duo) {
    for timeout in [1, -5, 0, 3_999, 4_000, 10_000, 40_000, 40_001, 1_000_000_000, i32::MIN, i32::MAX] {
        let a = duo.open();
        duo.hello(a, &ConnectRequest { timeout, ..new_session() });
        duo.ask(a, Request::CloseSession);
    }
    for read_only in [None, Some(false), Some(true)] {
        for protocol_version in [0, 7, -1] {
            let a = duo.open();
            duo.hello(a, &ConnectRequest { read_only, protocol_version, ..new_session() });
            duo.ask(a, Request::CloseSession);
            let b = duo.open();
            let session = SessionId(12_345);
            duo.hello(b, &ConnectRequest { read_only, protocol_version, session, ..new_session() });
        }
    }
    for password in [None, Some(vec![]), Some(vec![1; 5]), Some(vec![9; 16]), Some(vec![9; 100])] {
        let a = duo.open();
        duo.hello(a, &ConnectRequest { password: password.map(Into::into), ..new_session() });
        duo.ask(a, Request::CloseSession);
    }
    for seen in [i64::MIN, -1, i64::MAX, 1 << 40] {
        let a = duo.open();
        duo.hello(a, &ConnectRequest { last_zxid_seen: Zxid(seen), ..new_session() });
        if duo.is_ready(a) {
            duo.ask(a, Request::CloseSession);
        }
    }
    for session in [1, -1, i64::MIN, i64::MAX, 77] {
        let a = duo.open();
        duo.hello(a, &ConnectRequest { session: SessionId(session), ..new_session() });
    }
    let mut wire = BytesMut::new();
    new_session().encode_frame(&mut wire);
    for cut in 1..wire.len() - 4 {
        let a = duo.open();
        duo.bytes(&format!("a handshake of {cut} bytes"), a, &framed(&wire[4..4 + cut]));
    }
    let a = duo.open();
    duo.bytes("a handshake followed by more", a, &framed(&[&wire[4..], b"more"].concat()));
    let a = duo.open();
    let mut lies = wire[4..].to_vec();
    lies[27] = 200;
    duo.bytes("a handshake with a password that is not there", a, &framed(&lies));
    lies[24..28].copy_from_slice(&(-2i32).to_be_bytes());
    let a = duo.open();
    duo.bytes("a handshake with a password of length -2", a, &framed(&lies));
    let a = duo.open();
    let mut odd = wire[4..].to_vec();
    odd[44] = 7;
    duo.bytes("a readOnly byte of 7", a, &framed(&odd));
}

pub fn moves(duo: &mut Duo) {
    let a = duo.connect();
    all(duo, a, [ephemeral("/e"), exists("/x").watch(), auth("digest", "bob:pw")]);
    let mut b = duo.resume(a, |_| {});
    all(duo, b, [exists("/e"), get_ephemerals(None), Request::WhoAmI, create("/x"), delete("/x")]);
    for timeout in [1, 20_000, 1_000_000, -1] {
        b = duo.resume(a, |request| request.timeout = timeout);
        duo.ask(b, exists("/"));
    }
    for read_only in [None, Some(true), Some(false)] {
        b = duo.resume(a, |request| request.read_only = read_only);
        duo.ask(b, exists("/"));
        for password in [None, Some(vec![0; 16]), Some(vec![0; 5]), Some(vec![]), Some(vec![0; 17])] {
            duo.resume(a, |request| {
                request.read_only = read_only;
                request.password = password.clone().map(Into::into);
            });
            b = duo.resume(a, |_| {});
            all(duo, b, [exists("/e"), Request::Ping]);
        }
    }
    let c = duo.resume(a, |request| request.last_zxid_seen = Zxid(i64::MAX));
    assert!(!duo.is_ready(c));
    duo.ask(b, exists("/e"));
    duo.cut(b);
    b = duo.resume(a, |request| request.last_zxid_seen = Zxid(-1));
    all(duo, b, [exists("/e"), delete("/e")]);
    // A second handshake, which is a request to a server that has had its first.
    let mut wire = BytesMut::new();
    new_session().encode_frame(&mut wire);
    duo.bytes("a second handshake", b, &wire);
}

pub fn ends(duo: &mut Duo) {
    let (a, watcher) = (duo.connect(), duo.connect());
    all(duo, a, [create("/p"), create("/p/q"), ephemeral("/p/q/e"), container("/p/c")]);
    all(
        duo,
        watcher,
        [exists("/p/q/e").watch(), get_children("/p/q").watch(), add_watch("/p", 1), add_watch("/p/q", 0)],
    );
    all(duo, a, [exists("/p/q/e").watch(), get_children("/p/q").watch()]);
    duo.ask(a, Request::CloseSession);
    all(duo, watcher, [exists("/p/q"), get_children2("/p"), exists("/p/q/e")]);
    let late = duo.resume(a, |_| {});
    assert!(!duo.is_ready(late));
    // createSession from a client: the server sends the connect response again.
    let b = duo.connect();
    all(duo, b, [ephemeral("/p/c/e"), exists("/p/c")]);
    duo.raw("createSession", b, zoolet_proto::OpCode::CreateSession, Body::new().int(5_000));
    all(duo, b, [exists("/"), exists("/p/c/e")]);
    duo.raw("createSession of nothing", b, zoolet_proto::OpCode::CreateSession, Body::new());
    duo.ask(b, exists("/"));
    duo.raw("closeSession with a body", b, zoolet_proto::OpCode::CloseSession, Body::new().text("bye"));
    all(duo, watcher, [exists("/p/c/e"), exists("/p/c"), delete("/p/c"), delete("/p/q"), delete("/p")]);
}
