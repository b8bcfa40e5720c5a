//! Replies: the header, and bodies to and from the [`Reply`] enum.

use bytes::{Bytes, BytesMut};

use crate::acl::Acl;
use crate::code::ErrorCode;
use crate::codec::{Codec, record};
use crate::frame;
use crate::id::{Xid, Zxid};
use crate::jute::NameList;
use crate::records::{ClientInfo, OpResult, WatchedEvent};
use crate::stat::Stat;

record! {
    /// Precedes the body of every frame of a server but the first.
    #[derive(Copy)]
    pub struct ReplyHeader {
        /// The number of the request, or [`Xid::EVENT`].
        pub xid: Xid,
        /// The last transaction that the frame reflects.
        pub zxid: Zxid,
        /// 0, or the number of an [`ErrorCode`].
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

    /// The error, if the reply failed.
    pub fn error_code(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.err)
    }
}

/// The body of a frame of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// No body: errors, and the success of delete, ping, setWatches and the like.
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
    /// addWatch, whose reply is an error record with code 0.
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
            header.put(out);
            self.put(out);
        });
    }

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Created(path) => path.put(out),
            Self::Created2(path, stat) => {
                path.put(out);
                stat.put(out);
            }
            Self::Stat(stat) => stat.put(out),
            Self::Data(data, stat) => {
                data.put(out);
                stat.put(out);
            }
            Self::Acl(acl, stat) => {
                acl.put(out);
                stat.put(out);
            }
            Self::Children(names) => names.put(out),
            Self::Children2(names, stat) => {
                names.put(out);
                stat.put(out);
            }
            Self::Count(count) => count.put(out),
            Self::Ephemerals(paths) => paths.put(out),
            Self::Synced(path) => path.put(out),
            Self::WhoAmI(ids) => ids.put(out),
            Self::Sasl(token) => token.put(out),
            Self::WatchAdded => 0i32.put(out),
            Self::Multi(results) => results.put(out),
            Self::Event(event) => event.put(out),
        }
    }
}
