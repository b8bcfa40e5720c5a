//! Frames: a length, then as many bytes.

use bytes::{BufMut, BytesMut};

/// The longest frame that a server and the Java client accept: the default of `jute.maxbuffer`, inclusive.
pub const DEFAULT_MAX_FRAME: usize = 0xf_ffff;

/// Bytes of the length prefix.
pub const PREFIX: usize = 4;

/// An invalid length prefix. The stream has no further frames: close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid frame length {length}: must be between 1 and {max}")]
pub struct BadLength {
    /// The length as sent.
    pub length: i32,
    /// The limit.
    pub max: usize,
}

/// The first frame in `bytes` without its prefix; `None` while it is incomplete.
///
/// The frame takes `PREFIX + frame.len()` bytes of the buffer; the next frame follows.
///
/// # Errors
/// [`BadLength`] as soon as the prefix is complete, if it is zero, negative, or above `max`.
pub fn split(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, BadLength> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(len) if len >= 1 && len <= max => Ok(rest.get(..len)),
        _ => Err(BadLength { length, max }),
    }
}

/// Appends a frame whose payload `fill` appends.
pub fn put(out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    fill(out);
    let length = i32::try_from(out.len() - start - PREFIX).unwrap_or(i32::MAX);
    out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_returned_once_it_is_complete() {
        let wire = [0, 0, 0, 2, 7, 8, 9];
        for cut in 0..6 {
            assert_eq!(split(&wire[..cut], 10), Ok(None), "{cut} bytes");
        }
        assert_eq!(split(&wire, 10), Ok(Some(&wire[4..6])));
    }

    #[test]
    fn zero_negative_and_oversize_lengths_are_refused_at_the_prefix() {
        for length in [0, -1, i32::MIN, DEFAULT_MAX_FRAME as i32 + 1, i32::MAX] {
            let error = BadLength { length, max: DEFAULT_MAX_FRAME };
            assert_eq!(split(&length.to_be_bytes(), DEFAULT_MAX_FRAME), Err(error));
        }
        assert_eq!(split(&(DEFAULT_MAX_FRAME as i32).to_be_bytes(), DEFAULT_MAX_FRAME), Ok(None));
    }
}
