//! Replies: the header, and bodies to and from the [`Reply`] enum.

use bytes::{Bytes, BytesMut};

use crate::acl::Acl;
use crate::code::{ErrorCode, EventType, KeeperState};
use crate::codec::{ByteSink, Codec, len_of, put_field, put_len, record};
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

macro_rules! replies {
    ($($(#[$meta:meta])* $row:ident $(($($field:ident: $kind:ty),+))?,)*) => {
        /// The body of a frame of a server.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reply {
            $($(#[$meta])* $row $(($($kind),+))?,)*
            /// addWatch, whose reply is an error record with code 0.
            WatchAdded,
        }

        impl Reply {
            fn put(&self, out: &mut impl ByteSink) {
                match self {
                    $(Self::$row $(($($field),+))? => { $($($field.put(out);)+)? })*
                    Self::WatchAdded => 0i32.put(out),
                }
            }
        }
    };
}

replies! {
    /// No body: errors, and the success of delete, ping, setWatches and the like.
    Empty,
    /// create.
    Created(path: String),
    /// create2, createContainer, createTTL.
    Created2(path: String, stat: Stat),
    /// exists, setData, setACL.
    Stat(stat: Stat),
    /// getData.
    Data(data: Option<Bytes>, stat: Stat),
    /// getACL.
    Acl(acl: Vec<Acl>, stat: Stat),
    /// getChildren.
    Children(names: NameList),
    /// getChildren2.
    Children2(names: NameList, stat: Stat),
    /// getAllChildrenNumber.
    Count(count: i32),
    /// getEphemerals.
    Ephemerals(paths: Vec<String>),
    /// sync.
    Synced(path: Option<String>),
    /// whoAmI.
    WhoAmI(ids: Vec<ClientInfo>),
    /// sasl.
    Sasl(token: Option<Bytes>),
    /// multi, multiRead.
    Multi(results: Vec<OpResult>),
    /// A watch event.
    Event(event: WatchedEvent),
}

impl Reply {
    /// Appends the reply as a frame.
    pub fn encode_frame(&self, header: ReplyHeader, out: &mut BytesMut) {
        frame::put(out, |out| self.put_with_header(header, out));
    }

    /// Appends the reply as a frame to a sink that may share long values. Encodes it once more, to know its length before.
    pub fn encode_frame_to(&self, header: ReplyHeader, out: &mut impl ByteSink) {
        put_len(self.encoded_len() - frame::PREFIX, out);
        self.put_with_header(header, out);
    }

    /// The length of its frame. The encoder counts it, so it follows every variant and field.
    pub fn encoded_len(&self) -> usize {
        frame::PREFIX + len_of(|out| self.put_with_header(ReplyHeader::ok(Xid::EVENT, Zxid(0)), out))
    }

    fn put_with_header(&self, header: ReplyHeader, out: &mut impl ByteSink) {
        header.put(out);
        self.put(out);
    }

    /// Appends the frame of a watch event of a connected client: what [`Reply::Event`] is encoded to, for a path that is
    /// not a `String`.
    pub fn encode_event(zxid: Zxid, kind: EventType, path: &str, out: &mut BytesMut) {
        frame::put(out, |out| {
            ReplyHeader::ok(Xid::EVENT, zxid).put(out);
            kind.put(out);
            KeeperState::SyncConnected.put(out);
            put_field(path.as_bytes(), out);
        });
    }
}
