//! Several operations in one request: lists of header and record, ended by a header that says so.

use bytes::Bytes;
use nom::Parser;

use crate::code::ErrorCode;
use crate::codec::{ByteSink, Codec, Parsed, fail, record};
use crate::jute::{DecodeError, NameList};
use crate::operation::{OpCode, Request};
use crate::records::data::{CheckVersion, Create, CreateTtl, Delete, GetChildren, GetData, SetData};
use crate::stat::Stat;

record! {
    /// Precedes each operation and each result; one more is the trailer.
    pub struct MultiHeader {
        /// Opcode of what follows; −1 for an error result and for the trailer.
        pub kind: i32,
        /// Whether this is the trailer.
        pub done: bool,
        /// The error code of a result; −1 where it has no meaning.
        pub err: i32,
    }
}

const ERROR: i32 = -1;

impl MultiHeader {
    /// What ends the list.
    pub const TRAILER: Self = Self { kind: ERROR, done: true, err: -1 };
}

/// The operations that are legal inside a multi or a multiRead, each with which of them.
macro_rules! parts {
    ($($row:ident($record:ty) in $request:ident,)*) => {
        /// An operation inside a multi or multiRead.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the record it holds")]
        pub enum Op { $($row($record),)* }

        impl Op {
            /// Its opcode.
            pub fn op(&self) -> OpCode {
                match self { $(Self::$row(_) => OpCode::$row,)* }
            }

            /// The path it is about.
            pub fn path(&self) -> &str {
                match self { $(Self::$row(record) => &record.path,)* }
            }

            /// Whether it is one of a multiRead.
            pub fn is_read(&self) -> bool {
                let request = match self { $(Self::$row(_) => OpCode::$request,)* };
                request == OpCode::MultiRead
            }

            fn parse(kind: i32, i: &[u8]) -> Parsed<'_, Self> {
                match OpCode::from_code(kind) {
                    $(Some(OpCode::$row) => <$record>::parse.map(Self::$row).parse(i),)*
                    _ => fail(DecodeError::Malformed),
                }
            }

            fn put(&self, out: &mut impl ByteSink) {
                MultiHeader { kind: self.op().code(), done: false, err: -1 }.put(out);
                match self { $(Self::$row(record) => record.put(out),)* }
            }
        }

        /// The request that does the same by itself.
        impl From<Op> for Request {
            fn from(op: Op) -> Self {
                match op { $(Op::$row(record) => Self::$row(record),)* }
            }
        }
    };
}

parts! {
    Create(Create) in Multi,
    Create2(Create) in Multi,
    CreateContainer(Create) in Multi,
    CreateTtl(CreateTtl) in Multi,
    Delete(Delete) in Multi,
    SetData(SetData) in Multi,
    Check(CheckVersion) in Multi,
    GetData(GetData) in MultiRead,
    GetChildren(GetChildren) in MultiRead,
}

/// The results, each tagged with the opcode of its name.
macro_rules! results {
    ($($(#[$meta:meta])* $row:ident $(($($field:ident: $kind:ty),+))?,)*) => {
        /// The result of one operation of a multi or multiRead.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum OpResult {
            $($(#[$meta])* $row $(($($kind),+))?,)*
            /// A failure; `None` for an operation that would have succeeded, had a later one not failed.
            Error(Option<ErrorCode>),
        }

        impl OpResult {
            fn parse(kind: i32, i: &[u8]) -> Parsed<'_, Self> {
                match OpCode::from_code(kind) {
                    $(Some(OpCode::$row) => {
                        $($(let (i, $field) = Codec::parse(i)?;)+)?
                        Ok((i, Self::$row $(($($field),+))?))
                    })*
                    None if kind == ERROR => {
                        i32::parse.map(|code| Self::Error(ErrorCode::from_code(code))).parse(i)
                    }
                    _ => fail(DecodeError::Malformed),
                }
            }

            /// Appends the result with its header, as one of the list that is the body of the reply.
            fn put(&self, out: &mut impl ByteSink) {
                match self {
                    $(Self::$row $(($($field),+))? => {
                        MultiHeader { kind: OpCode::$row.code(), done: false, err: 0 }.put(out);
                        $($($field.put(out);)+)?
                    })*
                    Self::Error(code) => {
                        let err = code.map_or(0, ErrorCode::code);
                        MultiHeader { kind: ERROR, done: false, err }.put(out);
                        err.put(out);
                    }
                }
            }
        }
    };
}

results! {
    /// A create: the final path.
    Create(path: String),
    /// A create2, createContainer or createTTL: the final path, and the Stat after this operation.
    Create2(path: String, stat: Stat),
    /// A delete.
    Delete,
    /// A setData: the Stat after this operation.
    SetData(stat: Stat),
    /// A check.
    Check,
    /// A getData.
    GetData(data: Option<Bytes>, stat: Stat),
    /// A getChildren.
    GetChildren(names: NameList),
}

/// Parses items up to the trailer, which is any header with `done`, whatever its type.
fn list<'i, T>(mut i: &'i [u8], item: impl Fn(i32, &'i [u8]) -> Parsed<'i, T>) -> Parsed<'i, Vec<T>> {
    let mut items = Vec::new();
    loop {
        let (rest, header) = MultiHeader::parse(i)?;
        if header.done {
            return Ok((rest, items));
        }
        let (rest, value) = item(header.kind, rest)?;
        items.push(value);
        i = rest;
    }
}

/// The body of a multi or multiRead. A list that mixes writes and reads does not decode.
impl Codec for Vec<Op> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        let (i, ops) = list(i, Op::parse)?;
        if ops.windows(2).any(|pair| pair[0].is_read() != pair[1].is_read()) {
            return fail(DecodeError::Malformed);
        }
        Ok((i, ops))
    }

    fn put(&self, out: &mut impl ByteSink) {
        self.iter().for_each(|op| op.put(out));
        MultiHeader::TRAILER.put(out);
    }
}

/// The body of the reply to either.
impl Codec for Vec<OpResult> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        list(i, OpResult::parse)
    }

    fn put(&self, out: &mut impl ByteSink) {
        self.iter().for_each(|result| result.put(out));
        MultiHeader::TRAILER.put(out);
    }
}
