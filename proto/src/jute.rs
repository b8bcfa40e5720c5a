//! Jute, ZooKeeper's serialization: a parser and an encoder for each primitive, and [`record!`](crate::jute)
//! records that are nothing but their fields in wire order.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use nom::bytes::complete::take;
use nom::error::{ErrorKind, ParseError};
use nom::number::complete::be_u8;
use nom::{IResult, Parser};

/// What a parser of this crate returns: the rest of the input and the value.
pub type Parsed<'i, T> = IResult<&'i [u8], T, DecodeError>;

/// Why the bytes of a record are not that record.
///
/// The kinds differ because a server answers them differently: a null path in a write still takes a zxid, bytes that
/// do not decode do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Too short, a length that lies, or a value outside its enumeration.
    Malformed,
    /// A null string where a path must stand.
    NullPath,
    /// A null id in an ACL entry of a scheme that looks at ids.
    NullId,
}

impl<I> ParseError<I> for DecodeError {
    fn from_error_kind(_: I, _: ErrorKind) -> Self {
        DecodeError::Malformed
    }

    fn append(_: I, _: ErrorKind, flaw: Self) -> Self {
        flaw
    }
}

/// Stops a parser with `flaw`.
pub(crate) fn refuse<T>(flaw: DecodeError) -> Result<T, nom::Err<DecodeError>> {
    Err(nom::Err::Error(flaw))
}

/// Parses a whole `T` from the front of `input`; what stands behind it is ignored, as real servers and clients do.
pub fn parse<T: Jute>(input: &[u8]) -> Result<T, DecodeError> {
    whole(T::parse(input))
}

/// The value of a finished parse.
pub(crate) fn whole<T>(parsed: Parsed<'_, T>) -> Result<T, DecodeError> {
    match parsed {
        Ok((_, value)) => Ok(value),
        Err(nom::Err::Error(flaw) | nom::Err::Failure(flaw)) => Err(flaw),
        Err(nom::Err::Incomplete(_)) => Err(DecodeError::Malformed),
    }
}

/// A value that travels as jute.
pub trait Jute: Sized {
    /// Takes the value from the front of `i`.
    fn parse(i: &[u8]) -> Parsed<'_, Self>;

    /// Appends the value to `out`.
    fn encode(&self, out: &mut BytesMut);
}

impl Jute for bool {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        be_u8.map(|byte| byte != 0).parse(i)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }
}

impl Jute for i32 {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        number(i, i32::from_be_bytes)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(*self);
    }
}

impl Jute for i64 {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        number(i, i64::from_be_bytes)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i64(*self);
    }
}

/// A number of `N` bytes. nom's own parsers take them one by one, at three times the cost for a [`Stat`](crate::Stat).
fn number<const N: usize, T>(i: &[u8], of: impl FnOnce([u8; N]) -> T) -> Parsed<'_, T> {
    match i.split_first_chunk() {
        Some((bytes, i)) => Ok((i, of(*bytes))),
        None => refuse(DecodeError::Malformed),
    }
}

/// Length-prefixed bytes; −1 is null, which is not empty. Their bound is that of the frame they are in: the one of their own
/// that ZooKeeper has is higher by default (`BinaryInputArchive.checkLength`), and moves with it.
fn field(i: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    match i32::parse(i)? {
        (i, -1) => Ok((i, None)),
        (i, len @ 0..) => take(len.unsigned_abs()).map(Some).parse(i),
        _ => refuse(DecodeError::Malformed),
    }
}

/// A buffer. The bytes are copied out of the frame: whoever keeps them must not hold the read buffer with them.
impl Jute for Option<Bytes> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        field.map(|data| data.map(Bytes::copy_from_slice)).parse(i)
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(data) => {
                put_len(data.len(), out);
                out.put_slice(data);
            }
            None => out.put_i32(-1),
        }
    }
}

/// A string. Malformed UTF-8 becomes U+FFFD, as Java reads it; no path may contain that, so it is refused later.
impl Jute for Option<String> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        field.map(|text| text.map(text_of)).parse(i)
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(text) => put_str(text, out),
            None => out.put_i32(-1),
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    // A check of the whole is much quicker than a search for what is to be replaced, and nearly all there is to do.
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A string that must not be null. Every such string of the protocol is a path, hence the flaw.
impl Jute for String {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        match Option::<String>::parse(i)? {
            (i, Some(text)) => Ok((i, text)),
            (_, None) => refuse(DecodeError::NullPath),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        put_str(self, out);
    }
}

/// A vector that may be null. Any other negative count is an empty one, as Java reads it.
impl<T: Jute> Jute for Option<Vec<T>> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        let (mut i, count) = i32::parse(i)?;
        if count == -1 {
            return Ok((i, None));
        }
        let count = usize::try_from(count).unwrap_or(0);
        // A count may lie: every element takes at least a byte, so this never reserves more than the frame has.
        let mut items = Vec::with_capacity(count.min(i.len() / 4));
        for _ in 0..count {
            let (rest, item) = T::parse(i)?;
            items.push(item);
            i = rest;
        }
        Ok((i, Some(items)))
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Some(items) => items.encode(out),
            None => out.put_i32(-1),
        }
    }
}

impl<T: Jute> Jute for Vec<T> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        match Option::<Vec<T>>::parse(i)? {
            (i, Some(items)) => Ok((i, items)),
            (_, None) => refuse(DecodeError::Malformed),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        put_len(self.len(), out);
        for item in self {
            item.encode(out);
        }
    }
}

/// Appends a string that is not null.
pub(crate) fn put_str(text: &str, out: &mut BytesMut) {
    put_len(text.len(), out);
    out.put_slice(text.as_bytes());
}

/// Appends a length or count. One past `i32::MAX` cannot be said in jute; memory ends long before.
fn put_len(len: usize, out: &mut BytesMut) {
    out.put_i32(i32::try_from(len).unwrap_or(i32::MAX));
}

/// A list of names, such as the children of a znode, kept in its wire form: a long listing is one allocation.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NameList {
    count: usize,
    encoded: Bytes,
}

impl NameList {
    /// How many names there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many bytes the names take in a frame.
    pub fn encoded_len(&self) -> usize {
        self.encoded.len()
    }

    /// The names in wire order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || {
            let (i, name) = String::parse(rest).ok()?;
            rest = i;
            Some(name)
        })
    }
}

impl<'a> FromIterator<&'a str> for NameList {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut encoded = BytesMut::new();
        let mut count = 0;
        for name in names {
            put_str(name, &mut encoded);
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

impl Jute for NameList {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        let (start, count) = i32::parse(i)?;
        let count = usize::try_from(count).unwrap_or(0);
        let mut rest = start;
        for _ in 0..count {
            match field(rest)? {
                (i, Some(_)) => rest = i,
                (_, None) => return refuse(DecodeError::Malformed),
            }
        }
        let encoded = Bytes::copy_from_slice(&start[..start.len() - rest.len()]);
        Ok((rest, Self { count, encoded }))
    }

    fn encode(&self, out: &mut BytesMut) {
        put_len(self.count, out);
        out.put_slice(&self.encoded);
    }
}

/// Defines a record: a struct whose wire form is its fields in order.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        impl $crate::jute::Jute for $name {
            fn parse(i: &[u8]) -> $crate::jute::Parsed<'_, Self> {
                $(let (i, $field) = <$kind as $crate::jute::Jute>::parse(i)?;)*
                Ok((i, Self { $($field,)* }))
            }

            fn encode(&self, out: &mut bytes::BytesMut) {
                $($crate::jute::Jute::encode(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use record;

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
    fn malformed_utf8_is_read_as_the_replacement_character() {
        assert_eq!(parse::<String>(&[0, 0, 0, 2, b'/', 0xff]), Ok("/\u{fffd}".to_owned()));
    }

    #[test]
    fn a_lying_vector_count_is_refused_without_reserving_for_it() {
        assert_eq!(parse::<Vec<i64>>(&[0x7f, 0xff, 0xff, 0xff, 1, 2, 3]), Err(DecodeError::Malformed));
    }

    #[test]
    fn a_vector_count_of_minus_one_is_null_and_any_other_negative_one_is_empty() {
        assert_eq!(parse::<Option<Vec<i32>>>(&(-1i32).to_be_bytes()), Ok(None));
        assert_eq!(parse::<Option<Vec<i32>>>(&(-5i32).to_be_bytes()), Ok(Some(vec![])));
    }

    #[test]
    fn a_name_list_gives_back_its_names_in_order() {
        let list: NameList = ["b", "a", "ü"].into_iter().collect();
        assert_eq!(parse::<NameList>(&encoded(&list)), Ok(list.clone()));
        assert_eq!(list.iter().collect::<Vec<_>>(), ["b", "a", "ü"]);
    }
}
