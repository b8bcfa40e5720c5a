//! The codec alone: decodes and encodes requests and replies.
#![allow(missing_docs, reason = "criterion_group! makes a public function")]

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use zoolet_proto::frame::{self, DEFAULT_MAX_FRAME, PREFIX};
use zoolet_proto::records::{CheckVersion, Create, Delete, GetData, Op, SetData, WatchedEvent};
use zoolet_proto::{
    AclList, CreateMode, EventType, Incoming, KeeperState, NameList, OpCode, Reply, ReplyHeader, Request,
    Stat, Xid, Zxid,
};

const PATH: &str = "/service/instances/instance-0000000042";

fn data() -> Option<Bytes> {
    Some(Bytes::from_static(&[b'x'; 100]))
}

fn create() -> Create {
    Create {
        path: PATH.into(),
        data: data(),
        acl: Some(AclList::OPEN),
        flags: CreateMode::EphemeralSequential.code(),
    }
}

fn requests() -> Vec<(&'static str, Request)> {
    let set = SetData { path: PATH.into(), data: data(), version: -1 };
    let multi = vec![
        Op::Check(CheckVersion { path: PATH.into(), version: 3 }),
        Op::Create(create()),
        Op::SetData(set.clone()),
        Op::Delete(Delete { path: PATH.into(), version: -1 }),
    ];
    vec![
        ("ping", Request::Ping),
        ("getData", Request::GetData(GetData { path: PATH.into(), watch: false })),
        ("setData", Request::SetData(set)),
        ("create", Request::Create(create())),
        ("multi of 4", Request::Multi(multi)),
    ]
}

fn replies() -> Vec<(&'static str, OpCode, Reply)> {
    let names: Vec<_> = (0..1000).map(|n| format!("instance-{n:010}")).collect();
    let names: NameList = names.iter().map(String::as_str).collect();
    vec![
        ("getData", OpCode::GetData, Reply::Data(data(), Stat::default())),
        ("setData", OpCode::SetData, Reply::Stat(Stat::default())),
        ("create", OpCode::Create, Reply::Created(PATH.into())),
        ("getChildren of 1,000", OpCode::GetChildren, Reply::Children(names)),
    ]
}

fn bench_requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("request");
    for (name, request) in requests() {
        let mut wire = BytesMut::new();
        request.encode_frame(Xid(1), &mut wire);
        group.throughput(Throughput::Bytes(wire.len() as u64));
        group.bench_function(format!("parse {name}"), |b| {
            b.iter(|| Incoming::parse(black_box(&wire[PREFIX..])));
        });
        let mut out = BytesMut::with_capacity(wire.len());
        group.bench_function(format!("encode {name}"), |b| {
            b.iter(|| {
                out.clear();
                black_box(&request).encode_frame(Xid(1), &mut out);
            });
        });
    }
    group.finish();
}

fn bench_replies(c: &mut Criterion) {
    let header = ReplyHeader::ok(Xid(1), Zxid(7));
    let event = Reply::Event(WatchedEvent {
        kind: EventType::NodeDataChanged,
        state: KeeperState::SyncConnected,
        path: PATH.into(),
    });
    let mut group = c.benchmark_group("reply");
    for (name, op, reply) in replies() {
        let mut wire = BytesMut::new();
        reply.encode_frame(header, &mut wire);
        let body = wire.split_off(PREFIX + 16);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("parse {name}"), |b| b.iter(|| Reply::parse(op, black_box(&body))));
    }
    for (name, reply) in replies().into_iter().map(|(name, _, reply)| (name, reply)).chain([("event", event)])
    {
        let mut out = BytesMut::new();
        reply.encode_frame(header, &mut out);
        group.throughput(Throughput::Bytes(out.len() as u64));
        group.bench_function(format!("encode {name}"), |b| {
            b.iter(|| {
                out.clear();
                black_box(&reply).encode_frame(header, &mut out);
            });
        });
    }
    group.finish();
}

/// Splits the bytes of one write of a pipelining client into frames.
fn bench_frames(c: &mut Criterion) {
    const FRAMES: u64 = 16;
    let mut wire = BytesMut::new();
    for xid in 0..FRAMES as i32 {
        Request::GetData(GetData { path: PATH.into(), watch: false }).encode_frame(Xid(xid), &mut wire);
    }
    let mut group = c.benchmark_group("frame");
    group.throughput(Throughput::Elements(FRAMES));
    group.bench_function("split 16", |b| {
        b.iter_batched(
            || &wire[..],
            |mut rest| {
                while let Ok(Some(frame)) = frame::split(black_box(rest), DEFAULT_MAX_FRAME) {
                    rest = &rest[PREFIX + frame.len()..];
                }
                rest
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, bench_requests, bench_replies, bench_frames);
criterion_main!(benches);
