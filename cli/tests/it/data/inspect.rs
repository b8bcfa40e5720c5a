use std::fs;

use crate::common::directory::DataDirectory;

fn with_one_of_each() -> DataDirectory {
    let directory = DataDirectory::sample();
    directory.run("snapshot", &[]).clean();
    fs::write(directory.file("currentEpoch"), "3").unwrap();
    fs::write(directory.file("log.1.old"), "").unwrap();
    fs::write(directory.file(".zoolet-snapshot-b.tmp"), "").unwrap();
    directory
}

#[test]
fn each_file_is_described_in_a_line() {
    let text = "\
snapshot.a\t916 B\t8 znodes, 1 ephemeral, 10 B of data, 1 session, 2 ACLs, digest 0x3876d1abd at zxid 0xa, last zxid 0xa
snapshot.0\t478 B\t4 znodes, 0 ephemerals, 0 B of data, 0 sessions, 1 ACL, digest 0x51c6d660 at zxid 0x0, last zxid 0x0
log.1\t937 B\t10 transactions from 0x1 (2026-11-23T00:00:01.000Z) to 0xa (2026-11-23T00:00:10.000Z), 1 refused, 937 B used; complete
currentEpoch\t\tepoch 3 of an ensemble
log.1.old\t\tno server gives this name; ignored
.zoolet-snapshot-b.tmp\t\tleft by a server that ended while writing it; ignored
";
    assert_eq!(with_one_of_each().run("inspect", &[]).clean(), text);
}

#[test]
fn each_file_is_a_json_object() {
    let text = r#"{"kind":"snapshot","file":"snapshot.a","length":916,"znodes":8,"ephemerals":1,"dataLength":10,"sessions":1,"acls":2,"digestZxid":"0xa","digest":"0x3876d1abd","lastZxid":"0xa","missingAcls":[]}
{"kind":"snapshot","file":"snapshot.0","length":478,"znodes":4,"ephemerals":0,"dataLength":0,"sessions":0,"acls":1,"digestZxid":"0x0","digest":"0x51c6d660","lastZxid":"0x0","missingAcls":[]}
{"kind":"log","file":"log.1","length":937,"transactions":10,"refused":1,"first":"0x1","firstTime":1795392001000,"last":"0xa","lastTime":1795392010000,"sessionsOpened":1,"sessionsClosed":0,"used":937,"end":"complete","endOffset":937}
{"kind":"epoch","file":"currentEpoch","epoch":3}
{"kind":"foreign","file":"log.1.old"}
{"kind":"leftover","file":".zoolet-snapshot-b.tmp"}
"#;
    assert_eq!(with_one_of_each().run("inspect", &["--json"]).clean(), text);
}

#[test]
fn damage_is_described_in_its_place_and_the_exit_code_is_1() {
    let directory = DataDirectory::sample();
    let damaged = directory.entry("log.1", 4);
    directory.edit("log.1", |bytes| bytes[damaged + 20] ^= 1);
    directory.edit("snapshot.0", |bytes| bytes.truncate(100));
    fs::write(directory.file("acceptedEpoch"), "x").unwrap();
    let ran = directory.run("inspect", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""));
    let [snapshot, log, epoch] = ran.out.lines().collect::<Vec<_>>()[..] else { panic!("{ran:?}") };
    let expected = format!("snapshot.0\t100 B\tdamaged: {}", directory.file("snapshot.0").display());
    assert!(snapshot.starts_with(&expected), "{snapshot}");
    let expected = format!(
        "; damaged at byte {damaged}: the checksum of an entry is wrong; the next transaction that can be read is 0x6"
    );
    assert!(log.contains("\t4 transactions from 0x1 ") && log.ends_with(&expected), "{log}");
    assert!(epoch.starts_with("acceptedEpoch\t\tdamaged: "), "{epoch}");
    let json = directory.run("inspect", &["--json"]);
    assert!(json.out.contains(r#""end":"damaged""#) && json.out.contains(r#""damage":""#), "{json:?}");
}
