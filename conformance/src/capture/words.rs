//! Requests as named values, in the words of cases: what is printed parses as a request of a case.

use zoolet_proto::records::{ConnectRequest, Create, CreateTtl, Op};
use zoolet_proto::{AclList, OpCode, Request};

use crate::wire::acl::acl_text;
use crate::wire::fields::{Fields, Value};

/// The fields of a request. The first one is its name, which is printed without one of its own.
pub(super) fn of_request(request: &Request) -> Fields {
    let mut fields = named(request.op());
    let path = |path: &str| ("path", text(path));
    match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => {
            put_create(create, &mut fields);
        }
        Request::CreateTtl(create) => put_create_ttl(create, &mut fields),
        Request::Delete(delete) => fields.extend([path(&delete.path), ("version", int(delete.version))]),
        Request::DeleteContainer(delete) => fields.push(path(&delete.path)),
        Request::Exists(exists) => fields.extend([path(&exists.path), ("watch", int(exists.watch))]),
        Request::GetData(get) => fields.extend([path(&get.path), ("watch", int(get.watch))]),
        Request::SetData(set) => {
            fields.extend([
                path(&set.path),
                ("data", Value::Data(set.data.clone())),
                ("version", int(set.version)),
            ]);
        }
        Request::GetAcl(get) => fields.push(path(&get.path)),
        Request::SetAcl(set) => {
            fields.extend([path(&set.path), ("acl", acl(&set.acl)), ("version", int(set.version))]);
        }
        Request::GetChildren(get) | Request::GetChildren2(get) => {
            fields.extend([path(&get.path), ("watch", int(get.watch))]);
        }
        Request::Sync(sync) => fields.push(("path", text_or_null(&sync.path))),
        Request::Check(check) => fields.extend([path(&check.path), ("version", int(check.version))]),
        Request::Multi(ops) | Request::MultiRead(ops) => {
            fields.push(("results", Value::Results(ops.iter().map(of_part).collect())));
        }
        Request::Reconfig(reconfig) => fields.extend([
            ("joining", text_or_null(&reconfig.joining)),
            ("leaving", text_or_null(&reconfig.leaving)),
            ("members", text_or_null(&reconfig.new_members)),
            ("config", Value::Int(reconfig.config)),
        ]),
        Request::CheckWatches(check) => {
            fields.extend([("path", text_or_null(&check.path)), ("kind", int(check.kind))]);
        }
        Request::RemoveWatches(remove) => {
            fields.extend([("path", text_or_null(&remove.path)), ("kind", int(remove.kind))]);
        }
        Request::AddWatch(add) => {
            fields.extend([("path", text_or_null(&add.path)), ("mode", int(add.mode))]);
        }
        Request::Auth(auth) => fields.extend([
            ("scheme", text_or_null(&auth.scheme)),
            ("auth", Value::Data(auth.auth.clone())),
            ("kind", int(auth.kind)),
        ]),
        Request::SetWatches(set) => fields.extend([
            ("since", Value::Int(set.relative_zxid.0)),
            ("data", Value::List(set.data.clone())),
            ("exist", Value::List(set.exist.clone())),
            ("child", Value::List(set.child.clone())),
        ]),
        Request::SetWatches2(set) => fields.extend([
            ("since", Value::Int(set.relative_zxid.0)),
            ("data", Value::List(set.data.clone())),
            ("exist", Value::List(set.exist.clone())),
            ("child", Value::List(set.child.clone())),
            ("persistent", Value::List(set.persistent.clone())),
            ("recursive", Value::List(set.recursive.clone())),
        ]),
        Request::Sasl(token) => fields.push(("token", Value::Data(token.0.clone()))),
        Request::GetEphemerals(get) => fields.push(("prefix", text_or_null(&get.prefix))),
        Request::GetAllChildrenNumber(get) => fields.push(path(&get.path)),
        Request::CreateSession(timeout) => fields.push(("timeout", int(*timeout))),
        Request::Ping | Request::WhoAmI | Request::CloseSession => {}
    }
    fields
}

/// The fields of the first frame of a client.
pub(super) fn of_connect(request: &ConnectRequest) -> Fields {
    vec![
        ("result", text("connect")),
        ("timeout", int(request.timeout)),
        ("session", Value::Int(request.session.0)),
        ("zxid", Value::Int(request.last_zxid_seen.0)),
    ]
}

fn of_part(op: &Op) -> Fields {
    let mut fields = named(op.op());
    let path = ("path", text(op.path()));
    match op {
        Op::Create(create) | Op::Create2(create) | Op::CreateContainer(create) => {
            put_create(create, &mut fields);
        }
        Op::CreateTtl(create) => put_create_ttl(create, &mut fields),
        Op::Delete(delete) => fields.extend([path, ("version", int(delete.version))]),
        Op::SetData(set) => {
            fields.extend([path, ("data", Value::Data(set.data.clone())), ("version", int(set.version))]);
        }
        Op::Check(check) => fields.extend([path, ("version", int(check.version))]),
        Op::GetData(get) => fields.extend([path, ("watch", int(get.watch))]),
        Op::GetChildren(get) => fields.extend([path, ("watch", int(get.watch))]),
    }
    fields
}

fn put_create(create: &Create, fields: &mut Fields) {
    fields.extend([
        ("path", text(&create.path)),
        ("data", Value::Data(create.data.clone())),
        ("acl", acl(&create.acl)),
        ("flags", int(create.flags)),
    ]);
}

fn put_create_ttl(create: &CreateTtl, fields: &mut Fields) {
    fields.extend([
        ("path", text(&create.path)),
        ("data", Value::Data(create.data.clone())),
        ("acl", acl(&create.acl)),
        ("flags", int(create.flags)),
        ("ttl", Value::Int(create.ttl)),
    ]);
}

fn named(op: OpCode) -> Fields {
    vec![("result", text(op.name()))]
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn text_or_null(optional: &Option<String>) -> Value {
    text(optional.as_deref().unwrap_or("null"))
}

fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}

fn acl(acl: &Option<AclList>) -> Value {
    match acl {
        Some(acl) => Value::List(acl.iter().map(acl_text).collect()),
        None => text("null"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use bytes::{Bytes, BytesMut};
    use zoolet_proto::Incoming;

    use super::*;
    use crate::catalogue::lex::Cursor;
    use crate::catalogue::pattern::Names;
    use crate::catalogue::request::Draft;
    use crate::wire::fields::show;

    /// The body of a request that a case writes so, and what it decodes to.
    fn encoded(text: &str) -> (Bytes, Request) {
        let draft =
            Draft::parse(&mut Cursor::new(text).unwrap()).unwrap_or_else(|why| panic!("{text}: {why}"));
        let mut frame = BytesMut::from(&[0, 0, 0, 1][..]);
        frame.extend_from_slice(&draft.code.to_be_bytes());
        draft.encode("/root", &Names::new(), &mut frame).unwrap();
        let request = Incoming::parse(&frame).unwrap().body.unwrap_or_else(|why| panic!("{text}: {why}"));
        (frame.freeze(), request)
    }

    #[test]
    fn what_is_printed_of_a_request_is_that_request_in_a_case() {
        for text in [
            "create /a \"x y\" [world:anyone:cdrwa \"digest:bob:xyz=:r\"] ephemeral",
            "create2 /a null null flags=2",
            "createContainer /a",
            "createTTL /a x ttl=77",
            "delete /a 3",
            "deleteContainer /a",
            "exists /a watch",
            "getData \"/a b\"",
            "setData /a \"\\x00\\xff\" 2",
            "getACL /a",
            "setACL /a [ip:10.0.0.0/8:64] 1",
            "getChildren /a watch",
            "getChildren2 /a",
            "getAllChildrenNumber /",
            "getEphemerals null",
            "sync /a",
            "ping",
            "whoAmI",
            "closeSession",
            "addWatch /a 1",
            "checkWatches /a 2",
            "removeWatches /a 3",
            "setWatches 5 [/a /b] [] [/c]",
            "setWatches2 5 [/a] [/b] [/c] [/d] [/e \"/f g\"]",
            "auth digest \"bob:\\x00\\x00\"",
            "sasl \"t\"",
            "reconfig null \"1,2\" null config=-1",
            "multi { create /a x; delete /b 1; setData /c \"\" 2; check /d 3; createTTL /e }",
            "multi { }",
            "multiRead { getData /a; getChildren /b }",
        ] {
            let (frame, request) = encoded(text);
            let shown = show(&of_request(&request));
            assert_eq!(encoded(&shown).0, frame, "{text} was printed as {shown}");
        }
    }
}
