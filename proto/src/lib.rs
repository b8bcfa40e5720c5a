//! The ZooKeeper wire protocol as data: frames, jute primitives, every request and reply record, opcodes and
//! error codes. Server and client share it, so each record is parsed and encoded side by side.
//!
//! No I/O, no state, no clock. Parsers work on whole frames: what a frame holds is either a record or it is
//! not, never "more bytes needed". What may be null on the wire and still be legal is an [`Option`]; a null where
//! the protocol has no use for it is a [`DecodeError`].
//!
//! ```
//! use bytes::BytesMut;
//! use zoolet_proto::{Incoming, Request, Xid, frame, records::GetData};
//!
//! let request = Request::GetData(GetData { path: "/a".into(), watch: true });
//! let mut wire = BytesMut::new();
//! request.encode_frame(Xid(1), &mut wire);
//!
//! let body = frame::split(&wire, frame::DEFAULT_MAX_FRAME).unwrap().expect("a whole frame");
//! let incoming = Incoming::parse(body).expect("a whole header");
//! assert_eq!((incoming.xid, incoming.body), (Xid(1), Ok(request)));
//! ```

mod acl;
mod code;
mod codec;
mod four_letter_word;
pub mod frame;
mod id;
pub mod jute;
mod operation;
mod path;
pub mod records;
mod reply;
mod request;
mod stat;

pub use acl::{Acl, Perms, digest_id, is_digest_id};
pub use code::{AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, WatchKind, WatcherType};
pub use four_letter_word::FourLetterWord;
pub use id::{SessionId, Xid, Zxid};
pub use jute::{DecodeError, Jute, NameList};
pub use operation::{OpCode, OpKind, Request};
pub use path::{PathError, ZnodePath, parent_of};
pub use reply::{Reply, ReplyHeader};
pub use request::Incoming;
pub use stat::Stat;
