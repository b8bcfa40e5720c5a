//! [`SendBuffer`]: bytes to send on one connection, short messages copied and long values shared with the tree; and
//! [`EventRuns`]: watch events in a row, each encoded once, however many connections get it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem;
use std::ops::{Add, Sub};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use zoolet_proto::{ByteSink, Reply, ReplyHeader};
use zoolet_server_core::{ConnId, SharedEvent};

use super::limits::{EVENT_LISTS, KEEP, KEEP_BUSY, PIECE, SHARED_FROM};

/// A number of bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) all: usize,
    /// Those that take memory only here: no other connection shares them, and no znode.
    pub(crate) unshared: usize,
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { all: self.all + other.all, unshared: self.unshared + other.unshared }
    }
}

impl Sub for Size {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { all: self.all - other.all, unshared: self.unshared - other.unshared }
    }
}

/// Bytes to send, in pieces.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    /// The pieces before `tail`.
    pieces: VecDeque<Bytes>,
    /// Where short messages are encoded, and how many of its bytes were sent.
    tail: BytesMut,
    tail_sent: usize,
    /// The bytes of the pieces, and how many of those are shared.
    len: usize,
    shared: usize,
}

impl SendBuffer {
    /// All its bytes that were not sent.
    pub(crate) fn len(&self) -> usize {
        self.len + self.tail.len() - self.tail_sent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`len`](SendBuffer::len), and how many of these bytes are not shared.
    pub(crate) fn size(&self) -> Size {
        Size { all: self.len(), unshared: self.len() - self.shared }
    }

    /// Appends what `encode` does.
    pub(crate) fn put(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        if self.tail.len() >= PIECE {
            self.complete();
        }
        encode(&mut self.tail);
    }

    /// Appends bytes without a copy, unless a copy costs less.
    pub(crate) fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_FROM {
            return self.put(|out| out.put_slice(bytes));
        }
        self.complete();
        self.len += bytes.len();
        self.shared += bytes.len();
        self.pieces.push_back(bytes.clone());
    }

    /// Appends a reply as a frame of `len` bytes.
    pub(crate) fn put_reply(&mut self, header: ReplyHeader, reply: &Reply, len: usize) {
        if len < SHARED_FROM {
            self.put(|out| reply.encode_frame(header, out));
        } else {
            reply.encode_frame_to(header, self);
        }
    }

    /// Appends all of another buffer, of which nothing was sent, and empties that for reuse.
    pub(crate) fn append_all(&mut self, other: &mut Self) {
        if self.is_empty() {
            mem::swap(self, other);
        } else if other.pieces.is_empty() && self.tail.len() + other.tail.len() <= PIECE {
            self.tail.extend_from_slice(&other.tail);
        } else {
            self.complete();
            self.len += other.len;
            self.shared += other.shared;
            self.pieces.append(&mut other.pieces);
            self.tail = mem::take(&mut other.tail);
        }
        other.reuse();
    }

    /// Makes a piece of the tail.
    fn complete(&mut self) {
        if !self.tail.is_empty() {
            self.len += self.tail.len();
            self.pieces.push_back(self.tail.split().freeze());
        }
    }

    /// All bytes, if they are one piece of short messages: what a connection most often has to send.
    pub(crate) fn only_piece(&self) -> Option<&[u8]> {
        self.pieces.is_empty().then(|| &self.tail[self.tail_sent..])
    }

    /// Fills `slices` with the bytes at the front, but no more of them than `limit`. Returns how many slices.
    pub(crate) fn slices<'b>(&'b self, slices: &mut [IoSlice<'b>], limit: usize) -> usize {
        let mut room = limit;
        let mut count = 0;
        let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.tail[self.tail_sent..]]);
        for (slice, piece) in slices.iter_mut().zip(pieces.filter(|piece| !piece.is_empty())) {
            if room == 0 {
                break;
            }
            let taken = piece.len().min(room);
            *slice = IoSlice::new(&piece[..taken]);
            room -= taken;
            count += 1;
        }
        count
    }

    /// Removes bytes from the front, which were sent. Until [`reuse`](SendBuffer::reuse), nothing is put into the rest and nobody asks
    /// for its [`size`](SendBuffer::size): neither takes account of what was sent.
    pub(crate) fn advance(&mut self, mut sent: usize) {
        while let Some(first) = self.pieces.front_mut() {
            let taken = sent.min(first.len());
            first.advance(taken);
            self.len -= taken;
            sent -= taken;
            if !first.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
        self.tail_sent += sent;
    }

    /// Empties it after it was sent. A buffer of which little was used is not kept: most connections are idle most of the
    /// time, and only ping.
    pub(crate) fn reuse(&mut self) {
        let capacity = self.tail.capacity();
        if capacity > KEEP && (capacity > KEEP_BUSY || is_little(self.tail.len(), capacity)) {
            *self = Self::default();
        }
        self.pieces.clear();
        self.tail.clear();
        (self.tail_sent, self.len, self.shared) = (0, 0, 0);
    }
}

impl ByteSink for SendBuffer {
    fn append(&mut self, bytes: &[u8]) {
        self.put(|out| out.put_slice(bytes));
    }

    fn append_shared(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes) {
        if bytes.len() < SHARED_FROM { self.append(bytes) } else { self.share(&share()) }
    }
}

/// Events that are not delivered yet.
#[derive(Default)]
pub(crate) struct EventRuns(Vec<EventRun>);

/// Events for the same connections.
pub(crate) struct EventRun {
    pub(crate) to: Arc<[ConnId]>,
    pub(crate) count: u64,
    pub(crate) bytes: BytesMut,
}

impl EventRuns {
    /// Adds an event to those for the same connections. False if all that were added must be delivered first: one of
    /// these connections gets some of them as well, and in their order.
    pub(crate) fn add(&mut self, to: &Arc<[ConnId]>, event: &SharedEvent) -> bool {
        let runs = &mut self.0;
        let at = match runs.iter().position(|run| Arc::ptr_eq(&run.to, to)) {
            Some(at) => at,
            None if runs.len() < EVENT_LISTS && runs.iter().all(|run| are_disjoint(&run.to, to)) => {
                runs.push(EventRun { to: Arc::clone(to), count: 0, bytes: BytesMut::new() });
                runs.len() - 1
            }
            None => return false,
        };
        event.encode_frame(&mut runs[at].bytes);
        runs[at].count += 1;
        true
    }

    pub(crate) fn take(&mut self) -> Vec<EventRun> {
        mem::take(&mut self.0)
    }
}

/// Whether two sorted lists have no connection in common.
fn are_disjoint(one: &[ConnId], other: &[ConnId]) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    short.iter().all(|conn| long.binary_search(conn).is_err())
}

/// Whether `used` bytes are few for a buffer of this capacity.
pub(crate) fn is_little(used: usize, capacity: usize) -> bool {
    used < capacity / 8
}

#[cfg(test)]
mod tests {
    use zoolet_proto::records::OpResult;
    use zoolet_proto::{EventType, NameList, Stat, Xid, Zxid};

    use super::*;

    /// What it sends, a few bytes at a time.
    fn sent(mut buffer: SendBuffer) -> Vec<u8> {
        let mut all = Vec::new();
        while !buffer.is_empty() {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = buffer.slices(&mut slices, 10_000);
            let took: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            assert!((1..=10_000).contains(&took));
            slices[..count].iter().for_each(|slice| all.extend_from_slice(slice));
            buffer.advance(took);
        }
        all
    }

    #[test]
    fn long_values_are_shared_and_leave_as_if_they_were_copied() {
        let header = ReplyHeader::ok(Xid(1), Zxid(1));
        let data = Bytes::from(vec![7; SHARED_FROM]);
        let names: NameList = ["child"; SHARED_FROM / 9 + 1].into_iter().collect();
        let stat = Stat::default();
        let results = vec![
            OpResult::GetData(Some(data.clone()), stat),
            OpResult::GetData(None, stat),
            OpResult::GetChildren(names.clone()),
            OpResult::Error(None),
        ];
        let replies = [
            Reply::Data(Some(data), stat),
            Reply::Children(names.clone()),
            Reply::Empty,
            Reply::Children2(names, stat),
            Reply::Multi(results),
            Reply::Data(Some(vec![8; SHARED_FROM - 1].into()), stat),
            Reply::Stat(stat),
        ];
        let (mut buffer, mut copied) = (SendBuffer::default(), BytesMut::new());
        for reply in &replies {
            buffer.put_reply(header, reply, reply.encoded_len());
            reply.encode_frame(header, &mut copied);
        }
        assert_eq!(buffer.len(), copied.len());
        assert!(buffer.size().unshared < SHARED_FROM + 1_000, "{} bytes", buffer.size().unshared);
        assert!(sent(buffer) == copied);
    }

    #[test]
    fn short_buffers_become_one_piece_and_long_ones_stay_as_they_are() {
        let buffer = |messages: usize| {
            let mut buffer = SendBuffer::default();
            (0..messages).for_each(|n| buffer.put(|out| out.put_slice(&[n as u8; 100])));
            buffer
        };
        for (first, second, pieces) in [(0, 3, 0), (2, 3, 0), (2, 200, 2), (200, 2, 1), (2, 0, 0)] {
            let (mut joined, mut added) = (buffer(first), buffer(second));
            joined.append_all(&mut added);
            assert!(added.is_empty());
            assert_eq!(joined.len(), 100 * (first + second));
            assert_eq!(joined.pieces.len(), pieces, "{first} and {second}");
            assert_eq!(sent(joined), [sent(buffer(first)), sent(buffer(second))].concat());
        }
    }

    #[test]
    fn a_buffer_that_was_appended_has_memory_for_what_comes_next() {
        let messages = |len: usize| {
            let mut buffer = SendBuffer::default();
            buffer.put(|out| out.put_slice(&vec![1; len]));
            buffer
        };
        for sent in [0, 500] {
            let (mut waiting, mut held) = (messages(500), messages(500));
            waiting.advance(sent);
            waiting.append_all(&mut held);
            assert!(held.is_empty() && held.tail.capacity() >= 500, "after {sent} bytes were sent");
        }
    }

    #[test]
    fn what_is_copied_takes_little_more_memory_than_it_has_bytes() {
        let mut buffer = SendBuffer::default();
        for _ in 0..10_000 {
            buffer.put_reply(ReplyHeader::ok(Xid(1), Zxid(1)), &Reply::Empty, 20);
        }
        assert_eq!((buffer.len(), buffer.size().unshared), (200_000, 200_000));
        assert!(buffer.tail.capacity() <= 2 * PIECE + 20);
        assert_eq!(sent(buffer).len(), 200_000);
    }

    #[test]
    fn events_for_the_same_connections_are_one_run_unless_their_order_would_change() {
        let list = |ids: &[u64]| -> Arc<[ConnId]> { ids.iter().copied().map(ConnId).collect() };
        let (all, one, first) = (list(&[1, 2, 3]), list(&[4]), list(&[1]));
        let event = |to: &Arc<[ConnId]>| {
            let (to, kind, path) = (to.into(), EventType::NodeDataChanged, "/a".into());
            SharedEvent { to, zxid: Zxid(1), kind, path }
        };
        let add = |runs: &mut EventRuns, to: &Arc<[ConnId]>| runs.add(to, &event(to));
        let mut runs = EventRuns::default();
        for to in [&all, &one, &all, &one, &all] {
            assert!(add(&mut runs, to));
        }
        assert!(!add(&mut runs, &first), "it comes after three others of the same connection");
        let counts: Vec<_> = runs.take().into_iter().map(|run| (run.to.len(), run.count)).collect();
        assert_eq!(counts, [(3, 3), (1, 2)]);
        assert!(add(&mut runs, &first) && add(&mut runs, &one) && !add(&mut runs, &all));
    }
}
