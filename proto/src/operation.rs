//! The table of operations: opcodes, requests, codings, names and kinds follow from it.

use crate::code::closed;
use crate::codec::{ByteSink, Codec, finish};
use crate::jute::{self, DecodeError};
use crate::records::{self, Op};
use crate::reply::Reply;

/// How an operation affects the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Changes nothing but watches, which it may set. It can be repeated.
    Read,
    /// Creates a znode.
    Create,
    /// Changes znodes in another way.
    Write,
    /// Changes what the connection has by more than a watch that is set.
    Connection,
    /// Opens or ends the session.
    Session,
}

macro_rules! about {
    (none, $body:ident) => {
        About::Nothing
    };
    (required, $body:ident) => {
        About::Path(Some(&$body.path))
    };
    (optional, $body:ident) => {
        About::Path($body.path.as_deref())
    };
    (prefix, $body:ident) => {
        About::Path($body.prefix.as_deref())
    };
    (each, $body:ident) => {
        About::Each($body)
    };
}

macro_rules! has_path {
    (none) => {
        false
    };
    ($path:ident) => {
        true
    };
}

macro_rules! first {
    ($first:ident, $rest:ty) => {
        $first
    };
}

macro_rules! operations {
    ($(
        $(#[$meta:meta])*
        $row:ident $(($body:ty))? = $code:literal, $name:literal, $short:literal, $path:ident, $kind:ident
            -> $reply:ident $(($($field:ident),+))?;
    )*) => {
        closed! {
            /// An operation, by the number of its requests (`ZooDefs.OpCode`).
            OpCode { $($(#[$meta])* $row = $code,)* }
        }

        impl OpCode {
            /// The name of the operation as ZooKeeper spells it, such as `setData`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$row => $name,)* }
            }

            /// The name of the operation in the output of `cons` (`Request.op2String`, cut to four letters and more).
            pub fn short_name(self) -> &'static str {
                match self { $(Self::$row => $short,)* }
            }

            /// How it affects the server.
            pub fn kind(self) -> OpKind {
                match self { $(Self::$row => OpKind::$kind,)* }
            }

            /// Whether its requests name a path, or may.
            pub fn has_path(self) -> bool {
                match self { $(Self::$row => has_path!($path),)* }
            }
        }

        /// A request of a client, decoded.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is the opcode of its name with its body; OpCode documents them")]
        pub enum Request { $($row $(($body))?,)* }

        impl Request {
            /// Its opcode.
            pub fn op(&self) -> OpCode {
                match self { $(Self::$row { .. } => OpCode::$row,)* }
            }

            #[allow(unused_variables, reason = "not every body is looked at")]
            fn about(&self) -> About<'_> {
                match self { $(Self::$row { $(0: first!(body, $body))? } => about!($path, body),)* }
            }

            /// Decodes the body of a request of kind `op`; bytes after it are ignored.
            ///
            /// # Errors
            /// What is wrong with the bytes.
            pub fn parse(op: OpCode, body: &[u8]) -> Result<Self, DecodeError> {
                Ok(match op {
                    $(OpCode::$row => Self::$row $((jute::parse::<$body>(body)?))?,)*
                })
            }

            pub(crate) fn put(&self, out: &mut impl ByteSink) {
                match self { $(Self::$row { $(0: first!(body, $body))? } => { $(first!(body, $body).put(out))? },)* }
            }
        }

        impl Reply {
            /// Decodes the body of a reply without error to a request of kind `op`; bytes after it are ignored.
            ///
            /// # Errors
            /// What is wrong with the bytes.
            #[allow(unused_variables, reason = "the rest after the last field")]
            pub fn parse(op: OpCode, body: &[u8]) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$row => {
                        $($(let (body, $field) = finish(Codec::parse(body))?;)+)?
                        Ok(Self::$reply $(($($field),+))?)
                    })*
                }
            }
        }
    };
}

operations! {
    // Opcode (body of the request) = number, name, short name, path, kind -> reply (its fields in wire order)
    //
    // path: required, optional, prefix (of paths), each (one for each operation), none
    /// Creates a znode; the reply has its path.
    Create(records::Create) = 1, "create", "CREA", required, Create -> Created(path);
    /// Deletes a znode.
    Delete(records::Delete) = 2, "delete", "DELE", required, Write -> Empty;
    /// Asks for the [`Stat`](crate::Stat) of a znode.
    Exists(records::Exists) = 3, "exists", "EXIS", required, Read -> Stat(stat);
    /// Reads a znode.
    GetData(records::GetData) = 4, "getData", "GETD", required, Read -> Data(data, stat);
    /// Replaces the data of a znode.
    SetData(records::SetData) = 5, "setData", "SETD", required, Write -> Stat(stat);
    /// Reads an ACL.
    GetAcl(records::GetAcl) = 6, "getACL", "GETA", required, Read -> Acl(acl, stat);
    /// Replaces an ACL.
    SetAcl(records::SetAcl) = 7, "setACL", "SETA", required, Write -> Stat(stat);
    /// Lists children.
    GetChildren(records::GetChildren) = 8, "getChildren", "GETC", required, Read -> Children(names);
    /// Waits until everything sent before is executed.
    Sync(records::Sync) = 9, "sync", "SYNC", optional, Read -> Synced(path);
    /// Keeps the session alive.
    Ping = 11, "ping", "PING", none, Read -> Empty;
    /// Lists children and reads the [`Stat`](crate::Stat) of their parent.
    GetChildren2(records::GetChildren) = 12, "getChildren2", "GETC", required, Read -> Children2(names, stat);
    /// Compares a version. Legal inside a multi only, where it is an [`Op`].
    Check(records::CheckVersion) = 13, "check", "CHEC", required, Read -> Empty;
    /// Several writes, all or nothing.
    Multi(Vec<Op>) = 14, "multi", "MULT", each, Write -> Multi(results);
    /// Creates a znode; the reply has its path and [`Stat`](crate::Stat).
    Create2(records::Create) = 15, "create2", "CREA", required, Create -> Created2(path, stat);
    /// Changes an ensemble.
    Reconfig(records::Reconfig) = 16, "reconfig", "RECO", none, Write -> Data(config, stat);
    /// Asks whether a watch is set.
    CheckWatches(records::CheckWatches) = 17, "checkWatches", "CHKW", optional, Read -> Empty;
    /// Removes watches.
    RemoveWatches(records::RemoveWatches) = 18, "removeWatches", "REMW", optional, Connection -> Empty;
    /// Creates a container.
    CreateContainer(records::Create) = 19, "createContainer", "CREA", required, Create -> Created2(path, stat);
    /// Deletes an empty container; meant for servers, open to clients.
    DeleteContainer(records::DeleteContainer) = 20, "deleteContainer", "DELE", required, Write -> Empty;
    /// Creates a znode with a time to live.
    CreateTtl(records::CreateTtl) = 21, "createTTL", "CREA", required, Create -> Created2(path, stat);
    /// Several reads.
    MultiRead(Vec<Op>) = 22, "multiRead", "MLTR", each, Read -> Multi(results);
    /// Adds an identity to the connection.
    Auth(records::AuthPacket) = 100, "auth", "NA", none, Connection -> Empty;
    /// Sets the watches of an earlier connection again.
    SetWatches(records::SetWatches) = 101, "setWatches", "SETW", none, Read -> Empty;
    /// A step of a SASL negotiation.
    Sasl(records::SaslToken) = 102, "sasl", "NA", none, Connection -> Sasl(token);
    /// Lists the ephemerals of the session.
    GetEphemerals(records::GetEphemerals) = 103, "getEphemerals", "GETE", prefix, Read -> Ephemerals(paths);
    /// Counts all descendants.
    GetAllChildrenNumber(records::GetAllChildrenNumber) = 104, "getAllChildrenNumber", "GETACN", required, Read -> Count(count);
    /// As [`OpCode::SetWatches`], persistent watches included.
    SetWatches2(Box<records::SetWatches2>) = 105, "setWatches2", "STW2", none, Read -> Empty;
    /// Sets a persistent watch.
    AddWatch(records::AddWatch) = 106, "addWatch", "ADDW", optional, Read -> WatchAdded;
    /// Lists the identities of the connection.
    WhoAmI = 107, "whoAmI", "HOMI", none, Read -> WhoAmI(ids);
    /// Opens a session, with a timeout in milliseconds; internal, but open to clients.
    CreateSession(i32) = -10, "createSession", "SESS", none, Session -> Empty;
    /// Ends the session.
    CloseSession = -11, "closeSession", "CLOS", none, Session -> Empty;
}

impl OpCode {
    /// Whether it is a transaction: it takes a zxid, whether it is granted or refused, and a client must not send it twice.
    pub fn takes_zxid(self) -> bool {
        match self.kind() {
            OpKind::Create | OpKind::Write | OpKind::Session => true,
            OpKind::Read | OpKind::Connection => false,
        }
    }
}

/// The paths of a request.
enum About<'r> {
    Nothing,
    Path(Option<&'r str>),
    Each(&'r [Op]),
}

impl Request {
    /// The path of a request that names one.
    pub fn path(&self) -> Option<&str> {
        match self.about() {
            About::Path(path) => path,
            About::Nothing | About::Each(_) => None,
        }
    }

    /// The paths it is about: one for most, one for each operation of a multi, none for a request about the session.
    pub fn paths(&self) -> Vec<&str> {
        match self.about() {
            About::Nothing => Vec::new(),
            About::Path(path) => path.into_iter().collect(),
            About::Each(ops) => ops.iter().map(Op::path).collect(),
        }
    }
}
