use std::fs;

use zoolet_server_core::Owner;

use crate::common::directory::{DataDirectory, create};

#[test]
fn a_dump_has_a_line_for_each_znode_in_the_order_of_the_tree() {
    let text = "\
# zxid 0xa, znodes 8, sessions 1
# session 0x10000000000a, timeout 30000 ms
# path\tkind\tversion\tczxid\tmzxid\tlength\tacl
/\tpersistent\t0\t0x0\t0x0\t0\tworld:anyone:cdrwa
/app\tpersistent\t1\t0x2\t0x4\t2\tdigest:bob:(hidden):cdrwa,ip:10.0.0.0/8:r
/app/leader\tephemeral:0x10000000000a\t0\t0x3\t0x3\t6\tworld:anyone:cdrwa
/cache\tttl:60000\t1\t0x7\t0xa\t2\tworld:anyone:cdrwa
/jobs\tcontainer\t0\t0x7\t0x7\t0\tworld:anyone:cdrwa
/zookeeper\tpersistent\t0\t0x0\t0x0\t0\tworld:anyone:cdrwa
/zookeeper/config\tpersistent\t0\t0x0\t0x0\t0\tworld:anyone:r
/zookeeper/quota\tpersistent\t0\t0x0\t0x0\t0\tworld:anyone:cdrwa
";
    assert_eq!(DataDirectory::sample().run("dump", &[]).clean(), text);
}

#[test]
fn a_part_of_the_tree_can_be_dumped_with_data_and_secrets() {
    let directory = DataDirectory::sample();
    let ran = directory.run("dump", &["--path", "/app", "--data", "--secrets"]);
    let znodes: Vec<_> = ran.clean().lines().skip(3).collect();
    assert_eq!(
        znodes,
        [
            "/app\tpersistent\t1\t0x2\t0x4\t2\tdigest:bob:fyVmFCwVbTJYrznoSu1koqYEYF0=:cdrwa,ip:10.0.0.0/8:r\t\"v2\"",
            "/app/leader\tephemeral:0x10000000000a\t0\t0x3\t0x3\t6\tworld:anyone:cdrwa\t\"host:1\"",
        ]
    );
    assert!(directory.run("dump", &["--path", "/cache", "--data"]).clean().ends_with("\tbase64:/wA=\n"));
    assert_eq!(directory.run("dump", &["--path", "/ap"]).refused(1), "zoolet: there is no znode /ap");
}

#[test]
fn a_sibling_whose_name_begins_alike_is_no_part_of_the_tree() {
    let directory = DataDirectory::sample();
    directory.append(vec![
        create("/app2", "", Owner::PERSISTENT),
        create("/app/z", "", Owner::PERSISTENT),
        create("/app/zz", "", Owner::PERSISTENT),
    ]);
    let paths = |path: &str| {
        let ran = directory.run("dump", &["--path", path]);
        let lines = ran.clean().lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split('\t').find(|word| word.starts_with('/')))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let app = paths("/app");
    assert!(app.contains(&"/app".to_owned()) && app.contains(&"/app/zz".to_owned()), "{app:?}");
    assert!(app.iter().all(|path| path == "/app" || path.starts_with("/app/")), "{app:?}");
    assert_eq!(paths("/app/z"), ["/app/z"]);
    assert_eq!(paths("/app2"), ["/app2"]);
    assert!(paths("/").contains(&"/app2".to_owned()));
}

#[test]
fn a_dump_in_json_is_an_object_in_each_line() {
    let directory = DataDirectory::sample();
    let json = directory.run("dump", &["--path", "/app/leader", "--json", "--data"]);
    assert_eq!(
        json.clean(),
        r#"{"zxid":"0xa","sessions":[{"id":"0x10000000000a","timeout":30000}]}
{"path":"/app/leader","kind":"ephemeral","owner":"0x10000000000a","version":0,"aversion":0,"creates":0,"czxid":"0x3","mzxid":"0x3","pzxid":"0x3","ctime":1795392003000,"mtime":1795392003000,"acl":[{"perms":"cdrwa","scheme":"world","id":"anyone"}],"length":6,"data":"aG9zdDox"}
"#
    );
}

#[test]
fn a_dump_changes_nothing_and_works_beside_a_torn_write() {
    let directory = DataDirectory::sample();
    let torn = directory.entry("log.1", 9);
    directory.edit("log.1", |bytes| bytes[torn + 20] ^= 1);
    let before = fs::read(directory.file("log.1")).unwrap();
    let ran = directory.run("dump", &["--path", "/cache"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.starts_with("# zxid 0x9, "), "{ran:?}");
    let expected = format!("log.1, byte {torn}: ");
    assert!(ran.err.starts_with("zoolet: warning: ") && ran.err.contains(&expected), "{ran:?}");
    assert!(fs::read(directory.file("log.1")).unwrap() == before);
    assert_eq!(directory.names(), ["log.1", "snapshot.0"]);
}

#[test]
fn a_damaged_directory_is_refused_with_the_file_and_the_place() {
    let directory = DataDirectory::sample();
    let damaged = directory.entry("log.1", 4);
    directory.edit("log.1", |bytes| bytes[damaged + 20] ^= 1);
    let ran = directory.run("dump", &[]);
    let expected = format!("version-2/log.1, byte {damaged}: the checksum of an entry is wrong");
    assert!(ran.refused(1).contains(&expected), "{ran:?}");
}
