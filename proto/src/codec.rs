//! The parsers, on nom, and the encoders of jute's primitives, and the macro that makes a [`Codec`] of a list of fields.
//!
//! This module is private, so nom is not part of the public API: outside, a codec is seen as [`Jute`](crate::Jute).

use bytes::{Bytes, BytesMut};
use nom::bytes::complete::take;
use nom::error::{ErrorKind, FromExternalError, ParseError};
use nom::number::complete::be_u8;
use nom::{IResult, Parser};

use crate::jute::DecodeError;
use crate::short::copied;

/// The result of a parser of this crate: the rest of the input and the value.
pub type Parsed<'i, T> = IResult<&'i [u8], T, DecodeError>;

/// A value that travels as jute.
pub trait Codec: Sized {
    /// Parses the value from the front of `i`.
    fn parse(i: &[u8]) -> Parsed<'_, Self>;

    /// Appends the value to `out`.
    fn put(&self, out: &mut impl ByteSink);
}

/// What a value is appended to.
pub trait ByteSink {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]);

    /// Appends bytes that the sink may also keep as what `share` returns, which is a part of the same memory.
    fn append_shared(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes) {
        let _ = share;
        self.append(bytes);
    }
}

impl ByteSink for BytesMut {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl ByteSink for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts what is appended. So a length is computed by the encoder itself, and no field can be forgotten.
pub(crate) struct Count(usize);

impl ByteSink for Count {
    fn append(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// The bytes that `put` appends.
pub(crate) fn len_of(put: impl FnOnce(&mut Count)) -> usize {
    let mut count = Count(0);
    put(&mut count);
    count.0
}

impl<I> ParseError<I> for DecodeError {
    fn from_error_kind(_: I, _: ErrorKind) -> Self {
        Self::Malformed
    }

    fn append(_: I, _: ErrorKind, error: Self) -> Self {
        error
    }
}

impl<I> FromExternalError<I, DecodeError> for DecodeError {
    fn from_external_error(_: I, _: ErrorKind, error: DecodeError) -> Self {
        error
    }
}

/// Fails a parser with `error`.
pub(crate) fn fail<T>(error: DecodeError) -> Result<T, nom::Err<DecodeError>> {
    Err(nom::Err::Error(error))
}

/// Takes the result of a parser out of nom's types.
pub(crate) fn finish<'i, T>(parsed: Parsed<'i, T>) -> Result<(&'i [u8], T), DecodeError> {
    parsed.map_err(|error| match error {
        nom::Err::Error(error) | nom::Err::Failure(error) => error,
        // Only streaming parsers need more.
        nom::Err::Incomplete(_) => DecodeError::Malformed,
    })
}

impl Codec for bool {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        be_u8.map(|byte| byte != 0).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        out.append(&[u8::from(*self)]);
    }
}

impl Codec for i32 {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        number(i, i32::from_be_bytes)
    }

    fn put(&self, out: &mut impl ByteSink) {
        out.append(&self.to_be_bytes());
    }
}

impl Codec for i64 {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        number(i, i64::from_be_bytes)
    }

    fn put(&self, out: &mut impl ByteSink) {
        out.append(&self.to_be_bytes());
    }
}

/// A number of `N` bytes. nom's own parsers take them one by one, at three times the cost for a [`Stat`](crate::Stat).
fn number<const N: usize, T>(i: &[u8], of: impl FnOnce([u8; N]) -> T) -> Parsed<'_, T> {
    match i.split_first_chunk() {
        Some((bytes, i)) => Ok((i, of(*bytes))),
        None => fail(DecodeError::Malformed),
    }
}

/// Length-prefixed bytes; −1 is null, which is not empty. The frame bounds their length. ZooKeeper's own bound is higher by
/// default (`BinaryInputArchive.checkLength`) and moves with that of the frame.
pub(crate) fn field(i: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    match i32::parse(i)? {
        (i, -1) => Ok((i, None)),
        (i, len @ 0..) => take(len.unsigned_abs()).map(Some).parse(i),
        _ => fail(DecodeError::Malformed),
    }
}

/// A buffer that must not be null.
impl Codec for Bytes {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        Option::<Bytes>::parse.map_opt(|data| data).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_len(self.len(), out);
        out.append_shared(self, || self.clone());
    }
}

/// A buffer. Its bytes are copied out of the frame, so that a value that is kept does not keep the read buffer.
impl Codec for Option<Bytes> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        field.map(|data| data.map(copied)).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_nullable(self.as_ref(), out);
    }
}

/// A string. Malformed UTF-8 becomes U+FFFD, as in Java. No path may contain that, so it is refused later.
impl Codec for Option<String> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        field.map(|text| text.map(text_of)).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_nullable(self.as_ref(), out);
    }
}

fn text_of(bytes: &[u8]) -> String {
    // Validating the whole is much quicker than searching for what to replace, and is nearly always enough.
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A string that must not be null. Every such string of the protocol is a path, hence the error.
impl Codec for String {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        Option::<String>::parse.map_res(|text| text.ok_or(DecodeError::NullPath)).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_field(self.as_bytes(), out);
    }
}

/// A vector that may be null. Any other negative count is an empty one, as in Java.
impl<T: Codec> Codec for Option<Vec<T>> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        let (mut i, count) = i32::parse(i)?;
        if count == -1 {
            return Ok((i, None));
        }
        let count = usize::try_from(count).unwrap_or(0);
        // The count may be wrong. The elements take at least four bytes each, so this reserves for no more than the frame can hold.
        let mut items = Vec::with_capacity(count.min(i.len() / 4));
        for _ in 0..count {
            let (rest, item) = T::parse(i)?;
            items.push(item);
            i = rest;
        }
        Ok((i, Some(items)))
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_nullable(self.as_ref(), out);
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        Option::<Vec<T>>::parse.map_opt(|items| items).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        put_items(self, out);
    }
}

/// Appends a buffer, string or vector, or −1 for null.
fn put_nullable(value: Option<&impl Codec>, out: &mut impl ByteSink) {
    match value {
        Some(value) => value.put(out),
        None => (-1).put(out),
    }
}

/// Appends a vector.
pub(crate) fn put_items<T: Codec>(items: &[T], out: &mut impl ByteSink) {
    put_len(items.len(), out);
    for item in items {
        item.put(out);
    }
}

impl<T: Codec> Codec for Box<T> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        T::parse.map(Box::new).parse(i)
    }

    fn put(&self, out: &mut impl ByteSink) {
        T::put(self, out);
    }
}

/// Appends a buffer or string that is not null.
pub(crate) fn put_field(bytes: &[u8], out: &mut impl ByteSink) {
    put_len(bytes.len(), out);
    out.append(bytes);
}

/// Appends a length or count. Jute cannot express one above `i32::MAX`; memory ends long before.
pub(crate) fn put_len(len: usize, out: &mut impl ByteSink) {
    i32::try_from(len).unwrap_or(i32::MAX).put(out);
}

/// Defines a record: a struct whose wire form is its fields in order.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $kind,)* }

        $crate::codec::fields!($name { $($field),* });
    };
}
pub(crate) use record;

/// Makes a [`Codec`] of a struct: its fields in order.
macro_rules! fields {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::codec::Codec for $name {
            #[inline]
            fn parse(i: &[u8]) -> $crate::codec::Parsed<'_, Self> {
                $(let (i, $field) = $crate::codec::Codec::parse(i)?;)*
                Ok((i, Self { $($field,)* }))
            }

            fn put(&self, out: &mut impl $crate::codec::ByteSink) {
                $($crate::codec::Codec::put(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use fields;
