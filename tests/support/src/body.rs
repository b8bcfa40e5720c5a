//! Request bodies written field by field, for what the records of the protocol cannot express.

use bytes::{BufMut, BytesMut};
use zoolet_proto::Xid;

/// The body of a request.
#[derive(Default, Clone)]
pub struct Body(BytesMut);

impl Body {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn int(mut self, value: i32) -> Self {
        self.0.put_i32(value);
        self
    }

    pub fn long(mut self, value: i64) -> Self {
        self.0.put_i64(value);
        self
    }

    pub fn byte(mut self, value: u8) -> Self {
        self.0.put_u8(value);
        self
    }

    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.put_i32(bytes.len() as i32);
        self.0.put_slice(bytes);
        self
    }

    pub fn append(mut self, other: &Self) -> Self {
        self.0.put_slice(&other.0);
        self
    }

    pub fn null(self) -> Self {
        self.int(-1)
    }

    /// The vector of one entry that grants everything to everybody.
    pub fn open_acl(self) -> Self {
        self.int(1).int(31).text("world").text("anyone")
    }

    /// The header of a part of a multi.
    pub fn part(self, op: i32) -> Self {
        self.int(op).byte(0).int(-1)
    }

    /// The end of a multi.
    pub fn end(self) -> Self {
        self.int(-1).byte(1).int(-1)
    }

    pub fn frame(self, xid: Xid, op: i32) -> Vec<u8> {
        [&xid.0.to_be_bytes(), &op.to_be_bytes(), &self.0[..]].concat()
    }
}
