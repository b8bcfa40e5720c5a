//! Entries as Apache ZooKeeper writes them, and as they come back.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use zoolet_proto::{Acl, AclList, ErrorCode, Perms, Request, SessionId, Xid, Zxid, frame, records};
use zoolet_server_core::{CoreConfig, Millis, Owner, Txn, TxnOp};

use super::entry::{self, END, Entry, PREFIX};
use super::follows;
use super::record::RecordParser;
use crate::options::StorageOptions;

const MAX_PAYLOAD: usize = 2_097_150;
const SESSION: SessionId = SessionId(0x0100_000a_5609_0000);

fn txn(op: TxnOp) -> Txn {
    Txn { session: SESSION, xid: Xid(7), zxid: Zxid(9), time: Millis(11), op, digest: Some(0xd1_9e57) }
}

fn create(path: &str, owner: Owner) -> TxnOp {
    let acl = Acl::open().into();
    TxnOp::Create { path: path.into(), data: Some(Bytes::from_static(b"x")), acl, owner, parent_creates: 3 }
}

fn encoded(txn: &Txn) -> Vec<u8> {
    let mut out = Vec::new();
    entry::encode(txn, 0x55, MAX_PAYLOAD, &mut out).unwrap();
    out
}

fn decoded(payload: &[u8]) -> Result<Entry, &'static str> {
    entry::parse(payload, &mut RecordParser::default())
}

/// A payload of a session and its fields, which are hexadecimal digits.
fn payload(kind: i32, fields: &str) -> Vec<u8> {
    let mut payload = hex("0100000a56090000 00000000 0000000000000009 000000000000000b");
    payload.extend_from_slice(&kind.to_be_bytes());
    payload.extend_from_slice(&hex(fields));
    payload
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// `Txn` has no equality, as the state machine needs none.
fn shown(txn: &Txn) -> String {
    format!("{txn:?}")
}

/// The first entry of a log of Apache ZooKeeper 3.9.5.
const APACHE: &str = "
    0000000098410917 00000030
    0100000a56090000 00000000 0000000000000001 000001a1f8026531 fffffff6
    00002710
    00000002 0000000051c6d660
    42";

#[test]
fn an_entry_of_apache_is_read_and_written_byte_by_byte() {
    let bytes = hex(APACHE);
    let payload = &bytes[PREFIX..bytes.len() - 1];
    assert!(entry::sum_matches(bytes[..8].try_into().unwrap(), payload));
    let Entry { txn, distance } = decoded(payload).unwrap();
    assert_eq!(distance, None);
    assert_eq!(
        shown(&txn),
        shown(&Txn {
            session: SESSION,
            xid: Xid(0),
            zxid: Zxid(1),
            time: Millis(0x01a1_f802_6531),
            op: TxnOp::CreateSession { timeout: 10_000 },
            digest: Some(1_371_985_504),
        })
    );
    // Ours has the marker besides, within checksum and length.
    let ours = encoded(&txn);
    assert_eq!(ours[PREFIX..ours.len() - 5], *payload);
    assert_eq!(ours[ours.len() - 5..], [0, 0, 0, 0x55, END]);
    assert_eq!(ours[8..PREFIX], 0x34u32.to_be_bytes());
    assert!(entry::sum_matches(ours[..8].try_into().unwrap(), &ours[PREFIX..ours.len() - 1]));
}

#[test]
fn every_type_has_the_record_of_apache() {
    const ACL: &str = "00000001 0000001f 00000005776f726c64 00000006616e796f6e65";
    let multi = TxnOp::Multi(vec![
        create("/a", Owner::session(SESSION)),
        TxnOp::Check { path: "/b".into() },
        TxnOp::Delete { path: "/c".into() },
        TxnOp::SetData { path: "/d".into(), data: None, version: 4 },
    ]);
    let table: Vec<(TxnOp, i32, String)> = vec![
        (TxnOp::CreateSession { timeout: 10_000 }, -10, "00002710".into()),
        (
            TxnOp::CloseSession { ephemerals: vec!["/a".into(), "/b".into()] },
            -11,
            "00000002 00000002 2f61 00000002 2f62".into(),
        ),
        (TxnOp::CloseSession { ephemerals: vec![] }, -11, "00000000".into()),
        (TxnOp::Error(ErrorCode::NoNode), -1, "ffffff9b".into()),
        (create("/a", Owner::PERSISTENT), 1, format!("00000002 2f61 00000001 78 {ACL} 00 00000003")),
        (create("/a", Owner::session(SESSION)), 1, format!("00000002 2f61 00000001 78 {ACL} 01 00000003")),
        (create("/a", Owner::CONTAINER), 19, format!("00000002 2f61 00000001 78 {ACL} 00000003")),
        (
            create("/a", Owner::ttl(5_000).unwrap()),
            21,
            format!("00000002 2f61 00000001 78 {ACL} 00000003 0000000000001388"),
        ),
        (TxnOp::Delete { path: "/a".into() }, 2, "00000002 2f61".into()),
        (
            TxnOp::SetData { path: "/".into(), data: None, version: 4 },
            5,
            "00000001 2f ffffffff 00000004".into(),
        ),
        (
            TxnOp::SetData { path: "/".into(), data: Some(Bytes::new()), version: 4 },
            5,
            "00000001 2f 00000000 00000004".into(),
        ),
        (
            TxnOp::SetAcl { path: "/a".into(), acl: Acl::open().into(), aversion: 2 },
            7,
            format!("00000002 2f61 {ACL} 00000002"),
        ),
        (
            multi,
            14,
            format!(
                "00000004
                 00000001 0000002b 00000002 2f61 00000001 78 {ACL} 01 00000003
                 0000000d 0000000a 00000002 2f62 ffffffff
                 00000002 00000006 00000002 2f63
                 00000005 0000000e 00000002 2f64 ffffffff 00000004"
            ),
        ),
    ];
    for (op, kind, fields) in table {
        let expected = payload(kind, &format!("{fields} 00000002 0000000000d19e57 00000055"));
        let mut txn = txn(op);
        txn.xid = Xid(0);
        let ours = encoded(&txn);
        assert_eq!(ours[PREFIX..ours.len() - 1], expected, "{txn:?}");
        let entry = decoded(&expected).unwrap();
        assert_eq!(shown(&entry.txn), shown(&txn));
        assert_eq!(entry.distance, Some(0x55));
    }
}

#[test]
fn what_the_server_deletes_itself_is_stored_as_a_delete_of_a_container() {
    let mut txn = txn(TxnOp::Delete { path: "/a".into() });
    txn.session = SessionId(0);
    let ours = encoded(&txn);
    assert_eq!(ours[PREFIX + 28..PREFIX + 32], 20i32.to_be_bytes());
    assert_eq!(shown(&decoded(&ours[PREFIX..ours.len() - 1]).unwrap().txn), shown(&txn));
}

#[test]
fn records_that_only_apache_writes_are_read() {
    const ACL: &str = "ffffffff";
    let read = |kind, fields: &str| decoded(&payload(kind, fields)).map(|entry| entry.txn.op);
    let show = |op: TxnOp| format!("{op:?}");
    let persistent = |parent_creates| TxnOp::Create {
        path: "/a".into(),
        data: None,
        acl: Acl::open().into(),
        owner: Owner::PERSISTENT,
        parent_creates,
    };
    for (kind, fields, op) in [
        // create2, create of 3.3, and counters: above 2^31, and to be computed.
        (15, format!("00000002 2f61 ffffffff {ACL} 00 00000003"), persistent(3)),
        (1, format!("00000002 2f61 ffffffff {ACL} 00"), persistent(-1)),
        (1, format!("00000002 2f61 ffffffff {ACL} 00 fffffffe"), persistent(0xffff_fffe)),
        (1, format!("00000002 2f61 ffffffff {ACL} 00 ffffffff"), persistent(-1)),
        // closeSession of before 3.6, and with `closeSessionTxn.enabled=false`.
        (-11, String::new(), TxnOp::CloseSession { ephemerals: vec![] }),
        (-11, "00000002 0000000251c6d660".into(), TxnOp::CloseSession { ephemerals: vec![] }),
        (-11, "00000002 0000000051c6d660".into(), TxnOp::CloseSession { ephemerals: vec![] }),
        (-11, "ffffffff".into(), TxnOp::CloseSession { ephemerals: vec![] }),
        (
            16,
            "00000011 2f7a6f6f6b65657065722f636f6e666967 00000001 78 ffffffff".into(),
            TxnOp::SetData {
                path: "/zookeeper/config".into(),
                data: Some(Bytes::from_static(b"x")),
                version: -1,
            },
        ),
        (20, "00000002 2f61".into(), TxnOp::Delete { path: "/a".into() }),
        // A failed multi: what came before the failure, the failure, and what came after it.
        (
            14,
            "00000003 00000002 00000006 00000002 2f61 ffffffff 00000004 ffffff9b ffffffff 00000004 fffffffe"
                .into(),
            TxnOp::Error(ErrorCode::NoNode),
        ),
        // The same in the log of a follower that a leader has brought up to date: the delete has become an error, its record has not.
        (
            14,
            "00000003 ffffffff 00000006 00000002 2f61 ffffffff 00000004 ffffff9b ffffffff 00000004 fffffffe"
                .into(),
            TxnOp::Error(ErrorCode::NoNode),
        ),
        (
            14,
            "00000001 ffffffff 00000006 00000002 2f61".into(),
            TxnOp::Error(ErrorCode::RuntimeInconsistency),
        ),
        // create2 and the delete of a container as members.
        (
            14,
            format!(
                "00000002 0000000f 00000013 00000002 2f61 ffffffff {ACL} 00 00000003 00000014 00000006 00000002 2f61"
            ),
            TxnOp::Multi(vec![persistent(3), TxnOp::Delete { path: "/a".into() }]),
        ),
        (14, "00000000".into(), TxnOp::Multi(vec![])),
    ] {
        assert_eq!(read(kind, &fields).map(show), Ok(show(op)), "type {kind}: {fields}");
    }
    let digest = |fields: &str| decoded(&payload(-11, fields)).map(|entry| entry.txn.digest);
    assert_eq!(digest("00000002 0000000251c6d660"), Ok(Some(0x2_51c6_d660)));
    assert_eq!(digest("00000000 00000003 0000000251c6d660"), Ok(None), "a digest of another version");
    assert_eq!(digest("00000000 00000002 00000002"), Ok(None), "a digest cut short");
}

#[test]
fn a_malformed_record_is_refused_with_its_reason() {
    const SHORT: &str = "the record is shorter than its fields";
    for (kind, fields, reason) in [
        (3, "00000002 2f61", "an unknown type of transaction"),
        (13, "00000002 2f61 00000000", "a check outside of a multi"),
        (-10, "000027", SHORT),
        (-1, "", SHORT),
        (2, "00000003 2f61", SHORT),
        (2, "ffffffff", "a null path"),
        (2, "00000000", "an invalid path"),
        (2, "00000001 61", "an invalid path"),
        (2, "00000002 2fff", "a path that is not UTF-8"),
        (2, "fffffffe", "a negative length"),
        (5, "00000002 2f61 fffffffe 00000000", SHORT),
        (5, "00000002 2f61 ffffffff 0000", SHORT),
        (1, "00000002 2f61 ffffffff ffffffff 00 0000", SHORT),
        (15, "00000002 2f61 ffffffff ffffffff 00", SHORT),
        (1, "00000002 2f61 ffffffff 7fffffff 00 00000000", SHORT),
        (1, "00000002 2f61 ffffffff fffffffe 00 00000000", "a negative count"),
        (19, "00000002 2f61 ffffffff ffffffff", SHORT),
        (21, "00000002 2f61 ffffffff ffffffff 00000001 0000000000000000", "a time to live out of range"),
        (21, "00000002 2f61 ffffffff ffffffff 00000001 0000010000000000", "a time to live out of range"),
        (-11, "00000001 00000002 2f", SHORT),
        (-11, "00000001", SHORT),
        (14, "ffffffff", "a multi without members"),
        (14, "7fffffff", SHORT),
        (14, "00000001 00000002 ffffffff", "a member of a multi without a record"),
        (14, "00000001 00000002 00000007 00000002 2f61 00", "a member of a multi longer than its fields"),
        (14, "00000001 00000007 0000000e 00000002 2f61 ffffffff 00000001", "an unknown type of transaction"),
        (14, "00000001 0000000e 00000004 00000000", "an unknown type of transaction"),
    ] {
        assert_eq!(
            decoded(&payload(kind, fields)).map(|entry| shown(&entry.txn)),
            Err(reason),
            "type {kind}: {fields}"
        );
    }
    assert_eq!(decoded(&[0; 31]).err(), Some(SHORT));
    assert_eq!(decoded(&[0; 32]).err(), Some("a zxid that no transaction has"));
}

#[test]
fn a_transaction_that_no_reader_takes_is_not_written() {
    let long =
        |len: usize| TxnOp::SetData { path: "/a".into(), data: Some(Bytes::from(vec![7; len])), version: 1 };
    // Header, path, length of the data, version, digest and marker are the rest.
    const REST: usize = 32 + 6 + 4 + 4 + 12 + 4;
    let mut out = b"before".to_vec();
    entry::encode(&txn(long(MAX_PAYLOAD - REST)), 0, MAX_PAYLOAD, &mut out).unwrap();
    assert_eq!(out.len(), 6 + PREFIX + MAX_PAYLOAD + 1);
    let refused = entry::encode(&txn(long(MAX_PAYLOAD - REST + 1)), 0, MAX_PAYLOAD, &mut out);
    assert_eq!(refused, Err(format!("its entry has {} bytes, more than servers read", MAX_PAYLOAD + 1)));
    for op in [
        TxnOp::Check { path: "/a".into() },
        create("/a", Owner::session(SessionId(5))),
        TxnOp::Multi(vec![TxnOp::Multi(vec![])]),
        TxnOp::Multi(vec![TxnOp::CreateSession { timeout: 1 }]),
    ] {
        let refused = entry::encode(&txn(op), 0, MAX_PAYLOAD, &mut out);
        assert!(refused.is_err_and(|error| error.ends_with(" cannot be stored")));
    }
    assert_eq!(out.len(), 6 + PREFIX + MAX_PAYLOAD + 1, "nothing is left of a refused one");
}

#[test]
fn a_close_of_a_session_names_as_many_ephemerals_as_fit() {
    let path = |n: usize| Arc::from(format!("/{n:0>1000}"));
    let ephemerals: Vec<Arc<str>> = (0..3_000).map(path).collect();
    let entry = encoded(&txn(TxnOp::CloseSession { ephemerals }));
    assert!(entry.len() <= PREFIX + MAX_PAYLOAD + 1);
    let entry = decoded(&entry[PREFIX..entry.len() - 1]).unwrap();
    let TxnOp::CloseSession { ephemerals } = entry.txn.op else { panic!("{entry:?}") };
    assert_eq!(ephemerals.len(), (MAX_PAYLOAD - 52) / 1_005);
}

/// A client chooses the lengths, so none of them may lead to an entry that cannot be written: that stops the server.
#[test]
fn a_close_of_a_session_can_be_written_whatever_the_lengths_of_its_ephemerals() {
    let mut longest = 0;
    for max in 100..200 {
        for digest in [Some(1), None] {
            let ephemerals = (0..9).map(|n| Arc::from(format!("/e{n}"))).collect();
            let close = Txn { digest, ..txn(TxnOp::CloseSession { ephemerals }) };
            let mut entry = Vec::new();
            let encoded = entry::encode(&close, 0x55, max, &mut entry);
            assert!(encoded.is_ok(), "at most {max} bytes: {encoded:?}");
            longest = longest.max(entry.len() - PREFIX - 1);
        }
    }
    assert!(longest > 100, "{longest}");
}

#[test]
fn a_zxid_follows_the_one_before_it_or_begins_an_epoch() {
    let epoch = |epoch: i64, counter: i64| Zxid(epoch << 32 | counter);
    for (last, next, follows_it) in [
        (epoch(0, 0), epoch(0, 1), true),
        (epoch(0, 5), epoch(0, 6), true),
        (epoch(0, 5), epoch(0, 5), false),
        (epoch(0, 5), epoch(0, 7), false),
        (epoch(0, 5), epoch(0, 4), false),
        (epoch(0, 5), epoch(1, 1), true),
        (epoch(0, 5), epoch(3, 1), true),
        (epoch(0, 5), epoch(1, 0), false),
        (epoch(0, 5), epoch(1, 2), false),
        (epoch(2, 5), epoch(1, 1), false),
        (epoch(0, 0xffff_ffff), epoch(1, 0), true),
        (epoch(1, 0), epoch(1, 1), true),
    ] {
        assert_eq!(follows(last, next), follows_it, "{last} {next}");
    }
}

fn path() -> impl Strategy<Value = Arc<str>> {
    proptest::collection::vec("[a-z\u{e9}\u{20ac}]{1,5}", 0..4)
        .prop_map(|names| format!("/{}", names.join("/")).into())
}

fn data() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from))
}

fn acl() -> impl Strategy<Value = AclList> {
    let entry = (any::<i32>(), "[a-z]{0,6}", "\\PC{0,8}")
        .prop_map(|(perms, scheme, id)| Acl::new(Perms(perms), scheme, id));
    proptest::collection::vec(entry, 0..3).prop_map(Into::into)
}

fn change() -> impl Strategy<Value = TxnOp> {
    let owner = prop_oneof![
        Just(Owner::PERSISTENT),
        Just(Owner::CONTAINER),
        Just(Owner::session(SESSION)),
        (1..=Owner::MAX_TTL).prop_map(|ttl| Owner::ttl(ttl).unwrap()),
    ];
    let creates = prop_oneof![Just(-1), 0..0xffff_ffff_i64];
    prop_oneof![
        (path(), data(), acl(), owner, creates).prop_map(|(path, data, acl, owner, parent_creates)| {
            TxnOp::Create { path, data, acl, owner, parent_creates }
        }),
        path().prop_map(|path| TxnOp::Delete { path }),
        (path(), data(), any::<i32>()).prop_map(|(path, data, version)| TxnOp::SetData {
            path,
            data,
            version
        }),
    ]
}

fn any_op() -> impl Strategy<Value = TxnOp> {
    let check = path().prop_map(|path| TxnOp::Check { path });
    prop_oneof![
        4 => change(),
        1 => (path(), acl(), any::<i32>()).prop_map(|(path, acl, aversion)| TxnOp::SetAcl { path, acl, aversion }),
        1 => proptest::collection::vec(prop_oneof![3 => change(), 1 => check], 0..5).prop_map(TxnOp::Multi),
        1 => any::<i32>().prop_map(|timeout| TxnOp::CreateSession { timeout }),
        1 => proptest::collection::vec(path(), 0..4).prop_map(|ephemerals| TxnOp::CloseSession { ephemerals }),
        1 => (-150..0).prop_map(|code| TxnOp::Error(ErrorCode::from_code(code).unwrap())),
    ]
}

proptest! {
    #[test]
    fn an_entry_comes_back_as_it_was_written(
        op in any_op(), xid: i32, zxid in 1..i64::MAX, time: i64, digest: Option<u64>, distance: u32,
    ) {
        let txn = Txn { session: SESSION, xid: Xid(xid), zxid: Zxid(zxid), time: Millis(time), op, digest };
        let mut out = Vec::new();
        entry::encode(&txn, distance, MAX_PAYLOAD, &mut out).unwrap();
        let entry = decoded(&out[PREFIX..out.len() - 1]).unwrap();
        prop_assert_eq!(shown(&entry.txn), shown(&txn));
        prop_assert_eq!(entry.distance, Some(distance));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(kind in -11..22, rest: Vec<u8>) {
        let mut bytes = payload(kind, "");
        bytes.extend_from_slice(&rest);
        drop(decoded(&bytes));
    }
}

/// The bytes of a request in its frame.
fn frame_len(request: &Request) -> usize {
    let mut frame = BytesMut::new();
    request.encode_frame(Xid(1), &mut frame);
    frame.len() - frame::PREFIX
}

#[test]
fn the_longest_request_with_the_longest_lists_fits() {
    // What `auth` entries become may fill their bound in spite of a frame that is full.
    let bound = CoreConfig::default().max_acl_bytes;
    let ids = |bytes: usize| vec![Acl::new(Perms::ALL, "digest", "x".repeat(bytes - 4 - 10 - 4))];
    let request = |path: &str, data: usize| records::Create {
        path: path.into(),
        data: Some(vec![7; data].into()),
        acl: Some(Acl::creator_all().into()),
        flags: 2,
    };
    let stored = |path: &str, data: usize, acl: usize| TxnOp::Create {
        path: format!("{path}0000000001").into(),
        data: Some(vec![7; data].into()),
        acl: ids(acl).into(),
        owner: Owner::PERSISTENT,
        parent_creates: 1,
    };
    let fits =
        |op: TxnOp| entry::encode(&txn(op), u32::MAX, StorageOptions::new("/").max_entry, &mut Vec::new());
    let rest = frame_len(&Request::Create(request("/a", 0)));
    let data = frame::DEFAULT_MAX_FRAME - rest;
    assert_eq!(frame_len(&Request::Create(request("/a", data))), frame::DEFAULT_MAX_FRAME);
    assert_eq!(fits(stored("/a", data, bound)), Ok(()));
    assert!(fits(stored("/a", data, bound + 64)).is_err(), "there is not much to spare");

    let member = frame_len(&Request::Multi(vec![records::Op::Create(request("/a", 0))]))
        - frame_len(&Request::Multi(vec![]));
    let count = (frame::DEFAULT_MAX_FRAME - frame_len(&Request::Multi(vec![]))) / member;
    assert_eq!(fits(TxnOp::Multi(vec![stored("/a", 0, bound / count); count])), Ok(()));
}
