//! The primitives of jute, as log entries have them: [`Fields`] reads, the `put_` functions write.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use zoolet_proto::{Jute, path};

use crate::text;

/// Why a field cannot be read: what is wrong, in a few words.
pub(crate) type Malformed = &'static str;

const SHORT: Malformed = "the record is shorter than its fields";

/// The fields of a record, read from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// How many bytes are left.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        self.0.try_get_u8().map(|byte| byte != 0).map_err(|_| SHORT)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.0.try_get_i32().map_err(|_| SHORT)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.0.try_get_i64().map_err(|_| SHORT)
    }

    /// A buffer or string; −1 is null.
    pub(crate) fn buffer(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            len => {
                let len = usize::try_from(len).map_err(|_| "a negative length")?;
                let (bytes, rest) = self.0.split_at_checked(len).ok_or(SHORT)?;
                self.0 = rest;
                Ok(Some(bytes))
            }
        }
    }

    /// Data, which is copied: it must not keep the buffer of a reader in memory.
    pub(crate) fn data(&mut self) -> Result<Option<Bytes>, Malformed> {
        Option::<Bytes>::decode(&mut self.0).map_err(|_| SHORT)
    }

    pub(crate) fn path(&mut self) -> Result<Arc<str>, Malformed> {
        let bytes = self.buffer()?.ok_or("a null path")?;
        let text = std::str::from_utf8(bytes).map_err(|_| "a path that is not UTF-8")?;
        path::validate(text).map_err(|_| "an invalid path")?;
        Ok(text.into())
    }

    /// A string that is not a path. Null, which no server writes there, becomes empty.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let Some(bytes) = self.buffer()? else { return Ok(String::new()) };
        text::decode(bytes).ok_or("a string that is not UTF-8")
    }

    /// The count of a vector; −1 is null. A count that the rest cannot hold is refused, so that nothing is reserved for it.
    pub(crate) fn count(&mut self, min_len: usize) -> Result<Option<usize>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            count => match usize::try_from(count) {
                Ok(count) if count.saturating_mul(min_len) <= self.len() => Ok(Some(count)),
                Ok(_) => Err(SHORT),
                Err(_) => Err("a negative count"),
            },
        }
    }
}

/// A length or count. No entry is long enough for one above `i32::MAX`: it is refused afterwards.
pub(crate) fn put_count(count: usize, out: &mut Vec<u8>) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}

pub(crate) fn put_buffer(bytes: &[u8], out: &mut Vec<u8>) {
    put_count(bytes.len(), out);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_data(data: Option<&Bytes>, out: &mut Vec<u8>) {
    match data {
        Some(data) => put_buffer(data, out),
        None => out.put_i32(-1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_the_rest_cannot_hold_is_refused() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 0];
        assert_eq!(Fields(&bytes).count(4), Err(SHORT));
        assert_eq!(Fields(&bytes).count(2), Ok(Some(2)));
        assert_eq!(Fields(&[0xff; 4]).count(4), Ok(None));
        assert_eq!(Fields(&[0xff, 0xff, 0xff, 0xfe]).count(4), Err("a negative count"));
    }

    #[test]
    fn a_path_must_be_one() {
        for (bytes, reason) in [
            (&b"\xff\xff\xff\xff"[..], "a null path"),
            (b"\0\0\0\x02/\xff", "a path that is not UTF-8"),
            (b"\0\0\0\x03/a/", "an invalid path"),
            (b"\0\0\0\x03/a", SHORT),
            (b"\xff\xff\xff\xfe", "a negative length"),
        ] {
            assert_eq!(Fields(bytes).path(), Err(reason));
        }
    }
}
