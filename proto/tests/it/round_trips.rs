//! Every value decodes to itself after encoding, and no prefix of the bytes decodes.

use bytes::{Bytes, BytesMut};
use proptest::option;
use proptest::prelude::*;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, MultiHeader, WatchedEvent};
use zoolet_proto::{
    DecodeError, EventType, Incoming, Jute, KeeperState, OpCode, Reply, ReplyHeader, Request, SessionId, Xid,
    Zxid, frame, jute,
};

const HEADER: usize = 8;
const REPLY_HEADER: usize = 16;

fn encoded(value: &impl Jute) -> BytesMut {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out
}

fn whole(wire: &[u8]) -> &[u8] {
    frame::split(wire, usize::MAX).expect("a legal length").expect("a whole frame")
}

fn assert_round_trip<T: Jute + PartialEq + std::fmt::Debug>(value: &T) -> BytesMut {
    let bytes = encoded(value);
    assert_eq!(jute::parse::<T>(&bytes).as_ref(), Ok(value));
    bytes
}

fn assert_every_cut_is_refused<T: Jute + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = assert_round_trip(value);
    for cut in 0..bytes.len() {
        assert_eq!(jute::parse::<T>(&bytes[..cut]), Err(DecodeError::Malformed), "{cut} bytes of {value:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn requests(all in crate::common::requests(), xid in any::<i32>()) {
        for request in all {
            let mut wire = BytesMut::new();
            request.encode_frame(Xid(xid), &mut wire);
            prop_assert_eq!(request.encoded_len(), wire.len());
            let frame = whole(&wire);
            let expected = Incoming { xid: Xid(xid), op: request.op().code(), body: Ok(request.clone()) };
            prop_assert_eq!(Incoming::parse(frame), Some(expected.clone()));
            for cut in 0..HEADER {
                prop_assert_eq!(Incoming::parse(&frame[..cut]), None);
            }
            for cut in HEADER..frame.len() {
                let parsed = Incoming::parse(&frame[..cut]).expect("a whole header");
                prop_assert_eq!(parsed.body, Err(DecodeError::Malformed), "{} bytes of {:?}", cut, request);
            }
            let more = [frame, b"trailing bytes"].concat();
            prop_assert_eq!(Incoming::parse(&more), Some(expected));
        }
    }

    #[test]
    fn replies(all in crate::common::replies(), xid in any::<i32>(), zxid in any::<i64>(), err in any::<i32>()) {
        for (op, reply) in all {
            let header = ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err };
            let mut wire = BytesMut::new();
            reply.encode_frame(header, &mut wire);
            let mut again = BytesMut::new();
            reply.encode_frame_to(header, &mut again);
            prop_assert_eq!(&again, &wire);
            prop_assert_eq!(reply.encoded_len(), wire.len());
            let (head, body) = whole(&wire).split_at(REPLY_HEADER);
            prop_assert_eq!(jute::parse::<ReplyHeader>(head), Ok(header));
            prop_assert_eq!(Reply::parse(op, body), Ok(reply.clone()));
            let more = [body, b"trailing bytes"].concat();
            prop_assert_eq!(Reply::parse(op, &more), Ok(reply.clone()));
            if op == OpCode::AddWatch {
                // Its body says 0 and nothing else, so nobody needs to read it.
                continue;
            }
            for cut in 0..body.len() {
                prop_assert_eq!(Reply::parse(op, &body[..cut]).err(), Some(DecodeError::Malformed), "{} of {:?}", cut, reply);
            }
        }
    }

    #[test]
    fn small_records(
        xid in any::<i32>(), zxid in any::<i64>(), err in any::<i32>(), done in any::<bool>(), path in ".{0,8}"
    ) {
        assert_every_cut_is_refused(&ReplyHeader { xid: Xid(xid), zxid: Zxid(zxid), err });
        assert_every_cut_is_refused(&MultiHeader { kind: xid, done, err });
        for kind in EventType::ALL {
            for state in KeeperState::ALL {
                let event = WatchedEvent { kind: *kind, state: *state, path: path.clone() };
                assert_every_cut_is_refused(&event);
            }
        }
    }

    #[test]
    fn handshakes(
        version in any::<i32>(), zxid in any::<i64>(), timeout in any::<i32>(), session in any::<i64>(),
        password in option::of(proptest::collection::vec(any::<u8>(), 0..20)), read_only in option::of(any::<bool>()),
    ) {
        let session = SessionId(session);
        let password = password.map(Bytes::from);
        let request = ConnectRequest {
            protocol_version: version,
            last_zxid_seen: Zxid(zxid),
            timeout,
            session,
            password: password.clone(),
            read_only,
        };
        let password = password.unwrap_or_default();
        let response = ConnectResponse { protocol_version: version, timeout, session, password, read_only };
        let (one, other) = (assert_round_trip(&request), assert_round_trip(&response));
        // Cut before the last byte, one with the readOnly byte is one without it; no other cut is anything.
        let optional = usize::from(read_only.is_some());
        for cut in 0..one.len() - optional {
            prop_assert_eq!(jute::parse::<ConnectRequest>(&one[..cut]), Err(DecodeError::Malformed));
        }
        for cut in 0..other.len() - optional {
            prop_assert_eq!(jute::parse::<ConnectResponse>(&other[..cut]), Err(DecodeError::Malformed));
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_request_or_are_refused_and_what_they_say_is_stable(
        op in prop_oneof![-12..24i32, 100..108i32], body in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let frame = [&1i32.to_be_bytes()[..], &op.to_be_bytes(), &body].concat();
        if let Some(Incoming { body: Ok(request), .. }) = Incoming::parse(&frame) {
            let mut wire = BytesMut::new();
            request.encode_frame(Xid(1), &mut wire);
            prop_assert_eq!(Incoming::parse(whole(&wire)).map(|again| again.body), Some(Ok(request)));
        }
        if let Some(op) = OpCode::from_code(op) {
            if let Ok(reply) = Reply::parse(op, &body) {
                let mut wire = BytesMut::new();
                reply.encode_frame(ReplyHeader::ok(Xid(1), Zxid(1)), &mut wire);
                prop_assert_eq!(Reply::parse(op, &whole(&wire)[REPLY_HEADER..]), Ok(reply));
            }
        }
    }

    #[test]
    fn frames_come_out_of_a_stream_as_they_went_in(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..30), 0..6), cut in any::<usize>(),
    ) {
        let mut wire = BytesMut::new();
        for payload in &payloads {
            frame::put(&mut wire, |out| out.extend_from_slice(payload));
        }
        let cut = cut % (wire.len() + 1);
        let (mut rest, mut found) = (&wire[..cut], Vec::new());
        while let Some(payload) = frame::split(rest, frame::DEFAULT_MAX_FRAME).unwrap() {
            found.push(payload.to_vec());
            rest = &rest[frame::PREFIX + payload.len()..];
        }
        prop_assert_eq!(&found[..], &payloads[..found.len()]);
        prop_assert!(cut < wire.len() || found.len() == payloads.len());
    }
}

#[test]
fn a_null_path_is_an_error_of_its_own() {
    let null_path = [&(-1i32).to_be_bytes()[..], &[0; 40]].concat();
    for op in OpCode::ALL {
        use OpCode::{AddWatch, CheckWatches, GetEphemerals, Multi, MultiRead, RemoveWatches, Sync};
        let expected = match op {
            Multi | MultiRead => Some(DecodeError::Malformed),
            Sync | GetEphemerals | CheckWatches | RemoveWatches | AddWatch => None,
            op => op.has_path().then_some(DecodeError::NullPath),
        };
        assert_eq!(Request::parse(*op, &null_path).err(), expected, "{op:?}");
    }
}
