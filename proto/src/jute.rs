//! Jute, ZooKeeper's serialization: [`Jute`] values, the errors of decoding, and [`NameList`].

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};

use crate::codec::{ByteSink, Codec, Parsed, fail, field, finish, put_field, put_len};
pub use crate::short::copied;

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

/// A list of names, such as the children of a znode, kept in its wire form: a long listing is one allocation, which clones
/// share.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NameList(Arc<Names>);

/// A list of names that does not keep it in memory.
#[derive(Debug, Clone, Default)]
pub struct WeakNameList(Weak<Names>);

#[derive(PartialEq, Eq, Default)]
struct Names {
    count: usize,
    encoded: Vec<u8>,
}

impl NameList {
    /// The number of names.
    pub fn len(&self) -> usize {
        self.0.count
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that the names take in a frame.
    pub fn encoded_len(&self) -> usize {
        self.0.encoded.len()
    }

    /// The names as they are in a frame, without the count before them. The bytes share the memory of the list, and keep it.
    pub fn encoded(&self) -> Bytes {
        Bytes::from_owner(Owner(Arc::clone(&self.0)))
    }

    /// The names in wire order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        let mut rest = &self.0.encoded[..];
        std::iter::from_fn(move || String::decode(&mut rest).ok())
    }

    /// Makes a list of names that together have `encoded_len` bytes, with their lengths of four bytes each. If they have
    /// not, only more time or memory is needed.
    pub fn with_encoded_len<'a>(encoded_len: usize, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut encoded = Vec::with_capacity(encoded_len);
        let mut count = 0;
        for name in names {
            put_field(name.as_bytes(), &mut encoded);
            count += 1;
        }
        Self(Arc::new(Names { count, encoded }))
    }

    /// A reference to the list that does not keep it.
    pub fn downgrade(&self) -> WeakNameList {
        WeakNameList(Arc::downgrade(&self.0))
    }
}

impl WeakNameList {
    /// The list, if it is still in memory.
    pub fn upgrade(&self) -> Option<NameList> {
        self.0.upgrade().map(NameList)
    }
}

struct Owner(Arc<Names>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.encoded
    }
}

impl<'a> FromIterator<&'a str> for NameList {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self::with_encoded_len(0, names)
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
        let encoded = start[..start.len() - rest.len()].to_vec();
        Ok((rest, Self(Arc::new(Names { count, encoded }))))
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_len(self.len(), out);
        out.append_shared(&self.0.encoded, || self.encoded());
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
        assert_eq!(list.encoded(), encoded(&list)[4..]);
    }

    #[test]
    fn a_weak_name_list_lasts_as_long_as_the_list_or_its_bytes() {
        let list: NameList = ["a"].into_iter().collect();
        let (weak, bytes) = (list.downgrade(), list.encoded());
        drop(list);
        assert_eq!(weak.upgrade().map(|list| list.len()), Some(1));
        drop(bytes);
        assert!(weak.upgrade().is_none());
    }
}
