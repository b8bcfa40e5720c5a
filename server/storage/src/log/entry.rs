//! One entry of the transaction log:
//!
//! ```text
//! checksum   8   Adler-32 of the payload, in the low half
//! length     4   of the payload
//! payload        header 32: session 8, xid 4, zxid 8, time 8, type 4
//!                record, by the type
//!                digest 12, unless this is a refused write: version 4, digest of the tree 8
//!                batch marker 4, of a server of ours: where the entry begins in its batch
//! end        1   0x42
//! ```
//!
//! ZooKeeper ignores what follows the record but a whole digest, so the marker is invisible to it. A batch is what is written
//! before one sync. After a power loss any part of the last batch may be missing, but nothing of those before: so the marker of a
//! valid entry tells whether a bad one before it was ever acknowledged.

use bytes::{Buf, BufMut};
use simd_adler32::adler32;
use zoolet_proto::{SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Txn};

use super::fields::{Fields, Malformed};
use super::record::{self, RecordParser, kind_of};

/// The longest payload that is read. More than every server writes, as Apache writes longer ones than it reads.
pub(crate) const MAX_PAYLOAD: usize = 64 << 20;
/// Checksum and length.
pub(crate) const PREFIX: usize = 12;
/// The shortest payload: a header, and the record of a closeSession of before 3.6, which is empty.
pub(crate) const MIN_PAYLOAD: usize = HEADER;
/// The last byte of an entry.
pub(crate) const END: u8 = 0x42;

const HEADER: usize = 32;
const DIGEST: usize = 12;
const DIGEST_VERSION: i32 = 2;
const MARKER: usize = 4;

/// Appends the entry of a transaction that begins `distance` bytes after its batch, with a payload of at most `max` bytes. After an
/// error, which says why the transaction cannot be stored, `out` is as before.
pub(crate) fn encode(txn: &Txn, distance: u32, max: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    let encoded = encode_payload(txn, distance, max, out).and_then(|()| seal(out, start, max));
    if encoded.is_err() {
        out.truncate(start);
    }
    encoded
}

fn encode_payload(txn: &Txn, distance: u32, max: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut front = [0; PREFIX + HEADER];
    let mut header = &mut front[PREFIX..];
    header.put_i64(txn.session.0);
    header.put_i32(txn.xid.0);
    header.put_i64(txn.zxid.0);
    header.put_i64(txn.time.0);
    header.put_i32(kind_of(&txn.op, txn.session));
    out.extend_from_slice(&front);
    let room = max.saturating_sub(HEADER + DIGEST + MARKER);
    record::put(&txn.op, txn.session, room, out).map_err(|what| format!("{what} cannot be stored"))?;
    if let Some(digest) = txn.digest {
        out.put_i32(DIGEST_VERSION);
        out.put_u64(digest);
    }
    out.put_u32(distance);
    Ok(())
}

/// Fills in checksum and length of the entry that begins at `start`, and ends it.
fn seal(out: &mut Vec<u8>, start: usize, max: usize) -> Result<(), String> {
    let payload = &out[start + PREFIX..];
    if payload.len() > max.min(MAX_PAYLOAD) {
        return Err(format!("its entry has {} bytes, more than servers read", payload.len()));
    }
    let (sum, len) = (adler32(&payload), payload.len() as u32);
    out[start + 4..start + 8].copy_from_slice(&sum.to_be_bytes());
    out[start + 8..start + 12].copy_from_slice(&len.to_be_bytes());
    out.push(END);
    Ok(())
}

/// An entry that was read.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The transaction.
    pub(crate) txn: Txn,
    /// How many bytes after its batch it begins, if a server of ours wrote it.
    pub(crate) distance: Option<u32>,
}

/// What is known of an entry without its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryHeader {
    pub(crate) session: SessionId,
    pub(crate) xid: Xid,
    pub(crate) zxid: Zxid,
    pub(crate) time: Millis,
    pub(crate) kind: i32,
}

impl EntryHeader {
    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            session: SessionId(fields.long()?),
            xid: Xid(fields.int()?),
            zxid: Zxid(fields.long()?),
            time: Millis(fields.long()?),
            kind: fields.int()?,
        })
    }
}

/// Whether `sum`, the first eight bytes of an entry, is that of `payload`.
pub(crate) fn sum_matches(sum: [u8; 8], payload: &[u8]) -> bool {
    u64::from_be_bytes(sum) == u64::from(adler32(&payload))
}

/// Parses the payload of an entry whose checksum is right. What is wrong with it then is damage, and no torn write.
pub(crate) fn parse(payload: &[u8], records: &mut RecordParser) -> Result<Entry, Malformed> {
    let mut fields = Fields(payload);
    let EntryHeader { session, xid, zxid, time, kind } = EntryHeader::parse(&mut fields)?;
    if zxid.0 <= 0 {
        return Err("a zxid that no transaction has");
    }
    let op = records.parse(kind, session, &mut fields)?;
    let (digest, distance) = parse_trailer(fields)?;
    Ok(Entry { txn: Txn { session, xid, zxid, time, op, digest }, distance })
}

/// What follows the record. As in ZooKeeper, fewer bytes than a digest has are not one, and more are ignored.
fn parse_trailer(mut fields: Fields<'_>) -> Result<(Option<u64>, Option<u32>), Malformed> {
    let digest = if fields.len() >= DIGEST {
        let (version, digest) = (fields.int()?, fields.long()?);
        (version == DIGEST_VERSION).then_some(u64::from_be_bytes(digest.to_be_bytes()))
    } else {
        None
    };
    let distance = (fields.len() == MARKER).then(|| fields.0.get_u32());
    Ok((digest, distance))
}
