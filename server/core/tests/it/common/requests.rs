//! Short ways to write requests: `create("/a").flags(2).data("x")`.

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_proto::records::{
    self, AddWatch, AuthPacket, CheckVersion, CheckWatches, Create, CreateTtl, Delete, DeleteContainer,
    Exists, GetAllChildrenNumber, GetChildren, GetData, GetEphemerals, Op, RemoveWatches, SetAcl, SetData,
    SetWatches, SetWatches2,
};
use zoolet_proto::{Acl, Perms, Request, Xid, Zxid};

fn create_record(path: &str) -> Create {
    Create { path: path.into(), data: Some(Bytes::new()), acl: Some(Acl::open()), flags: 0 }
}

pub fn create(path: &str) -> Request {
    Request::Create(create_record(path))
}

pub fn create2(path: &str) -> Request {
    Request::Create2(create_record(path))
}

pub fn container(path: &str) -> Request {
    Request::CreateContainer(Create { flags: 4, ..create_record(path) })
}

pub fn create_ttl(path: &str, flags: i32, ttl: i64) -> Request {
    let Create { path, data, acl, .. } = create_record(path);
    Request::CreateTtl(CreateTtl { path, data, acl, flags, ttl })
}

pub fn ephemeral(path: &str) -> Request {
    create(path).flags(1)
}

pub fn sequential(path: &str) -> Request {
    create(path).flags(2)
}

/// Whatever version it has; see [`Shape::version`].
pub fn delete(path: &str) -> Request {
    Request::Delete(Delete { path: path.into(), version: -1 })
}

pub fn delete_container(path: &str) -> Request {
    Request::DeleteContainer(DeleteContainer { path: path.into() })
}

pub fn exists(path: &str) -> Request {
    Request::Exists(Exists { path: path.into(), watch: false })
}

pub fn get(path: &str) -> Request {
    Request::GetData(GetData { path: path.into(), watch: false })
}

/// Whatever version it has; see [`Shape::version`].
pub fn set(path: &str, data: &str) -> Request {
    let data = Some(Bytes::copy_from_slice(data.as_bytes()));
    Request::SetData(SetData { path: path.into(), data, version: -1 })
}

pub fn list(path: &str) -> Request {
    Request::GetChildren(GetChildren { path: path.into(), watch: false })
}

pub fn list2(path: &str) -> Request {
    Request::GetChildren2(GetChildren { path: path.into(), watch: false })
}

pub fn get_acl(path: &str) -> Request {
    Request::GetAcl(records::GetAcl { path: path.into() })
}

/// Whatever aversion it has; see [`Shape::version`].
pub fn set_acl(path: &str, acl: Vec<Acl>) -> Request {
    Request::SetAcl(SetAcl { path: path.into(), acl: Some(acl), version: -1 })
}

pub fn count(path: &str) -> Request {
    Request::GetAllChildrenNumber(GetAllChildrenNumber { path: path.into() })
}

pub fn ephemerals(prefix: Option<&str>) -> Request {
    Request::GetEphemerals(GetEphemerals { prefix: prefix.map(Into::into) })
}

pub fn sync(path: &str) -> Request {
    Request::Sync(records::Sync { path: Some(path.into()) })
}

/// Inside a multi only.
pub fn check(path: &str, version: i32) -> Request {
    Request::Check(CheckVersion { path: path.into(), version })
}

pub fn multi(parts: impl IntoIterator<Item = Request>) -> Request {
    Request::Multi(parts.into_iter().map(as_op).collect())
}

pub fn multi_read(parts: impl IntoIterator<Item = Request>) -> Request {
    Request::MultiRead(parts.into_iter().map(as_op).collect())
}

pub fn add_watch(path: &str, mode: i32) -> Request {
    Request::AddWatch(AddWatch { path: Some(path.into()), mode })
}

pub const PERSISTENT: i32 = 0;
pub const RECURSIVE: i32 = 1;

pub fn check_watches(path: &str, kind: i32) -> Request {
    Request::CheckWatches(CheckWatches { path: Some(path.into()), kind })
}

pub fn remove_watches(path: &str, kind: i32) -> Request {
    Request::RemoveWatches(RemoveWatches { path: Some(path.into()), kind })
}

pub fn set_watches(relative_zxid: i64, data: &[&str], exist: &[&str], child: &[&str]) -> Request {
    let (data, exist, child) = (owned(data), owned(exist), owned(child));
    Request::SetWatches(SetWatches { relative_zxid: Zxid(relative_zxid), data, exist, child })
}

/// setWatches2 with persistent and recursive watches only.
pub fn set_persistent_watches(relative_zxid: i64, persistent: &[&str], recursive: &[&str]) -> Request {
    Request::SetWatches2(SetWatches2 {
        relative_zxid: Zxid(relative_zxid),
        data: vec![],
        exist: vec![],
        child: vec![],
        persistent: owned(persistent),
        recursive: owned(recursive),
    })
}

pub fn add_auth(scheme: &str, auth: &str) -> Request {
    let auth = Some(Bytes::copy_from_slice(auth.as_bytes()));
    Request::Auth(AuthPacket { kind: 0, scheme: Some(scheme.into()), auth })
}

/// An ACL of one entry for everybody.
pub fn anyone(perms: Perms) -> Vec<Acl> {
    vec![Acl::new(perms, "world", "anyone")]
}

/// An ACL of one entry.
pub fn only(perms: Perms, scheme: &str, id: &str) -> Vec<Acl> {
    vec![Acl::new(perms, scheme, id)]
}

fn owned(paths: &[&str]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

fn as_op(request: Request) -> Op {
    match request {
        Request::Create(record) => Op::Create(record),
        Request::Create2(record) => Op::Create2(record),
        Request::CreateContainer(record) => Op::CreateContainer(record),
        Request::CreateTtl(record) => Op::CreateTtl(record),
        Request::Delete(record) => Op::Delete(record),
        Request::SetData(record) => Op::SetData(record),
        Request::Check(record) => Op::Check(record),
        Request::GetData(record) => Op::GetData(record),
        Request::GetChildren(record) => Op::GetChildren(record),
        other => panic!("no part of a multi: {other:?}"),
    }
}

/// Changes one field of a request, whichever record it has.
pub trait Shape {
    fn watched(self) -> Request;
    fn flags(self, flags: i32) -> Request;
    fn acl(self, acl: Vec<Acl>) -> Request;
    fn data(self, data: &str) -> Request;
    fn version(self, version: i32) -> Request;
}

impl Shape for Request {
    fn watched(mut self) -> Request {
        match &mut self {
            Request::Exists(record) => record.watch = true,
            Request::GetData(record) => record.watch = true,
            Request::GetChildren(record) | Request::GetChildren2(record) => record.watch = true,
            other => panic!("{other:?} leaves no watch"),
        }
        self
    }

    fn flags(mut self, flags: i32) -> Request {
        create_of(&mut self).flags = flags;
        self
    }

    fn acl(mut self, acl: Vec<Acl>) -> Request {
        create_of(&mut self).acl = Some(acl);
        self
    }

    fn data(mut self, data: &str) -> Request {
        create_of(&mut self).data = Some(Bytes::copy_from_slice(data.as_bytes()));
        self
    }

    fn version(mut self, version: i32) -> Request {
        match &mut self {
            Request::Delete(record) => record.version = version,
            Request::SetData(record) => record.version = version,
            Request::SetAcl(record) => record.version = version,
            other => panic!("{other:?} expects no version"),
        }
        self
    }
}

fn create_of(request: &mut Request) -> &mut Create {
    match request {
        Request::Create(record) | Request::Create2(record) | Request::CreateContainer(record) => record,
        other => panic!("{other:?} is no create"),
    }
}

/// The body of a request, written field by field: for what the records of the protocol cannot say.
#[derive(Default, Clone)]
pub struct Body(BytesMut);

impl Body {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn int(mut self, value: i32) -> Self {
        self.0.put_i32(value);
        self
    }

    pub fn long(mut self, value: i64) -> Self {
        self.0.put_i64(value);
        self
    }

    pub fn byte(mut self, value: u8) -> Self {
        self.0.put_u8(value);
        self
    }

    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.put_i32(bytes.len() as i32);
        self.0.put_slice(bytes);
        self
    }

    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub fn append(mut self, other: &Self) -> Self {
        self.0.put_slice(&other.0);
        self
    }

    pub fn null(self) -> Self {
        self.int(-1)
    }

    /// The vector of one entry that lets everybody do everything.
    pub fn open_acl(self) -> Self {
        self.int(1).int(31).text("world").text("anyone")
    }

    /// The header before a part of a multi.
    pub fn part(self, op: i32) -> Self {
        self.int(op).byte(0).int(-1)
    }

    /// The end of a multi.
    pub fn end(self) -> Self {
        self.int(-1).byte(1).int(-1)
    }

    pub fn frame(self, xid: Xid, op: i32) -> Vec<u8> {
        [&xid.0.to_be_bytes(), &op.to_be_bytes(), &self.0[..]].concat()
    }
}
