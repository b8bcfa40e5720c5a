//! Jute, ZooKeeper's serialization: [`Jute`] values, the errors of decoding, and [`NameList`].

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec::{Codec, Parsed, fail, field, finish, put_field, put_len};

/// A value that travels as jute: every record of this crate and the primitives. No other type can implement it.
pub trait Jute: Codec {
    /// Decodes a value from the front of `input`, which then starts after it.
    ///
    /// # Errors
    /// What is wrong with the bytes; `input` is then unchanged.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (rest, value) = finish(Self::parse(input))?;
        *input = rest;
        Ok(value)
    }

    /// Appends the value to `out`.
    fn encode(&self, out: &mut BytesMut) {
        self.put(out);
    }
}

impl<T: Codec> Jute for T {}

/// Decodes a value from the front of `input`. The bytes after it are ignored, as real servers and clients do.
///
/// # Errors
/// What is wrong with the bytes.
pub fn parse<T: Jute>(mut input: &[u8]) -> Result<T, DecodeError> {
    T::decode(&mut input)
}

/// Why bytes do not decode as a record.
///
/// A server answers these errors differently: a write with a null path still takes a zxid, a malformed one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Too short, a wrong length, or a value outside its enumeration.
    #[error("malformed record")]
    Malformed,
    /// A null string in place of a path.
    #[error("null path")]
    NullPath,
    /// A null id in an ACL entry whose scheme needs one.
    #[error("null id in an ACL entry")]
    NullId,
}

/// A list of names, such as the children of a znode, kept in its wire form: a long listing is one allocation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NameList {
    count: usize,
    encoded: Bytes,
}

impl NameList {
    /// The number of names.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes that the names take in a frame.
    pub fn encoded_len(&self) -> usize {
        self.encoded.len()
    }

    /// The names in wire order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || String::decode(&mut rest).ok())
    }
}

impl<'a> FromIterator<&'a str> for NameList {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut encoded = BytesMut::new();
        let mut count = 0;
        for name in names {
            put_field(name.as_bytes(), &mut encoded);
            count += 1;
        }
        Self { count, encoded: encoded.freeze() }
    }
}

impl fmt::Debug for NameList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Codec for NameList {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        let (start, count) = i32::parse(i)?;
        let count = usize::try_from(count).unwrap_or(0);
        let mut rest = start;
        for _ in 0..count {
            match field(rest)? {
                (i, Some(_)) => rest = i,
                (_, None) => return fail(DecodeError::Malformed),
            }
        }
        let encoded = Bytes::copy_from_slice(&start[..start.len() - rest.len()]);
        Ok((rest, Self { count, encoded }))
    }

    fn put(&self, out: &mut BytesMut) {
        put_len(self.count, out);
        out.put_slice(&self.encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &impl Jute) -> Vec<u8> {
        let mut out = BytesMut::new();
        value.encode(&mut out);
        out.to_vec()
    }

    #[test]
    fn null_and_empty_buffers_are_different_values() {
        assert_eq!(encoded(&None::<Bytes>), (-1i32).to_be_bytes());
        assert_eq!(encoded(&Some(Bytes::new())), 0i32.to_be_bytes());
        assert_eq!(parse::<Option<Bytes>>(&(-1i32).to_be_bytes()), Ok(None));
        assert_eq!(parse::<Option<Bytes>>(&0i32.to_be_bytes()), Ok(Some(Bytes::new())));
    }

    #[test]
    fn a_length_below_minus_one_or_past_the_end_is_refused() {
        for len in [-2, i32::MIN, 61, i32::MAX] {
            let mut bytes = len.to_be_bytes().to_vec();
            bytes.resize(64, 0);
            assert_eq!(parse::<Option<Bytes>>(&bytes), Err(DecodeError::Malformed), "length {len}");
        }
    }

    #[test]
    fn any_non_zero_byte_is_true() {
        assert_eq!(parse::<bool>(&[7]), Ok(true));
        assert_eq!(parse::<bool>(&[0]), Ok(false));
    }

    #[test]
    fn malformed_utf8_decodes_as_the_replacement_character() {
        assert_eq!(parse::<String>(&[0, 0, 0, 2, b'/', 0xff]), Ok("/\u{fffd}".to_owned()));
    }

    #[test]
    fn a_wrong_vector_count_is_refused_without_reserving_for_it() {
        assert_eq!(parse::<Vec<i64>>(&[0x7f, 0xff, 0xff, 0xff, 1, 2, 3]), Err(DecodeError::Malformed));
    }

    #[test]
    fn a_vector_count_of_minus_one_is_null_and_any_other_negative_one_is_empty() {
        assert_eq!(parse::<Option<Vec<i32>>>(&(-1i32).to_be_bytes()), Ok(None));
        assert_eq!(parse::<Option<Vec<i32>>>(&(-5i32).to_be_bytes()), Ok(Some(vec![])));
    }

    #[test]
    fn a_name_list_yields_its_names_in_order() {
        let list: NameList = ["b", "a", "ü"].into_iter().collect();
        assert_eq!(parse::<NameList>(&encoded(&list)), Ok(list.clone()));
        assert_eq!(list.iter().collect::<Vec<_>>(), ["b", "a", "ü"]);
    }
}
