//! A well-formed record of every opcode, for tests that damage it.

use bytes::{BufMut, BytesMut};
use zoolet_proto::{OpCode, Request, Xid};

use crate::*;

pub struct Sample {
    pub op: i32,
    pub body: Vec<u8>,
    /// Whether a damaged one closes the connection instead of getting an error.
    pub closes: bool,
}

/// One for every opcode that has a record.
pub fn samples() -> Vec<Sample> {
    let mut samples: Vec<_> = OpCode::ALL.iter().filter_map(|op| sample(*op)).collect();
    samples.retain(|sample| !sample.body.is_empty());
    samples
}

fn sample(op: OpCode) -> Option<Sample> {
    let body = match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer => create("/a").data("data").body(),
        OpCode::CreateTtl => create_ttl("/a", 5, 1000).body(),
        OpCode::DeleteContainer
        | OpCode::GetAcl
        | OpCode::GetAllChildrenNumber
        | OpCode::GetEphemerals
        | OpCode::Sync => sync("/a").body(),
        OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => {
            get_data("/a").watch().body()
        }
        OpCode::SetData => set_data("/a", "data").body(),
        OpCode::SetAcl => set_acl("/a", zoolet_proto::Acl::open()).body(),
        OpCode::Multi => {
            multi([create("/a"), set_data("/a", "x"), check("/a", 1), delete("/a").version(2)]).body()
        }
        OpCode::MultiRead => multi_read([get_data("/"), get_children("/")]).body(),
        OpCode::Reconfig => reconfig(),
        OpCode::CheckWatches | OpCode::RemoveWatches => check_watches("/a", 3).body(),
        OpCode::AddWatch => add_watch("/a", RECURSIVE).body(),
        OpCode::SetWatches => set_watches(5, &["/a"], &["/b", "/c"], &["/d"]).body(),
        OpCode::SetWatches2 => {
            let empty = [0; 4];
            [&set_watches(5, &["/a"], &["/b"], &["/d"]).body()[..], &[0, 0, 0, 1, 0, 0, 0, 2], b"/e", &empty]
                .concat()
        }
        OpCode::Auth => auth("digest", "user:password").body(),
        OpCode::Sasl => b"\0\0\0\x05token".to_vec(),
        // Refused whatever its body, or part of the handshake.
        OpCode::Check | OpCode::CreateSession => return None,
        OpCode::Ping | OpCode::WhoAmI | OpCode::CloseSession => return None,
        // A path and a version.
        _ => delete("/a").body(),
    };
    let mut frame = BytesMut::new();
    Request::parse(op, &body).expect("a well-formed body").encode_frame(Xid(0), &mut frame);
    assert_eq!(frame[12..], body, "the whole body of {op:?}");
    Some(Sample { op: op.code(), body, closes: matches!(op, OpCode::Auth | OpCode::Sasl) })
}

fn reconfig() -> Vec<u8> {
    let mut body = BytesMut::new();
    for text in ["server.1=a", "", "server.2=b"] {
        body.put_i32(text.len() as i32);
        body.put_slice(text.as_bytes());
    }
    body.put_i64(-1);
    body.to_vec()
}
