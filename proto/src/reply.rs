//! Replies: the header, and bodies to and from the [`Reply`] enum.

use bytes::{Bytes, BytesMut};

use crate::acl::Acl;
use crate::code::{ErrorCode, OpCode};
use crate::frame;
use crate::id::{Xid, Zxid};
use crate::jute::{self, DecodeError, Jute, NameList, Parsed, put_str, record};
use crate::records::{ClientInfo, OpResult, WatchedEvent, decode_results, encode_results};
use crate::stat::Stat;

record! {
    /// Stands before every frame of a server but the first.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The number of the request, or [`Xid::EVENT`].
        pub xid: Xid,
        /// The transaction the frame reflects.
        pub zxid: Zxid,
        /// 0, or an [`ErrorCode`] by number.
        pub err: i32,
    }
}

impl ReplyHeader {
    /// The header of a reply that succeeded.
    pub fn ok(xid: Xid, zxid: Zxid) -> Self {
        Self { xid, zxid, err: 0 }
    }

    /// The header of a reply that failed.
    pub fn error(xid: Xid, zxid: Zxid, code: ErrorCode) -> Self {
        Self { xid, zxid, err: code.code() }
    }

    /// The error, if it is one.
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.err)
    }
}

/// The body of a frame of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing behind the header: errors, and the success of delete, ping, setWatches and the like.
    Empty,
    /// create.
    Created(String),
    /// create2, createContainer, createTTL.
    Created2(String, Stat),
    /// exists, setData, setACL.
    Stat(Stat),
    /// getData.
    Data(Option<Bytes>, Stat),
    /// getACL.
    Acl(Vec<Acl>, Stat),
    /// getChildren.
    Children(NameList),
    /// getChildren2.
    Children2(NameList, Stat),
    /// getAllChildrenNumber.
    Count(i32),
    /// getEphemerals.
    Ephemerals(Vec<String>),
    /// sync.
    Synced(Option<String>),
    /// whoAmI.
    WhoAmI(Vec<ClientInfo>),
    /// sasl.
    Sasl(Option<Bytes>),
    /// addWatch, which answers with an error record that says 0.
    WatchAdded,
    /// multi, multiRead.
    Multi(Vec<OpResult>),
    /// A watch event.
    Event(WatchedEvent),
}

impl Reply {
    /// Appends the reply as a frame.
    pub fn encode_frame(&self, header: ReplyHeader, out: &mut BytesMut) {
        frame::put(out, |out| {
            header.encode(out);
            self.encode(out);
        });
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Created(path) => put_str(path, out),
            Self::Created2(path, stat) => {
                put_str(path, out);
                stat.encode(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::Data(data, stat) => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Acl(acl, stat) => {
                acl.encode(out);
                stat.encode(out);
            }
            Self::Children(names) => names.encode(out),
            Self::Children2(names, stat) => {
                names.encode(out);
                stat.encode(out);
            }
            Self::Count(count) => count.encode(out),
            Self::Ephemerals(paths) => paths.encode(out),
            Self::Synced(path) => path.encode(out),
            Self::WhoAmI(ids) => ids.encode(out),
            Self::Sasl(token) => token.encode(out),
            Self::WatchAdded => 0i32.encode(out),
            Self::Multi(results) => encode_results(results, out),
            Self::Event(event) => event.encode(out),
        }
    }

    /// The body of a reply without error to a request of kind `op`; bytes behind it are ignored.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn parse(op: OpCode, body: &[u8]) -> Result<Self, DecodeError> {
        fn two<A: Jute, B: Jute>(i: &[u8]) -> Parsed<'_, (A, B)> {
            let (i, a) = A::parse(i)?;
            let (i, b) = B::parse(i)?;
            Ok((i, (a, b)))
        }
        Ok(match op {
            OpCode::Create => Self::Created(jute::parse(body)?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                let (path, stat) = jute::whole(two(body))?;
                Self::Created2(path, stat)
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => Self::Stat(jute::parse(body)?),
            OpCode::GetData | OpCode::Reconfig => {
                let (data, stat) = jute::whole(two(body))?;
                Self::Data(data, stat)
            }
            OpCode::GetAcl => {
                let (acl, stat) = jute::whole(two(body))?;
                Self::Acl(acl, stat)
            }
            OpCode::GetChildren => Self::Children(jute::parse(body)?),
            OpCode::GetChildren2 => {
                let (names, stat) = jute::whole(two(body))?;
                Self::Children2(names, stat)
            }
            OpCode::GetAllChildrenNumber => Self::Count(jute::parse(body)?),
            OpCode::GetEphemerals => Self::Ephemerals(jute::parse(body)?),
            OpCode::Sync => Self::Synced(jute::parse(body)?),
            OpCode::WhoAmI => Self::WhoAmI(jute::parse(body)?),
            OpCode::Sasl => Self::Sasl(jute::parse(body)?),
            OpCode::AddWatch => Self::WatchAdded,
            OpCode::Multi | OpCode::MultiRead => Self::Multi(jute::whole(decode_results(body))?),
            OpCode::Delete
            | OpCode::DeleteContainer
            | OpCode::Ping
            | OpCode::Check
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::CreateSession
            | OpCode::CloseSession => Self::Empty,
        })
    }
}
