//! The single operations of the load: what is sent, and when it is done.

use std::io;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{Create, Delete, GetData, SetData};
use zoolet_proto::{Acl, CreateMode, OpCode, Reply, Request, Xid};

use crate::wire::HEADER;

/// Length of the data of every znode here.
pub(crate) const DATA_LEN: usize = 100;

/// The data of every znode here.
pub(crate) fn data() -> Option<Bytes> {
    Some(Bytes::from_static(&[b'x'; DATA_LEN]))
}

/// A create request for a znode that anyone may do anything with.
pub(crate) fn create(path: impl Into<String>, mode: CreateMode) -> Request {
    Request::Create(Create { path: path.into(), data: data(), acl: Some(Acl::open()), flags: mode.code() })
}

/// A getData request.
pub(crate) fn get(path: impl Into<String>, watch: bool) -> Request {
    Request::GetData(GetData { path: path.into(), watch })
}

/// A setData request for any version.
pub(crate) fn set(path: impl Into<String>) -> Request {
    Request::SetData(SetData { path: path.into(), data: data(), version: -1 })
}

/// A delete request for any version.
pub(crate) fn delete(path: impl Into<String>) -> Request {
    Request::Delete(Delete { path: path.into(), version: -1 })
}

/// One operation repeated on a connection, of one request or of several in turn.
pub(crate) trait Exchange: Send + 'static {
    /// Appends the first request of an operation.
    fn begin(&mut self, xid: Xid, out: &mut BytesMut);

    /// Takes a reply without error. Appends the request that follows it, or says that the operation is done.
    fn reply(&mut self, frame: &[u8], xid: Xid, out: &mut BytesMut) -> io::Result<Step>;
}

/// Where an operation stands after a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is done; the xid was not used.
    Done,
    /// Another request was appended under the xid.
    More,
}

/// A request sent over and over. It is encoded once, as encoding is not what is measured here.
pub(crate) struct Repeat {
    frame: BytesMut,
    /// Where a number in the path stands that each request counts up, so that no two create the same znode.
    counter: Option<Counter>,
}

struct Counter {
    at: usize,
    next: u64,
}

/// Digits of a counter, as in the names of sequential znodes.
const DIGITS: usize = 10;

impl Repeat {
    /// The same request each time.
    pub(crate) fn same(request: &Request) -> Self {
        let mut frame = BytesMut::new();
        request.encode_frame(Xid(0), &mut frame);
        Self { frame, counter: None }
    }

    /// A request on `prefix` followed by a number that counts up from 0.
    pub(crate) fn counting(prefix: &str, request: impl FnOnce(String) -> Request) -> Self {
        let path = format!("{prefix}{:0DIGITS$}", 0);
        let mut repeat = Self::same(&request(path));
        // Frame length, xid, opcode and the length of the path stand before the path, which is the first field of
        // every record used here.
        repeat.counter = Some(Counter { at: 4 + 4 + 4 + 4 + prefix.len(), next: 0 });
        repeat
    }
}

impl Exchange for Repeat {
    fn begin(&mut self, xid: Xid, out: &mut BytesMut) {
        self.frame[4..8].copy_from_slice(&xid.0.to_be_bytes());
        if let Some(counter) = &mut self.counter {
            let mut rest = counter.next;
            for digit in self.frame[counter.at..counter.at + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            counter.next += 1;
        }
        out.extend_from_slice(&self.frame);
    }

    fn reply(&mut self, _: &[u8], _: Xid, _: &mut BytesMut) -> io::Result<Step> {
        Ok(Step::Done)
    }
}

/// Creates an ephemeral sequential znode and deletes it.
pub(crate) struct CreateDelete {
    create: Repeat,
}

impl CreateDelete {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { create: Repeat::same(&create(prefix, CreateMode::EphemeralSequential)) }
    }
}

impl Exchange for CreateDelete {
    fn begin(&mut self, xid: Xid, out: &mut BytesMut) {
        self.create.begin(xid, out);
    }

    fn reply(&mut self, frame: &[u8], xid: Xid, out: &mut BytesMut) -> io::Result<Step> {
        if frame.len() == HEADER {
            return Ok(Step::Done);
        }
        match Reply::parse(OpCode::Create, &frame[HEADER..]) {
            Ok(Reply::Created(path)) => {
                delete(path).encode_frame(xid, out);
                Ok(Step::More)
            }
            _ => Err(io::Error::other("a reply to create without a path")),
        }
    }
}
