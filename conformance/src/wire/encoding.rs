//! Frames, and fields with a length before them, which is −1 for null.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use zoolet_proto::frame;

/// A payload with its length before it.
pub(crate) fn framed(payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(frame::PREFIX + payload.len());
    frame::put(&mut bytes, |out| out.put_slice(payload));
    bytes.freeze()
}

/// The payload of the frame that is encoded.
pub(crate) fn payload(encode: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::new();
    encode(&mut bytes);
    bytes.freeze().slice(frame::PREFIX..)
}

/// Takes a field. None if the body ends before; nothing in it if it is null.
pub(crate) fn take_bytes<'b>(body: &mut &'b [u8]) -> Option<Option<&'b [u8]>> {
    match usize::try_from(body.try_get_i32().ok()?) {
        Ok(length) => {
            let (bytes, rest) = body.split_at_checked(length)?;
            *body = rest;
            Some(Some(bytes))
        }
        Err(_) => Some(None),
    }
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn put_count(count: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

pub(crate) fn put_bytes(bytes: &[u8], out: &mut BytesMut) {
    put_count(bytes.len(), out);
    out.put_slice(bytes);
}
