//! What a tap counts and records.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use zoolet::testing::{History, HistoryEvent, Side, Tap};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, GetData, WatchedEvent};
use zoolet_proto::{
    ErrorCode, EventType, Incoming, KeeperState, OpCode, Reply, ReplyHeader, Request, SessionId, Xid, Zxid,
};

fn connect_request() -> BytesMut {
    let mut bytes = BytesMut::new();
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(3),
        timeout: 4000,
        session: SessionId(0),
        password: None,
        read_only: None,
    }
    .encode_frame(&mut bytes);
    bytes
}

fn connect_response() -> BytesMut {
    let mut bytes = BytesMut::new();
    let password = Bytes::from_static(&[7; 16]);
    let (protocol_version, timeout, session, read_only) = (0, 4000, SessionId(9), None);
    ConnectResponse { protocol_version, timeout, session, password, read_only }.encode_frame(&mut bytes);
    bytes
}

fn get_data() -> Request {
    Request::GetData(GetData { path: "/a".into(), watch: true })
}

fn event() -> WatchedEvent {
    let (kind, state) = (EventType::NodeDeleted, KeeperState::SyncConnected);
    WatchedEvent { kind, state, path: "/a".into() }
}

/// The bytes of a conversation, by side.
fn conversation() -> (BytesMut, BytesMut) {
    let (mut sent, mut received) = (connect_request(), connect_response());
    get_data().encode_frame(Xid(1), &mut sent);
    Request::Ping.encode_frame(Xid(77), &mut sent);
    Reply::Empty.encode_frame(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), &mut received);
    Reply::Event(event()).encode_frame(ReplyHeader::ok(Xid::EVENT, Zxid(5)), &mut received);
    Reply::Empty.encode_frame(ReplyHeader::ok(Xid::PING, Zxid(5)), &mut received);
    (sent, received)
}

/// Passes the bytes on in pieces of a given size, and returns what was recorded.
async fn recorded(sent: &[u8], received: &[u8], piece: usize) -> Vec<HistoryEvent> {
    let history = History::new();
    let (client, mut server) = duplex(1 << 16);
    let mut tap = Tap::new(client).recording(&history);
    for piece in sent.chunks(piece) {
        tap.write_all(piece).await.expect("a write");
    }
    let (mut passed, mut arrived) = (vec![0; sent.len()], Vec::new());
    server.read_exact(&mut passed).await.expect("all of it");
    server.write_all(received).await.expect("a write");
    drop::<DuplexStream>(server);
    let mut part = vec![0; piece];
    loop {
        match tap.read(&mut part).await.expect("a read") {
            0 => break,
            got => arrived.extend_from_slice(&part[..got]),
        }
    }
    assert_eq!((&passed[..], &arrived[..]), (sent, received));
    assert_eq!(tap.counts().written(), sent.len() as u64);
    assert_eq!(tap.counts().read(), received.len() as u64);
    drop(tap);
    let entries = history.entries();
    assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
    entries.into_iter().map(|entry| entry.event).collect()
}

#[tokio::test]
async fn a_conversation_is_recorded_independent_of_its_segments() {
    let (sent, received) = conversation();
    let expected = [
        HistoryEvent::Opened,
        HistoryEvent::ConnectRequest { session: SessionId(0), last_zxid_seen: Zxid(3) },
        HistoryEvent::Request(Incoming { xid: Xid(1), op: OpCode::GetData.code(), body: Ok(get_data()) }),
        HistoryEvent::Request(Incoming { xid: Xid(77), op: OpCode::Ping.code(), body: Ok(Request::Ping) }),
        HistoryEvent::ConnectResponse { session: SessionId(9) },
        HistoryEvent::Reply(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), Ok(Reply::Empty)),
        HistoryEvent::Event(Zxid(5), event()),
        HistoryEvent::Reply(ReplyHeader::ok(Xid::PING, Zxid(5)), Ok(Reply::Empty)),
        HistoryEvent::Ended,
    ];
    for piece in [1, 3, 7, 20, 1000] {
        assert_eq!(recorded(&sent, &received, piece).await, expected, "in pieces of {piece}");
    }
}

#[tokio::test]
async fn a_four_letter_word_and_its_answer_are_not_recorded() {
    for piece in [1, 1000] {
        assert_eq!(recorded(b"ruok", b"imok", piece).await, [HistoryEvent::Opened, HistoryEvent::Ended]);
    }
}

#[tokio::test]
async fn invalid_frames_are_recorded_as_such_and_pass() {
    let (sent, mut received) = conversation();
    received.extend_from_slice(b"\0\0\0\x03abc and more");
    let events = recorded(&sent, &received, 1000).await;
    let why = "a reply without a whole header".to_owned();
    assert_eq!(events[8..], [HistoryEvent::Unreadable { from: Side::Server, why }, HistoryEvent::Ended]);

    let events = recorded(b"\xff\xff\xff\xffwhat", b"", 1000).await;
    assert!(matches!(&events[1], HistoryEvent::Unreadable { from: Side::Client, .. }), "{events:?}");
}

#[tokio::test]
async fn a_request_is_recorded_when_its_last_byte_is_accepted() {
    let history = History::new();
    let mut sent = connect_request();
    get_data().encode_frame(Xid(1), &mut sent);
    let (client, mut server) = duplex(sent.len() - 1);
    let mut tap = Tap::new(client).recording(&history);
    let accepted = tap.write(&sent).await.expect("a write");
    assert_eq!((accepted, tap.counts().written()), (sent.len() - 1, sent.len() as u64 - 1));
    assert_eq!(history.entries().len(), 2, "the request is not whole");
    server.read_exact(&mut vec![0; accepted]).await.expect("the accepted bytes");
    tap.write_all(&sent[accepted..]).await.expect("a write");
    assert!(matches!(history.entries()[2].event, HistoryEvent::Request(_)));
}
