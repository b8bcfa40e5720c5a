//! The bytes that a real client and a real server exchanged, checked in both directions: they decode to the expected values,
//! and the values encode to the same bytes.

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{
    AddWatch, AuthPacket, CheckVersion, ClientInfo, ConnectRequest, ConnectResponse, Create, Delete,
    GetChildren, GetData, Op, OpResult, SetData, SetWatches, WatchedEvent,
};
use zoolet_proto::{
    AclList, ErrorCode, EventType, Incoming, KeeperState, OpCode, Reply, ReplyHeader, Request, SessionId,
    Stat, Xid, Zxid, frame, jute,
};

/// Parses hex; spaces are ignored.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("hex") as u8;
    let byte = |pair: &[u8]| digit(pair[0]) << 4 | digit(pair[1]);
    digits.chunks(2).map(byte).collect()
}

fn payload(wire: &[u8]) -> &[u8] {
    let payload =
        frame::split(wire, frame::DEFAULT_MAX_FRAME).expect("a legal length").expect("a whole frame");
    assert_eq!(payload.len() + frame::PREFIX, wire.len(), "the length is that of the frame");
    payload
}

fn assert_request(wire: &str, xid: i32, request: Request) {
    let wire = hex(wire);
    let mut out = BytesMut::new();
    request.encode_frame(Xid(xid), &mut out);
    assert_eq!(out, wire, "{request:?}");
    let incoming = Incoming::parse(payload(&wire)).expect("a whole header");
    assert_eq!(incoming, Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request) });
}

/// `op` is the opcode of the request.
fn assert_reply(wire: &str, op: OpCode, header: ReplyHeader, reply: Reply) {
    let wire = hex(wire);
    let mut out = BytesMut::new();
    reply.encode_frame(header, &mut out);
    assert_eq!(out, wire, "{reply:?}");
    let (head, body) = payload(&wire).split_at(16);
    assert_eq!(jute::parse::<ReplyHeader>(head), Ok(header));
    assert_eq!(Reply::parse(op, body), Ok(reply));
}

fn assert_event(wire: &str, zxid: i64, kind: EventType, path: &str) {
    let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path: path.into() };
    let wire = hex(wire);
    let mut out = BytesMut::new();
    Reply::Event(event.clone()).encode_frame(ReplyHeader::ok(Xid::EVENT, Zxid(zxid)), &mut out);
    assert_eq!(out, wire);
    assert_eq!(jute::parse::<WatchedEvent>(&payload(&wire)[16..]), Ok(event));
}

fn ok(xid: i32, zxid: i64) -> ReplyHeader {
    ReplyHeader::ok(Xid(xid), Zxid(zxid))
}

fn create(path: &str, data: Option<&'static [u8]>, flags: i32) -> Create {
    Create { path: path.into(), data: data.map(Bytes::from_static), acl: Some(AclList::OPEN), flags }
}

#[test]
fn a_handshake() {
    let request = hex("0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010
        00000000000000000000000000000000 00");
    let expected = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 10_000,
        session: SessionId(0),
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    };
    let mut out = BytesMut::new();
    expected.encode_frame(&mut out);
    assert_eq!(out, request);
    assert_eq!(jute::parse(payload(&request)), Ok(expected));

    let response = hex("00000025 00000000 00002710 010000163e860000 00000010
        98150fa145f387a5365e0f6196e99965 00");
    let expected = ConnectResponse {
        protocol_version: 0,
        timeout: 10_000,
        session: SessionId(0x0100_0016_3e86_0000),
        password: hex("98150fa145f387a5365e0f6196e99965").into(),
        read_only: Some(false),
    };
    let mut out = BytesMut::new();
    expected.encode_frame(&mut out);
    assert_eq!(out, response);
    assert_eq!(jute::parse(payload(&response)), Ok(expected));
}

#[test]
fn a_refused_session() {
    let wire =
        hex("00000025 00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000 00");
    let refusal = ConnectResponse::refusal(Some(false));
    let mut out = BytesMut::new();
    refusal.encode_frame(&mut out);
    assert_eq!(out, wire);
    assert!(refusal.is_refusal());
    assert_eq!(jute::parse(payload(&wire)), Ok(refusal));
}

#[test]
fn a_ping() {
    assert_request("00000008 fffffffe 0000000b", -2, Request::Ping);
    assert_reply("00000010 fffffffe 0000000000000001 00000000", OpCode::Ping, ok(-2, 1), Reply::Empty);
}

#[test]
fn a_create() {
    assert_request(
        "00000033 00000001 00000001 00000002 2f61 00000002 6869 00000001 0000001f 00000005 776f726c64 00000006
         616e796f6e65 00000000",
        1,
        Request::Create(create("/a", Some(b"hi"), 0)),
    );
    assert_reply(
        "00000016 00000001 0000000000000002 00000000 00000002 2f61",
        OpCode::Create,
        ok(1, 2),
        Reply::Created("/a".into()),
    );
}

#[test]
fn a_create2_with_a_sequential_name() {
    let stat = Stat { czxid: Zxid(3), mzxid: Zxid(3), pzxid: Zxid(3), ..Stat::default() };
    let zeros = |bytes: usize| "00".repeat(bytes);
    let stat_hex = format!("0000000000000003 0000000000000003 {} 0000000000000003", zeros(44));
    assert_reply(
        &format!(
            "00000065 00000002 0000000000000003 00000000 0000000d 2f622d30303030303030303031 {stat_hex}"
        ),
        OpCode::Create2,
        ok(2, 3),
        Reply::Created2("/b-0000000001".into(), stat),
    );
}

#[test]
fn a_refusal() {
    let header = ReplyHeader::error(Xid(3), Zxid(4), ErrorCode::NodeExists);
    let wire = hex("00000010 00000003 0000000000000004 ffffff92");
    let mut out = BytesMut::new();
    Reply::Empty.encode_frame(header, &mut out);
    assert_eq!(out, wire);
    let parsed: ReplyHeader = jute::parse(payload(&wire)).expect("a header");
    assert_eq!(parsed.error_code(), Some(ErrorCode::NodeExists));

    let unknown = ReplyHeader::error(Xid(1), Zxid(-1), ErrorCode::Unimplemented);
    let mut out = BytesMut::new();
    Reply::Empty.encode_frame(unknown, &mut out);
    assert_eq!(out, hex("00000010 00000001 ffffffffffffffff fffffffa"));
}

#[test]
fn events() {
    assert_event(
        "0000001e ffffffff 0000000000000005 00000000 00000003 00000003 00000002 2f61",
        5,
        EventType::NodeDataChanged,
        "/a",
    );
    assert_event(
        "0000001e ffffffff ffffffffffffffff 00000000 00000003 00000003 00000002 2f61",
        -1,
        EventType::NodeDataChanged,
        "/a",
    );
}

#[test]
fn a_multi_that_succeeds() {
    let ops = vec![
        Op::Check(CheckVersion { path: "/a".into(), version: 1 }),
        Op::Create2(create("/a/m", Some(b""), 0)),
        Op::Delete(Delete { path: "/a/m".into(), version: 0 }),
    ];
    assert_request(
        "0000006d 00000008 0000000e
         0000000d 00 ffffffff 00000002 2f61 00000001
         0000000f 00 ffffffff 00000004 2f612f6d 00000000 00000001 0000001f 00000005 776f726c64 00000006
         616e796f6e65 00000000
         00000002 00 ffffffff 00000004 2f612f6d 00000000
         ffffffff 01 ffffffff",
        8,
        Request::Multi(ops),
    );
    let stat = Stat { czxid: Zxid(6), mzxid: Zxid(6), pzxid: Zxid(6), ..Stat::default() };
    let stat_hex = format!("{0} {0} {1} {0}", "0000000000000006", "00".repeat(44));
    assert_reply(
        &format!(
            "00000080 00000008 0000000000000006 00000000
             0000000d 00 00000000
             0000000f 00 00000000 00000004 2f612f6d {stat_hex}
             00000002 00 00000000
             ffffffff 01 ffffffff"
        ),
        OpCode::Multi,
        ok(8, 6),
        Reply::Multi(vec![OpResult::Check, OpResult::Create2("/a/m".into(), stat), OpResult::Delete]),
    );
}

#[test]
fn a_multi_that_fails() {
    assert_reply(
        "00000040 00000009 0000000000000007 00000000
         ffffffff 00 00000000 00000000
         ffffffff 00 ffffff9b ffffff9b
         ffffffff 00 fffffffe fffffffe
         ffffffff 01 ffffffff",
        OpCode::Multi,
        ok(9, 7),
        Reply::Multi(vec![
            OpResult::Error(None),
            OpResult::Error(Some(ErrorCode::NoNode)),
            OpResult::Error(Some(ErrorCode::RuntimeInconsistency)),
        ]),
    );
}

#[test]
fn a_multi_read() {
    let ops = vec![
        Op::GetData(GetData { path: "/a".into(), watch: false }),
        Op::GetChildren(GetChildren { path: "/none".into(), watch: false }),
    ];
    assert_request(
        "00000034 0000000a 00000016
         00000004 00 ffffffff 00000002 2f61 00
         00000008 00 ffffffff 00000005 2f6e6f6e65 00
         ffffffff 01 ffffffff",
        10,
        Request::MultiRead(ops),
    );
    let stat = Stat { version: 2, data_length: 1, ..Stat::default() };
    let stat_hex = format!("{} 00000002 {} 00000001 {}", "00".repeat(32), "00".repeat(16), "00".repeat(12));
    assert_reply(
        &format!(
            "00000078 0000000a 0000000000000007 00000000
             00000004 00 00000000 00000001 78 {stat_hex}
             ffffffff 00 ffffff9b ffffff9b
             ffffffff 01 ffffffff"
        ),
        OpCode::MultiRead,
        ok(10, 7),
        Reply::Multi(vec![
            OpResult::GetData(Some(Bytes::from_static(b"x")), stat),
            OpResult::Error(Some(ErrorCode::NoNode)),
        ]),
    );
}

#[test]
fn a_set_data() {
    let set = SetData { path: "/a".into(), data: Some(Bytes::from_static(b"x")), version: -1 };
    assert_request("00000017 00000005 00000005 00000002 2f61 00000001 78 ffffffff", 5, Request::SetData(set));
}

#[test]
fn an_add_watch() {
    let add = AddWatch { path: Some("/p".into()), mode: 0 };
    assert_request("00000012 0000000b 0000006a 00000002 2f70 00000000", 11, Request::AddWatch(add));
    assert_reply(
        "00000014 0000000b 0000000000000007 00000000 00000000",
        OpCode::AddWatch,
        ok(11, 7),
        Reply::WatchAdded,
    );
}

#[test]
fn a_set_watches() {
    let set = SetWatches { relative_zxid: Zxid(0), data: vec!["/a".into()], exist: vec![], child: vec![] };
    assert_request(
        "00000022 fffffff8 00000065 0000000000000000 00000001 00000002 2f61 00000000 00000000",
        -8,
        Request::SetWatches(set),
    );
    assert_reply("00000010 fffffff8 0000000000000007 00000000", OpCode::SetWatches, ok(-8, 7), Reply::Empty);
}

#[test]
fn an_auth() {
    let packet =
        AuthPacket { kind: 0, scheme: Some("digest".into()), auth: Some(Bytes::from_static(b"u:p")) };
    assert_request(
        "0000001d fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70",
        -4,
        Request::Auth(packet),
    );
    assert_reply("00000010 fffffffc 0000000000000000 00000000", OpCode::Auth, ok(-4, 0), Reply::Empty);
}

#[test]
fn a_who_am_i() {
    assert_request("00000008 0000000c 0000006b", 12, Request::WhoAmI);
    let id = |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    assert_reply(
        "00000036 0000000c 0000000000000007 00000000 00000002 00000002 6970 00000009 3132372e302e302e31 00000006
         646967657374 00000001 75",
        OpCode::WhoAmI,
        ok(12, 7),
        Reply::WhoAmI(vec![id("ip", "127.0.0.1"), id("digest", "u")]),
    );
}

#[test]
fn a_close_session() {
    assert_request("00000008 0000000d fffffff5", 13, Request::CloseSession);
    assert_reply(
        "00000010 0000000d 0000000000000008 00000000",
        OpCode::CloseSession,
        ok(13, 8),
        Reply::Empty,
    );
}
