//! Requests as frames: a header, then the body that the table of operations describes.

use bytes::BytesMut;

use crate::codec::{ByteSink, Codec, len_of};
use crate::frame;
use crate::id::Xid;
use crate::jute::DecodeError;
use crate::operation::{OpCode, Request};

impl Request {
    /// Appends the request as a frame, header included.
    pub fn encode_frame(&self, xid: Xid, out: &mut BytesMut) {
        frame::put(out, |out| self.put_with_header(xid, out));
    }

    /// The length of its frame. The encoder counts it, so it follows every operation and field.
    pub fn encoded_len(&self) -> usize {
        frame::PREFIX + len_of(|out| self.put_with_header(Xid(0), out))
    }

    fn put_with_header(&self, xid: Xid, out: &mut impl ByteSink) {
        xid.put(out);
        self.op().put(out);
        self.put(out);
    }
}

/// A frame of a client after the handshake: a header, and a body that may be anything.
///
/// The parts are separate because a server answers each differently: a frame without a whole header closes the connection;
/// an unknown opcode or a body that does not decode gets an error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The number of the request, which the reply echoes.
    pub xid: Xid,
    /// The opcode as sent.
    pub op: i32,
    /// The request, or what is wrong with its bytes; an unknown opcode is [`DecodeError::Malformed`].
    pub body: Result<Request, DecodeError>,
}

impl Incoming {
    /// Decodes a frame; `None` if it is too short for a header.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let (op, body) = rest.split_first_chunk::<4>()?;
        let (xid, op) = (Xid(i32::from_be_bytes(*xid)), i32::from_be_bytes(*op));
        let body = match OpCode::from_code(op) {
            Some(op) => Request::parse(op, body),
            None => Err(DecodeError::Malformed),
        };
        Some(Self { xid, op, body })
    }
}
