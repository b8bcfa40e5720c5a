//! Several operations in one request: lists of header and record, ended by a header that says so.

use bytes::{Bytes, BytesMut};

use crate::code::{ErrorCode, OpCode};
use crate::jute::{DecodeError, Jute, NameList, Parsed, put_str, record, refuse};
use crate::records::data::{CheckVersion, Create, CreateTtl, Delete, GetChildren, GetData, SetData};
use crate::stat::Stat;

record! {
    /// Stands before each operation and result, and once more as the trailer.
    pub struct MultiHeader {
        /// Opcode of what follows; −1 for an error result and for the trailer.
        pub kind: i32,
        /// Whether this is the trailer.
        pub done: bool,
        /// The error code of a result; −1 where it means nothing.
        pub err: i32,
    }
}

const ERROR: i32 = -1;
const TRAILER: MultiHeader = MultiHeader { kind: -1, done: true, err: -1 };

/// An operation inside a multi or multiRead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the record it holds")]
pub enum Op {
    Create(Create),
    Create2(Create),
    CreateContainer(Create),
    CreateTtl(CreateTtl),
    Delete(Delete),
    SetData(SetData),
    Check(CheckVersion),
    GetData(GetData),
    GetChildren(GetChildren),
}

impl Op {
    /// The path it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Create(record) | Self::Create2(record) | Self::CreateContainer(record) => &record.path,
            Self::CreateTtl(record) => &record.path,
            Self::Delete(record) => &record.path,
            Self::SetData(record) => &record.path,
            Self::Check(record) => &record.path,
            Self::GetData(record) => &record.path,
            Self::GetChildren(record) => &record.path,
        }
    }

    /// Whether it is one of a multiRead.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::GetData(_) | Self::GetChildren(_))
    }

    fn parse(kind: i32, i: &[u8]) -> Parsed<'_, Self> {
        fn of<T: Jute>(i: &[u8], wrap: impl FnOnce(T) -> Op) -> Parsed<'_, Op> {
            T::parse(i).map(|(i, record)| (i, wrap(record)))
        }
        match OpCode::from_code(kind) {
            Some(OpCode::Create) => of(i, Self::Create),
            Some(OpCode::Create2) => of(i, Self::Create2),
            Some(OpCode::CreateContainer) => of(i, Self::CreateContainer),
            Some(OpCode::CreateTtl) => of(i, Self::CreateTtl),
            Some(OpCode::Delete) => of(i, Self::Delete),
            Some(OpCode::SetData) => of(i, Self::SetData),
            Some(OpCode::Check) => of(i, Self::Check),
            Some(OpCode::GetData) => of(i, Self::GetData),
            Some(OpCode::GetChildren) => of(i, Self::GetChildren),
            _ => refuse(DecodeError::Malformed),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        let (op, record): (_, &dyn Encode) = match self {
            Self::Create(record) => (OpCode::Create, record),
            Self::Create2(record) => (OpCode::Create2, record),
            Self::CreateContainer(record) => (OpCode::CreateContainer, record),
            Self::CreateTtl(record) => (OpCode::CreateTtl, record),
            Self::Delete(record) => (OpCode::Delete, record),
            Self::SetData(record) => (OpCode::SetData, record),
            Self::Check(record) => (OpCode::Check, record),
            Self::GetData(record) => (OpCode::GetData, record),
            Self::GetChildren(record) => (OpCode::GetChildren, record),
        };
        MultiHeader { kind: op.code(), done: false, err: -1 }.encode(out);
        record.encode_dyn(out);
    }
}

/// The encoding half of [`Jute`], which a trait object can have.
trait Encode {
    fn encode_dyn(&self, out: &mut BytesMut);
}

impl<T: Jute> Encode for T {
    fn encode_dyn(&self, out: &mut BytesMut) {
        self.encode(out);
    }
}

/// What one operation of a multi or multiRead came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// A create: the final path.
    Create(String),
    /// A create2, createContainer or createTTL: the final path, and the Stat as of this operation.
    Create2(String, Stat),
    /// A delete.
    Delete,
    /// A setData: the Stat as of this operation.
    SetData(Stat),
    /// A check.
    Check,
    /// A getData.
    GetData(Option<Bytes>, Stat),
    /// A getChildren.
    GetChildren(NameList),
    /// A failure; `None` for an operation that would have succeeded, had not a later one failed.
    Error(Option<ErrorCode>),
}

impl OpResult {
    fn parse(kind: i32, i: &[u8]) -> Parsed<'_, Self> {
        if kind == ERROR {
            let (i, code) = i32::parse(i)?;
            return Ok((i, Self::Error(ErrorCode::from_code(code))));
        }
        match OpCode::from_code(kind) {
            Some(OpCode::Create) => {
                let (i, path) = String::parse(i)?;
                Ok((i, Self::Create(path)))
            }
            Some(OpCode::Create2) => {
                let (i, path) = String::parse(i)?;
                let (i, stat) = Stat::parse(i)?;
                Ok((i, Self::Create2(path, stat)))
            }
            Some(OpCode::Delete) => Ok((i, Self::Delete)),
            Some(OpCode::SetData) => {
                let (i, stat) = Stat::parse(i)?;
                Ok((i, Self::SetData(stat)))
            }
            Some(OpCode::Check) => Ok((i, Self::Check)),
            Some(OpCode::GetData) => {
                let (i, data) = Option::<Bytes>::parse(i)?;
                let (i, stat) = Stat::parse(i)?;
                Ok((i, Self::GetData(data, stat)))
            }
            Some(OpCode::GetChildren) => {
                let (i, names) = NameList::parse(i)?;
                Ok((i, Self::GetChildren(names)))
            }
            _ => refuse(DecodeError::Malformed),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        let head = |op: OpCode, out: &mut BytesMut| {
            MultiHeader { kind: op.code(), done: false, err: 0 }.encode(out);
        };
        match self {
            Self::Create(path) => {
                head(OpCode::Create, out);
                put_str(path, out);
            }
            Self::Create2(path, stat) => {
                head(OpCode::Create2, out);
                put_str(path, out);
                stat.encode(out);
            }
            Self::Delete => head(OpCode::Delete, out),
            Self::SetData(stat) => {
                head(OpCode::SetData, out);
                stat.encode(out);
            }
            Self::Check => head(OpCode::Check, out),
            Self::GetData(data, stat) => {
                head(OpCode::GetData, out);
                data.encode(out);
                stat.encode(out);
            }
            Self::GetChildren(names) => {
                head(OpCode::GetChildren, out);
                names.encode(out);
            }
            Self::Error(code) => {
                let err = code.map_or(0, ErrorCode::code);
                MultiHeader { kind: ERROR, done: false, err }.encode(out);
                err.encode(out);
            }
        }
    }
}

/// Items up to the trailer; any header with `done` is one, whatever its type.
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

/// Parses the operations of a multi or multiRead. A list that mixes writes and reads does not decode.
pub fn decode_ops(i: &[u8]) -> Parsed<'_, Vec<Op>> {
    let (i, ops) = list(i, Op::parse)?;
    if ops.windows(2).any(|pair| pair[0].is_read() != pair[1].is_read()) {
        return refuse(DecodeError::Malformed);
    }
    Ok((i, ops))
}

/// Appends the operations of a multi or multiRead, and the trailer.
pub fn encode_ops(ops: &[Op], out: &mut BytesMut) {
    ops.iter().for_each(|op| op.encode(out));
    TRAILER.encode(out);
}

/// Parses the results of a multi or multiRead.
pub fn decode_results(i: &[u8]) -> Parsed<'_, Vec<OpResult>> {
    list(i, OpResult::parse)
}

/// Appends the results of a multi or multiRead, and the trailer.
pub fn encode_results(results: &[OpResult], out: &mut BytesMut) {
    results.iter().for_each(|result| result.encode(out));
    TRAILER.encode(out);
}
