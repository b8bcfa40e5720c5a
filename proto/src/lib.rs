//! The ZooKeeper wire protocol as data: frames, jute primitives, every request and reply record, opcodes and
//! error codes. Server and client share it, so the parser and the encoder of each record are next to each other.
//!
//! No I/O, no state, no clock. Parsers work on whole frames: a frame holds a record or it does not, and never needs more
//! bytes. A value that may legally be null on the wire is an [`Option`]; any other null is a [`DecodeError`].
//!
//! One table, in `operation.rs`, defines the operations: opcode, names, path, [kind](OpKind), request and reply. The enums
//! that servers and clients must handle in full ([`OpCode`], [`Request`], [`Reply`], [`records::Op`], [`records::OpResult`],
//! [`WatcherType`], [`AddWatchMode`], [`FourLetterWord`]) are not `#[non_exhaustive]`: an operation that one of them forgets
//! is a compile error.
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
mod acl_list;
mod code;
mod codec;
mod connect_string;
pub mod contender;
pub mod digest_md5;
mod four_letter_word;
pub mod frame;
mod id;
pub mod jute;
mod operation;
pub mod path;
pub mod records;
mod reply;
mod request;
mod short;
mod stat;

pub use acl::{Acl, Perms, digest_id, is_digest_id};
pub use acl_list::AclList;
pub use code::{AddWatchMode, CreateMode, ErrorCode, EventType, KeeperState, WatchKind, WatcherType};
pub use codec::ByteSink;
pub use connect_string::ConnectStringParts;
pub use four_letter_word::FourLetterWord;
pub use id::{SessionId, Xid, Zxid};
pub use jute::{DecodeError, Jute, NameList, WeakNameList};
pub use operation::{OpCode, OpKind, Request};
pub use path::PathError;
pub use reply::{Reply, ReplyHeader};
pub use request::Incoming;
pub use stat::Stat;
