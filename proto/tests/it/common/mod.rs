//! Strategies for every request and reply.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zoolet_proto::records::{
    AddWatch, AuthPacket, CheckVersion, CheckWatches, ClientInfo, Create, CreateTtl, Delete, DeleteContainer,
    Exists, GetAcl, GetAllChildrenNumber, GetChildren, GetData, GetEphemerals, Op, OpResult, Reconfig,
    RemoveWatches, SaslToken, SetAcl, SetData, SetWatches, SetWatches2, Sync,
};
use zoolet_proto::{Acl, AclList, ErrorCode, NameList, OpCode, Perms, Reply, Request, SessionId, Stat, Zxid};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "(/[a-c]{1,3}){0,3}", 1 => any::<String>()]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn data() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..20).prop_map(Bytes::from))
}

prop_compose! {
    fn acl()(perms in any::<i32>(), scheme in "[a-z]{0,6}", id in text()) -> Acl {
        Acl::new(Perms(perms), scheme, id)
    }
}

prop_compose! {
    fn create()(
        path in text(), data in data(), acl in option::of(vec(acl(), 0..3)), flags in any::<i32>()
    ) -> Create {
        Create { path, data, acl: acl.map(AclList::from), flags }
    }
}

prop_compose! {
    fn create_ttl()(record in create(), ttl in any::<i64>()) -> CreateTtl {
        let Create { path, data, acl, flags } = record;
        CreateTtl { path, data, acl, flags, ttl }
    }
}

prop_compose! {
    fn stat()(a in any::<[i64; 6]>(), b in any::<[i32; 5]>()) -> Stat {
        Stat {
            czxid: Zxid(a[0]),
            mzxid: Zxid(a[1]),
            ctime: a[2],
            mtime: a[3],
            version: b[0],
            cversion: b[1],
            aversion: b[2],
            ephemeral_owner: SessionId(a[4]),
            data_length: b[3],
            num_children: b[4],
            pzxid: Zxid(a[5]),
        }
    }
}

fn names() -> impl Strategy<Value = NameList> {
    texts().prop_map(|names| names.iter().map(String::as_str).collect())
}

fn write_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        create().prop_map(Op::Create),
        create().prop_map(Op::Create2),
        create().prop_map(Op::CreateContainer),
        create_ttl().prop_map(Op::CreateTtl),
        (text(), any::<i32>()).prop_map(|(path, version)| Op::Delete(Delete { path, version })),
        (text(), data(), any::<i32>()).prop_map(|(path, data, version)| Op::SetData(SetData {
            path,
            data,
            version
        })),
        (text(), any::<i32>()).prop_map(|(path, version)| Op::Check(CheckVersion { path, version })),
    ]
}

fn read_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (text(), any::<bool>()).prop_map(|(path, watch)| Op::GetData(GetData { path, watch })),
        (text(), any::<bool>()).prop_map(|(path, watch)| Op::GetChildren(GetChildren { path, watch })),
    ]
}

fn op_result() -> impl Strategy<Value = OpResult> {
    prop_oneof![
        text().prop_map(OpResult::Create),
        (text(), stat()).prop_map(|(path, stat)| OpResult::Create2(path, stat)),
        Just(OpResult::Delete),
        stat().prop_map(OpResult::SetData),
        Just(OpResult::Check),
        (data(), stat()).prop_map(|(data, stat)| OpResult::GetData(data, stat)),
        names().prop_map(OpResult::GetChildren),
        any::<i32>().prop_map(|code| OpResult::Error(ErrorCode::from_code(code))),
    ]
}

/// A request of every kind.
pub(crate) fn requests() -> impl Strategy<Value = Vec<Request>> {
    let (path, elsewhere, yes, number, long) =
        (text(), option::of(text()), any::<bool>(), any::<i32>(), any::<i64>());
    let lists = (texts(), texts(), texts(), texts(), texts());
    let records = (create(), create_ttl(), data(), option::of(vec(acl(), 0..3)));
    let ops = (vec(write_op(), 0..4), vec(read_op(), 0..4));
    (path, elsewhere, yes, number, long, lists, records, ops).prop_map(
        |(path, elsewhere, watch, number, long, lists, (create, create_ttl, data, acl), (writes, reads))| {
            let p = || path.clone();
            let (list1, list2, list3, persistent, recursive) = lists;
            let relative_zxid = Zxid(long);
            let all = vec![
                Request::Create(create.clone()),
                Request::Create2(create.clone()),
                Request::CreateContainer(create),
                Request::CreateTtl(create_ttl),
                Request::Delete(Delete { path: p(), version: number }),
                Request::DeleteContainer(DeleteContainer { path: p() }),
                Request::Exists(Exists { path: p(), watch }),
                Request::GetData(GetData { path: p(), watch }),
                Request::SetData(SetData { path: p(), data: data.clone(), version: number }),
                Request::GetAcl(GetAcl { path: p() }),
                Request::SetAcl(SetAcl { path: p(), acl: acl.map(AclList::from), version: number }),
                Request::GetChildren(GetChildren { path: p(), watch }),
                Request::GetChildren2(GetChildren { path: p(), watch }),
                Request::GetAllChildrenNumber(GetAllChildrenNumber { path: p() }),
                Request::GetEphemerals(GetEphemerals { prefix: elsewhere.clone() }),
                Request::Sync(Sync { path: elsewhere.clone() }),
                Request::Check(CheckVersion { path: p(), version: number }),
                Request::Multi(writes),
                Request::MultiRead(reads),
                Request::Reconfig(Reconfig {
                    joining: elsewhere.clone(),
                    leaving: None,
                    new_members: Some(p()),
                    config: long,
                }),
                Request::CheckWatches(CheckWatches { path: elsewhere.clone(), kind: number }),
                Request::RemoveWatches(RemoveWatches { path: elsewhere.clone(), kind: number }),
                Request::AddWatch(AddWatch { path: elsewhere.clone(), mode: number }),
                Request::SetWatches(SetWatches {
                    relative_zxid,
                    data: list1.clone(),
                    exist: list2.clone(),
                    child: list3.clone(),
                }),
                Request::SetWatches2(Box::new(SetWatches2 {
                    relative_zxid,
                    data: list1,
                    exist: list2,
                    child: list3,
                    persistent,
                    recursive,
                })),
                Request::Auth(AuthPacket { kind: number, scheme: elsewhere, auth: data.clone() }),
                Request::Sasl(SaslToken(data)),
                Request::CreateSession(number),
                Request::WhoAmI,
                Request::Ping,
                Request::CloseSession,
            ];
            assert_eq!(all.len(), OpCode::ALL.len(), "a request for every opcode");
            all
        },
    )
}

/// A reply of every kind, each with an opcode that it answers.
pub(crate) fn replies() -> impl Strategy<Value = Vec<(OpCode, Reply)>> {
    let info = (text(), text()).prop_map(|(scheme, user)| ClientInfo { scheme, user });
    let parts = (text(), option::of(text()), data(), stat(), any::<i32>());
    (parts, vec(acl(), 0..3), names(), texts(), vec(info, 0..3), vec(op_result(), 0..5)).prop_map(
        |((path, elsewhere, data, stat, count), acl, names, paths, infos, results)| {
            let created2 = Reply::Created2(path.clone(), stat);
            vec![
                (OpCode::Create, Reply::Created(path)),
                (OpCode::Create2, created2.clone()),
                (OpCode::CreateContainer, created2.clone()),
                (OpCode::CreateTtl, created2),
                (OpCode::Exists, Reply::Stat(stat)),
                (OpCode::SetData, Reply::Stat(stat)),
                (OpCode::SetAcl, Reply::Stat(stat)),
                (OpCode::GetData, Reply::Data(data.clone(), stat)),
                (OpCode::Reconfig, Reply::Data(data.clone(), stat)),
                (OpCode::GetAcl, Reply::Acl(acl, stat)),
                (OpCode::GetChildren, Reply::Children(names.clone())),
                (OpCode::GetChildren2, Reply::Children2(names, stat)),
                (OpCode::GetAllChildrenNumber, Reply::Count(count)),
                (OpCode::GetEphemerals, Reply::Ephemerals(paths)),
                (OpCode::Sync, Reply::Synced(elsewhere)),
                (OpCode::WhoAmI, Reply::WhoAmI(infos)),
                (OpCode::Sasl, Reply::Sasl(data)),
                (OpCode::AddWatch, Reply::WatchAdded),
                (OpCode::Multi, Reply::Multi(results.clone())),
                (OpCode::MultiRead, Reply::Multi(results)),
                (OpCode::Delete, Reply::Empty),
                (OpCode::Ping, Reply::Empty),
                (OpCode::CloseSession, Reply::Empty),
            ]
        },
    )
}
