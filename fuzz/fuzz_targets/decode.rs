//! Bytes from a peer, in either direction: a value that decodes encodes and decodes to the same value.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{Incoming, Jute, OpCode, Reply, ReplyHeader, Xid, Zxid, frame, jute};

fuzz_target!(|data: &[u8]| {
    stream(data);
    request(data);
    handshake::<ConnectRequest>(data);
    handshake::<ConnectResponse>(data);
    handshake::<WatchedEvent>(data);
    if let Some((op, body)) = data.split_first() {
        reply(OpCode::ALL[usize::from(*op) % OpCode::ALL.len()], body);
    }
});

/// A stream splits into frames without a lost or added byte.
fn stream(mut rest: &[u8]) {
    let mut again = BytesMut::new();
    let whole = rest;
    while let Ok(Some(payload)) = frame::split(rest, frame::DEFAULT_MAX_FRAME) {
        frame::put(&mut again, |out| out.extend_from_slice(payload));
        rest = &rest[frame::PREFIX + payload.len()..];
        request(payload);
    }
    assert_eq!(again, whole[..whole.len() - rest.len()]);
}

fn request(payload: &[u8]) {
    let Some(Incoming { xid, body: Ok(request), .. }) = Incoming::parse(payload) else { return };
    let mut wire = BytesMut::new();
    request.encode_frame(xid, &mut wire);
    let again = Incoming::parse(&wire[frame::PREFIX..]).expect("a whole header");
    assert_eq!(again, Incoming { xid, op: request.op().code(), body: Ok(request) });
}

fn handshake<T: Jute + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(value) = jute::parse::<T>(bytes) else { return };
    let mut wire = BytesMut::new();
    value.encode(&mut wire);
    assert_eq!(jute::parse(&wire), Ok(value));
}

fn reply(op: OpCode, body: &[u8]) {
    let Ok(reply) = Reply::parse(op, body) else { return };
    let mut wire = BytesMut::new();
    reply.encode_frame(ReplyHeader::ok(Xid(1), Zxid(1)), &mut wire);
    assert_eq!(Reply::parse(op, &wire[frame::PREFIX + 16..]), Ok(reply));
}
