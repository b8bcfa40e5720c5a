//! Short ways to write requests: `get_data("/a").watch().xid(1)`.

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{
    self, AddWatch, AuthPacket, CheckVersion, CheckWatches, Create, CreateTtl, Delete, DeleteContainer,
    Exists, GetAllChildrenNumber, GetChildren, GetData, GetEphemerals, Op, RemoveWatches, SetAcl, SetData,
    SetWatches, SetWatches2,
};
use zoolet_proto::{Acl, AclList, Perms, Request, Xid, Zxid};

/// A request, and its xid if a test chooses it.
#[derive(Clone)]
pub struct Outgoing {
    pub xid: Option<Xid>,
    pub request: Request,
}

impl From<Request> for Outgoing {
    fn from(request: Request) -> Self {
        let xid = matches!(request, Request::Ping).then_some(Xid::PING);
        Self { xid, request }
    }
}

fn create_record(path: &str) -> Create {
    Create { path: path.into(), data: Some(Bytes::new()), acl: Some(AclList::OPEN), flags: 0 }
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
    create(path).ephemeral()
}

pub fn sequential(path: &str) -> Request {
    create(path).sequential()
}

/// Of any version; see [`RequestExt::version`].
pub fn delete(path: &str) -> Request {
    Request::Delete(Delete { path: path.into(), version: -1 })
}

pub fn delete_container(path: &str) -> Request {
    Request::DeleteContainer(DeleteContainer { path: path.into() })
}

pub fn exists(path: &str) -> Request {
    Request::Exists(Exists { path: path.into(), watch: false })
}

pub fn get_data(path: &str) -> Request {
    Request::GetData(GetData { path: path.into(), watch: false })
}

/// Of any version; see [`RequestExt::version`].
pub fn set_data(path: &str, data: impl AsRef<[u8]>) -> Request {
    let data = Some(Bytes::copy_from_slice(data.as_ref()));
    Request::SetData(SetData { path: path.into(), data, version: -1 })
}

pub fn get_children(path: &str) -> Request {
    Request::GetChildren(GetChildren { path: path.into(), watch: false })
}

pub fn get_children2(path: &str) -> Request {
    Request::GetChildren2(GetChildren { path: path.into(), watch: false })
}

pub fn get_acl(path: &str) -> Request {
    Request::GetAcl(records::GetAcl { path: path.into() })
}

/// Of any aversion; see [`RequestExt::version`].
pub fn set_acl(path: &str, acl: Vec<Acl>) -> Request {
    Request::SetAcl(SetAcl { path: path.into(), acl: Some(acl.into()), version: -1 })
}

pub fn get_all_children_number(path: &str) -> Request {
    Request::GetAllChildrenNumber(GetAllChildrenNumber { path: path.into() })
}

pub fn get_ephemerals(prefix: Option<&str>) -> Request {
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
    Request::SetWatches2(Box::new(SetWatches2 {
        relative_zxid: Zxid(relative_zxid),
        data: vec![],
        exist: vec![],
        child: vec![],
        persistent: owned(persistent),
        recursive: owned(recursive),
    }))
}

pub fn auth(scheme: &str, credentials: &str) -> Request {
    let auth = Some(Bytes::copy_from_slice(credentials.as_bytes()));
    Request::Auth(AuthPacket { kind: 0, scheme: Some(scheme.into()), auth })
}

pub fn ping() -> Request {
    Request::Ping
}

pub fn who_am_i() -> Request {
    Request::WhoAmI
}

pub fn close_session() -> Request {
    Request::CloseSession
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

/// Changes one field of a request, whatever its record.
pub trait RequestExt {
    fn xid(self, xid: i32) -> Outgoing;
    fn watch(self) -> Self;
    fn flags(self, flags: i32) -> Self;
    fn ephemeral(self) -> Self;
    fn sequential(self) -> Self;
    fn acl(self, acl: Vec<Acl>) -> Self;
    fn data(self, data: impl AsRef<[u8]>) -> Self;
    fn version(self, version: i32) -> Self;
    /// Its record as encoded, without frame and header.
    fn body(&self) -> Vec<u8>;
}

impl RequestExt for Request {
    fn xid(self, xid: i32) -> Outgoing {
        Outgoing { xid: Some(Xid(xid)), request: self }
    }

    fn watch(mut self) -> Self {
        match &mut self {
            Request::Exists(record) => record.watch = true,
            Request::GetData(record) => record.watch = true,
            Request::GetChildren(record) | Request::GetChildren2(record) => record.watch = true,
            other => panic!("{other:?} sets no watch"),
        }
        self
    }

    fn flags(mut self, flags: i32) -> Self {
        create_of(&mut self).flags = flags;
        self
    }

    fn ephemeral(mut self) -> Self {
        create_of(&mut self).flags |= 1;
        self
    }

    fn sequential(mut self) -> Self {
        create_of(&mut self).flags |= 2;
        self
    }

    fn acl(mut self, acl: Vec<Acl>) -> Self {
        create_of(&mut self).acl = Some(acl.into());
        self
    }

    fn data(mut self, data: impl AsRef<[u8]>) -> Self {
        create_of(&mut self).data = Some(Bytes::copy_from_slice(data.as_ref()));
        self
    }

    fn version(mut self, version: i32) -> Self {
        match &mut self {
            Request::Delete(record) => record.version = version,
            Request::SetData(record) => record.version = version,
            Request::SetAcl(record) => record.version = version,
            other => panic!("{other:?} has no version"),
        }
        self
    }

    fn body(&self) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.encode_frame(Xid(0), &mut bytes);
        bytes[12..].to_vec()
    }
}

fn create_of(request: &mut Request) -> &mut Create {
    match request {
        Request::Create(record) | Request::Create2(record) | Request::CreateContainer(record) => record,
        other => panic!("{other:?} is no create"),
    }
}
