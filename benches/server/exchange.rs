//! The operations of the load: their requests, and when they are complete.

use std::io;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{Create, Delete, GetData, SetData};
use zoolet_proto::{AclList, CreateMode, OpCode, Reply, Request, Xid};

use crate::wire::HEADER;

/// The length of each znode's data.
pub(crate) const DATA_LEN: usize = 100;

/// The data of each znode.
pub(crate) fn data() -> Option<Bytes> {
    Some(Bytes::from_static(&[b'x'; DATA_LEN]))
}

/// A create request with an open ACL.
pub(crate) fn create(path: impl Into<String>, mode: CreateMode) -> Request {
    Request::Create(Create { path: path.into(), data: data(), acl: Some(AclList::OPEN), flags: mode.code() })
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

/// An operation to repeat on a connection: one request or a sequence of requests.
pub(crate) trait Exchange: Send + 'static {
    /// Appends the first request of an operation.
    fn begin(&mut self, xid: Xid, out: &mut BytesMut);

    /// Handles a successful reply. Appends the next request, or reports the end of the operation.
    fn reply(&mut self, frame: &[u8], xid: Xid, out: &mut BytesMut) -> io::Result<Step>;
}

/// The state of an operation after a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is complete; the xid is unused.
    Done,
    /// Another request with the xid was appended.
    More,
}

/// A request that is sent repeatedly. It is encoded once, as encoding is not measured.
pub(crate) struct Repeat {
    frame: BytesMut,
    /// The number in the path, which is another one in each request.
    counter: Option<Counter>,
}

struct Counter {
    /// Its position in the frame.
    at: usize,
    next: u64,
    step: u64,
    /// It stays below this.
    end: u64,
}

/// The digits of a counter, as in the names of sequential znodes.
const DIGITS: usize = 10;

impl Repeat {
    /// The same request each time.
    pub(crate) fn same(request: &Request) -> Self {
        let mut frame = BytesMut::new();
        request.encode_frame(Xid(0), &mut frame);
        Self { frame, counter: None }
    }

    /// A request on `prefix` followed by a number, from 0.
    pub(crate) fn counting(prefix: &str, request: impl FnOnce(String) -> Request) -> Self {
        Self::stepping(prefix, 0, 1, u64::MAX, request)
    }

    /// A request on `prefix` followed by a number below `end`: all of them, none near the one before.
    pub(crate) fn scattered(
        prefix: &str,
        first: u64,
        end: u64,
        request: impl FnOnce(String) -> Request,
    ) -> Self {
        // A prime that divides no number of znodes that is measured.
        Self::stepping(prefix, first, 38_953 % end, end, request)
    }

    fn stepping(
        prefix: &str,
        next: u64,
        step: u64,
        end: u64,
        request: impl FnOnce(String) -> Request,
    ) -> Self {
        let path = format!("{prefix}{:0DIGITS$}", 0);
        let mut repeat = Self::same(&request(path));
        // The path is the first field of all records used here, after frame length, xid, opcode and its own length.
        repeat.counter = Some(Counter { at: 4 + 4 + 4 + 4 + prefix.len(), next, step, end });
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
            counter.next = (counter.next + counter.step) % counter.end;
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
