use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use zoolet_server_core::Owner;

use crate::common::BINARY;
use crate::common::directory::{DataDirectory, create};

#[test]
fn the_log_has_a_line_for_each_transaction() {
    let text = "\
0x1\t2026-11-23T00:00:01.000Z\t0x10000000000a\t0\tcreateSession 30000 ms
0x2\t2026-11-23T00:00:02.000Z\t0x10000000000a\t1\tcreate /app persistent world:anyone:cdrwa (2 bytes)
0x3\t2026-11-23T00:00:03.000Z\t0x10000000000a\t2\tcreate /app/leader ephemeral:0x10000000000a world:anyone:cdrwa (6 bytes)
0x4\t2026-11-23T00:00:04.000Z\t0x10000000000a\t3\tsetData /app version 1 (2 bytes)
0x5\t2026-11-23T00:00:05.000Z\t0x10000000000a\t4\tsetACL /app aversion 1 digest:bob:(hidden):cdrwa,ip:10.0.0.0/8:r
0x6\t2026-11-23T00:00:06.000Z\t0x10000000000a\t5\terror -110 the znode exists
0x7\t2026-11-23T00:00:07.000Z\t0x10000000000a\t6\tmulti [check /app; create /jobs container world:anyone:cdrwa (0 bytes); create /cache ttl:60000 world:anyone:cdrwa (1 bytes)]
0x8\t2026-11-23T00:00:08.000Z\t0x10000000000a\t7\tcreate /gone persistent world:anyone:cdrwa (0 bytes)
0x9\t2026-11-23T00:00:09.000Z\t0x10000000000a\t8\tdelete /gone
0xa\t2026-11-23T00:00:10.000Z\t0x10000000000a\t9\tsetData /cache version 1 (2 bytes)
";
    assert_eq!(DataDirectory::sample().run("log", &[]).clean(), text);
}

#[test]
fn a_part_of_the_log_can_be_printed_and_with_data() {
    let directory = DataDirectory::sample();
    let part = directory.run("log", &["--from", "0x4", "--to", "0x5", "--data", "--secrets"]);
    let ops: Vec<_> = part.clean().lines().map(|line| line.rsplit('\t').next().unwrap()).collect();
    assert_eq!(
        ops,
        [
            "setData /app version 1 \"v2\"",
            "setACL /app aversion 1 digest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:cdrwa,ip:10.0.0.0/8:r",
        ]
    );
    assert_eq!(directory.run("log", &["--from", "0xb"]).clean(), "");
    let json = directory.run("log", &["--from", "0x9", "--to", "0x9", "--json"]);
    assert_eq!(
        json.clean(),
        "{\"zxid\":\"0x9\",\"time\":1795392009000,\"session\":\"0x10000000000a\",\"xid\":8,\"op\":\"delete\",\"path\":\"/gone\"}\n"
    );
}

#[test]
fn the_log_goes_on_in_the_next_file() {
    let directory = DataDirectory::sample();
    directory.append(vec![create("/b", "", Owner::PERSISTENT)]);
    assert_eq!(directory.names(), ["log.1", "log.b", "snapshot.0"]);
    let zxids = |from: &str| {
        let ran = directory.run("log", &["--from", from]);
        ran.clean().lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(zxids("0xa"), ["0xa", "0xb"]);
    assert_eq!(zxids("0xb"), ["0xb"]);
    assert_eq!(zxids("0x0").len(), 11);
}

#[test]
fn what_is_after_damage_is_printed_and_the_damage_is_reported() {
    let directory = DataDirectory::sample();
    let damaged = directory.entry("log.1", 4);
    directory.edit("log.1", |bytes| bytes[damaged + 20] ^= 1);
    let ran = directory.run("log", &[]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(1), 9));
    let [damage, gap] = ran.err.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    let expected =
        format!("byte {damaged}: the checksum of an entry is wrong; going on with transaction 0x6");
    assert!(damage.contains(&expected), "{ran:?}");
    assert_eq!(gap, "zoolet: warning: after transaction 0x4 comes 0x6");
}

#[test]
fn a_torn_write_is_reported_and_is_no_damage() {
    let directory = DataDirectory::sample();
    let torn = directory.entry("log.1", 9);
    directory.edit("log.1", |bytes| bytes[torn + 20] ^= 1);
    let ran = directory.run("log", &[]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 9));
    assert!(ran.err.contains("the last write was not finished"), "{ran:?}");
}

#[test]
fn a_log_is_followed_from_file_to_file() {
    let directory = DataDirectory::sample();
    let path = directory.path();
    let mut follower = Command::new(BINARY)
        .args(["data", "log", path.to_str().unwrap(), "--follow", "--from", "0xa"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap().split('\t').next().unwrap().to_owned();
    assert_eq!(next(), "0xa");
    for (path, zxid) in [("/b", "0xb"), ("/c", "0xc")] {
        directory.append(vec![create(path, "", Owner::PERSISTENT)]);
        assert_eq!(next(), zxid);
    }
    follower.kill().unwrap();
    let output = follower.wait_with_output().unwrap();
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = DataDirectory::sample();
    // More than fits into a pipe.
    directory.append_batch((0..3_000).map(|n| create(&format!("/n{n}"), "", Owner::PERSISTENT)).collect());
    let path = directory.path();
    let mut process = Command::new(BINARY)
        .args(["data", "log", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, process.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("0x1\t"), "{first}");
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
