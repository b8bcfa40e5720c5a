//! Short ways to write requests: `get_data("/a").watch().xid(1)`.

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{
    self, AddWatch, AuthPacket, CheckVersion, CheckWatches, Create, CreateTtl, Delete, Exists, GetChildren,
    GetData, Op, RemoveWatches, SetAcl, SetData, SetWatches,
};
use zoolet_proto::{Acl, Request, Xid, Zxid};

/// A request, and the number it is sent under if that matters.
#[derive(Clone)]
pub struct Ask {
    pub xid: Option<Xid>,
    pub request: Request,
}

impl From<Request> for Ask {
    fn from(request: Request) -> Self {
        let xid = matches!(request, Request::Ping).then_some(Xid::PING);
        Self { xid, request }
    }
}

fn create_record(path: &str) -> Create {
    Create { path: path.into(), data: Some(Bytes::new()), acl: Some(Acl::open()), flags: 0 }
}

pub fn create(path: &str) -> Ask {
    Request::Create(create_record(path)).into()
}

pub fn create2(path: &str) -> Ask {
    Request::Create2(create_record(path)).into()
}

pub fn container(path: &str) -> Ask {
    Request::CreateContainer(Create { flags: 4, ..create_record(path) }).into()
}

pub fn create_ttl(path: &str, flags: i32, ttl: i64) -> Ask {
    let Create { path, data, acl, .. } = create_record(path);
    Request::CreateTtl(CreateTtl { path, data, acl, flags, ttl }).into()
}

pub fn delete(path: &str) -> Ask {
    Request::Delete(Delete { path: path.into(), version: -1 }).into()
}

pub fn exists(path: &str) -> Ask {
    Request::Exists(Exists { path: path.into(), watch: false }).into()
}

pub fn get_data(path: &str) -> Ask {
    Request::GetData(GetData { path: path.into(), watch: false }).into()
}

pub fn set_data(path: &str, data: impl AsRef<[u8]>) -> Ask {
    let data = Some(Bytes::copy_from_slice(data.as_ref()));
    Request::SetData(SetData { path: path.into(), data, version: -1 }).into()
}

pub fn get_children(path: &str) -> Ask {
    Request::GetChildren(GetChildren { path: path.into(), watch: false }).into()
}

pub fn get_acl(path: &str) -> Ask {
    Request::GetAcl(records::GetAcl { path: path.into() }).into()
}

pub fn set_acl(path: &str, acl: Vec<Acl>) -> Ask {
    Request::SetAcl(SetAcl { path: path.into(), acl: Some(acl), version: -1 }).into()
}

pub fn sync(path: &str) -> Ask {
    Request::Sync(records::Sync { path: Some(path.into()) }).into()
}

pub fn check(path: &str, version: i32) -> Ask {
    Request::Check(CheckVersion { path: path.into(), version }).into()
}

pub fn multi(parts: impl IntoIterator<Item = Ask>) -> Ask {
    Request::Multi(parts.into_iter().map(as_op).collect()).into()
}

pub fn multi_read(parts: impl IntoIterator<Item = Ask>) -> Ask {
    Request::MultiRead(parts.into_iter().map(as_op).collect()).into()
}

pub const PERSISTENT: i32 = 0;
pub const RECURSIVE: i32 = 1;

pub fn add_watch(path: &str, mode: i32) -> Ask {
    Request::AddWatch(AddWatch { path: Some(path.into()), mode }).into()
}

pub fn check_watches(path: &str, kind: i32) -> Ask {
    Request::CheckWatches(CheckWatches { path: Some(path.into()), kind }).into()
}

pub fn remove_watches(path: &str, kind: i32) -> Ask {
    Request::RemoveWatches(RemoveWatches { path: Some(path.into()), kind }).into()
}

pub fn set_watches(relative_zxid: i64, data: &[&str], exist: &[&str], child: &[&str]) -> Ask {
    let owned = |paths: &[&str]| paths.iter().map(ToString::to_string).collect();
    let (data, exist, child) = (owned(data), owned(exist), owned(child));
    Request::SetWatches(SetWatches { relative_zxid: Zxid(relative_zxid), data, exist, child }).into()
}

pub fn auth(scheme: &str, credentials: &str) -> Ask {
    let auth = Some(Bytes::copy_from_slice(credentials.as_bytes()));
    Request::Auth(AuthPacket { kind: 0, scheme: Some(scheme.into()), auth }).into()
}

pub fn ping() -> Ask {
    Request::Ping.into()
}

pub fn who_am_i() -> Ask {
    Request::WhoAmI.into()
}

pub fn close_session() -> Ask {
    Request::CloseSession.into()
}

impl Ask {
    pub fn xid(mut self, xid: i32) -> Self {
        self.xid = Some(Xid(xid));
        self
    }

    pub fn watch(mut self) -> Self {
        match &mut self.request {
            Request::Exists(record) => record.watch = true,
            Request::GetData(record) => record.watch = true,
            Request::GetChildren(record) | Request::GetChildren2(record) => record.watch = true,
            other => panic!("{other:?} leaves no watch"),
        }
        self
    }

    pub fn data(mut self, data: impl AsRef<[u8]>) -> Self {
        self.record().data = Some(Bytes::copy_from_slice(data.as_ref()));
        self
    }

    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.record().acl = Some(acl);
        self
    }

    pub fn ephemeral(mut self) -> Self {
        self.record().flags |= 1;
        self
    }

    pub fn sequential(mut self) -> Self {
        self.record().flags |= 2;
        self
    }

    pub fn version(mut self, version: i32) -> Self {
        match &mut self.request {
            Request::Delete(record) => record.version = version,
            Request::SetData(record) => record.version = version,
            Request::SetAcl(record) => record.version = version,
            other => panic!("{other:?} expects no version"),
        }
        self
    }

    /// Its record as it stands on the wire, without frame and header.
    pub fn body(&self) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.request.encode_frame(Xid(0), &mut bytes);
        bytes[12..].to_vec()
    }

    fn record(&mut self) -> &mut Create {
        match &mut self.request {
            Request::Create(record) | Request::Create2(record) | Request::CreateContainer(record) => record,
            other => panic!("{other:?} is no create"),
        }
    }
}

fn as_op(ask: Ask) -> Op {
    match ask.request {
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
