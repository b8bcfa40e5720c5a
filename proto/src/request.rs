//! Requests: header and record to and from the [`Request`] enum.

use bytes::BytesMut;

use crate::code::OpCode;
use crate::frame;
use crate::id::Xid;
use crate::jute::{self, DecodeError, Jute};
use crate::records::{self, Op, decode_ops, encode_ops};

/// A request of a client, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the opcode of its name with its record; OpCode says what they do")]
pub enum Request {
    Create(records::Create),
    Create2(records::Create),
    CreateContainer(records::Create),
    CreateTtl(records::CreateTtl),
    Delete(records::Delete),
    DeleteContainer(records::DeleteContainer),
    Exists(records::Exists),
    GetData(records::GetData),
    SetData(records::SetData),
    GetAcl(records::GetAcl),
    SetAcl(records::SetAcl),
    GetChildren(records::GetChildren),
    GetChildren2(records::GetChildren),
    GetAllChildrenNumber(records::GetAllChildrenNumber),
    GetEphemerals(records::GetEphemerals),
    Sync(records::Sync),
    /// Legal inside a multi only, where it is an [`Op`].
    Check(records::CheckVersion),
    Multi(Vec<Op>),
    MultiRead(Vec<Op>),
    Reconfig(records::Reconfig),
    CheckWatches(records::CheckWatches),
    RemoveWatches(records::RemoveWatches),
    AddWatch(records::AddWatch),
    SetWatches(records::SetWatches),
    SetWatches2(records::SetWatches2),
    Auth(records::AuthPacket),
    Sasl(records::SaslToken),
    WhoAmI,
    Ping,
    /// With a timeout in milliseconds.
    CreateSession(i32),
    CloseSession,
}

impl Request {
    /// The opcode it travels under.
    pub fn op(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::DeleteContainer(_) => OpCode::DeleteContainer,
            Self::Exists(_) => OpCode::Exists,
            Self::GetData(_) => OpCode::GetData,
            Self::SetData(_) => OpCode::SetData,
            Self::GetAcl(_) => OpCode::GetAcl,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::GetChildren(_) => OpCode::GetChildren,
            Self::GetChildren2(_) => OpCode::GetChildren2,
            Self::GetAllChildrenNumber(_) => OpCode::GetAllChildrenNumber,
            Self::GetEphemerals(_) => OpCode::GetEphemerals,
            Self::Sync(_) => OpCode::Sync,
            Self::Check(_) => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
            Self::MultiRead(_) => OpCode::MultiRead,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::CheckWatches(_) => OpCode::CheckWatches,
            Self::RemoveWatches(_) => OpCode::RemoveWatches,
            Self::AddWatch(_) => OpCode::AddWatch,
            Self::SetWatches(_) => OpCode::SetWatches,
            Self::SetWatches2(_) => OpCode::SetWatches2,
            Self::Auth(_) => OpCode::Auth,
            Self::Sasl(_) => OpCode::Sasl,
            Self::WhoAmI => OpCode::WhoAmI,
            Self::Ping => OpCode::Ping,
            Self::CreateSession(_) => OpCode::CreateSession,
            Self::CloseSession => OpCode::CloseSession,
        }
    }

    /// The paths it is about: one for most, one for each operation of a multi, none for those of a whole session.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Self::Create(record) | Self::Create2(record) | Self::CreateContainer(record) => {
                vec![&record.path]
            }
            Self::CreateTtl(record) => vec![&record.path],
            Self::Delete(record) => vec![&record.path],
            Self::DeleteContainer(record) => vec![&record.path],
            Self::Exists(record) => vec![&record.path],
            Self::GetData(record) => vec![&record.path],
            Self::SetData(record) => vec![&record.path],
            Self::GetAcl(record) => vec![&record.path],
            Self::SetAcl(record) => vec![&record.path],
            Self::GetChildren(record) | Self::GetChildren2(record) => vec![&record.path],
            Self::GetAllChildrenNumber(record) => vec![&record.path],
            Self::Check(record) => vec![&record.path],
            Self::GetEphemerals(record) => record.prefix.as_deref().into_iter().collect(),
            Self::Sync(record) => record.path.as_deref().into_iter().collect(),
            Self::AddWatch(record) => record.path.as_deref().into_iter().collect(),
            Self::CheckWatches(record) => record.path.as_deref().into_iter().collect(),
            Self::RemoveWatches(record) => record.path.as_deref().into_iter().collect(),
            Self::Multi(ops) | Self::MultiRead(ops) => ops.iter().map(Op::path).collect(),
            Self::Reconfig(_)
            | Self::SetWatches(_)
            | Self::SetWatches2(_)
            | Self::Auth(_)
            | Self::Sasl(_)
            | Self::WhoAmI
            | Self::Ping
            | Self::CreateSession(_)
            | Self::CloseSession => Vec::new(),
        }
    }

    /// The record of a request of kind `op`; bytes behind it are ignored.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(op: OpCode, body: &[u8]) -> Result<Self, DecodeError> {
        Ok(match op {
            OpCode::Create => Self::Create(jute::parse(body)?),
            OpCode::Create2 => Self::Create2(jute::parse(body)?),
            OpCode::CreateContainer => Self::CreateContainer(jute::parse(body)?),
            OpCode::CreateTtl => Self::CreateTtl(jute::parse(body)?),
            OpCode::Delete => Self::Delete(jute::parse(body)?),
            OpCode::DeleteContainer => Self::DeleteContainer(jute::parse(body)?),
            OpCode::Exists => Self::Exists(jute::parse(body)?),
            OpCode::GetData => Self::GetData(jute::parse(body)?),
            OpCode::SetData => Self::SetData(jute::parse(body)?),
            OpCode::GetAcl => Self::GetAcl(jute::parse(body)?),
            OpCode::SetAcl => Self::SetAcl(jute::parse(body)?),
            OpCode::GetChildren => Self::GetChildren(jute::parse(body)?),
            OpCode::GetChildren2 => Self::GetChildren2(jute::parse(body)?),
            OpCode::GetAllChildrenNumber => Self::GetAllChildrenNumber(jute::parse(body)?),
            OpCode::GetEphemerals => Self::GetEphemerals(jute::parse(body)?),
            OpCode::Sync => Self::Sync(jute::parse(body)?),
            OpCode::Check => Self::Check(jute::parse(body)?),
            OpCode::Multi => Self::Multi(jute::whole(decode_ops(body))?),
            OpCode::MultiRead => Self::MultiRead(jute::whole(decode_ops(body))?),
            OpCode::Reconfig => Self::Reconfig(jute::parse(body)?),
            OpCode::CheckWatches => Self::CheckWatches(jute::parse(body)?),
            OpCode::RemoveWatches => Self::RemoveWatches(jute::parse(body)?),
            OpCode::AddWatch => Self::AddWatch(jute::parse(body)?),
            OpCode::SetWatches => Self::SetWatches(jute::parse(body)?),
            OpCode::SetWatches2 => Self::SetWatches2(jute::parse(body)?),
            OpCode::Auth => Self::Auth(jute::parse(body)?),
            OpCode::Sasl => Self::Sasl(jute::parse(body)?),
            OpCode::CreateSession => Self::CreateSession(jute::parse(body)?),
            OpCode::WhoAmI => Self::WhoAmI,
            OpCode::Ping => Self::Ping,
            OpCode::CloseSession => Self::CloseSession,
        })
    }

    /// Appends the request as a frame, header included.
    pub fn encode_frame(&self, xid: Xid, out: &mut BytesMut) {
        frame::put(out, |out| {
            xid.encode(out);
            self.op().encode(out);
            self.encode(out);
        });
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Create(record) | Self::Create2(record) | Self::CreateContainer(record) => {
                record.encode(out)
            }
            Self::CreateTtl(record) => record.encode(out),
            Self::Delete(record) => record.encode(out),
            Self::DeleteContainer(record) => record.encode(out),
            Self::Exists(record) => record.encode(out),
            Self::GetData(record) => record.encode(out),
            Self::SetData(record) => record.encode(out),
            Self::GetAcl(record) => record.encode(out),
            Self::SetAcl(record) => record.encode(out),
            Self::GetChildren(record) | Self::GetChildren2(record) => record.encode(out),
            Self::GetAllChildrenNumber(record) => record.encode(out),
            Self::GetEphemerals(record) => record.encode(out),
            Self::Sync(record) => record.encode(out),
            Self::Check(record) => record.encode(out),
            Self::Multi(ops) | Self::MultiRead(ops) => encode_ops(ops, out),
            Self::Reconfig(record) => record.encode(out),
            Self::CheckWatches(record) => record.encode(out),
            Self::RemoveWatches(record) => record.encode(out),
            Self::AddWatch(record) => record.encode(out),
            Self::SetWatches(record) => record.encode(out),
            Self::SetWatches2(record) => record.encode(out),
            Self::Auth(record) => record.encode(out),
            Self::Sasl(token) => token.encode(out),
            Self::CreateSession(timeout) => timeout.encode(out),
            Self::WhoAmI | Self::Ping | Self::CloseSession => {}
        }
    }
}

/// A frame of a client after the handshake: a header, and a body that may be anything.
///
/// Its parts are kept apart because a server has an answer for each: a frame without a whole header closes the
/// connection, an unknown opcode and a body that does not decode are refused by a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The number to answer under.
    pub xid: Xid,
    /// The opcode as it stood on the wire.
    pub op: i32,
    /// The request, or what is wrong with its bytes; an opcode outside the table is [`DecodeError::Malformed`].
    pub body: Result<Request, DecodeError>,
}

impl Incoming {
    /// Reads a frame; `None` if it is too short for a header.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let (op, body) = rest.split_first_chunk::<4>()?;
        let (xid, op) = (Xid(i32::from_be_bytes(*xid)), i32::from_be_bytes(*op));
        let body = match OpCode::from_code(op) {
            Some(op) => Request::parse(op, body),
            None => Err(DecodeError::Malformed),
        };
        Some(Self { xid, op, body })
    }
}
