//! Each mistake is one line on stderr, and exit code 2.

use std::fs;

use tempfile::TempDir;

use crate::common::directory::{DataDirectory, run};

#[test]
fn a_directory_that_is_none_is_refused_with_a_hint() {
    let directory = DataDirectory::sample();
    let data = |path: &str| run(&["data", "dump", path]).refused(2).to_owned();
    let inner = directory.path().join("version-2").display().to_string();
    assert_eq!(
        data(&inner),
        format!("zoolet: {inner} is no data directory: name its parent, as in a zoo.cfg")
    );
    let snapshot = directory.file("snapshot.0").display().to_string();
    let named = format!("it is one file; name the data directory, {}, and", directory.path().display());
    assert!(
        data(&snapshot).contains(&named) && data(&snapshot).contains("--at 0x0 (dump)"),
        "{}",
        data(&snapshot)
    );
    let log = directory.file("log.1").display().to_string();
    assert!(data(&log).contains(&named) && data(&log).contains("--from 0x1 (log)"), "{}", data(&log));
    assert_eq!(data("/no/such"), "zoolet: /no/such is no data directory: there is no such directory");
    let empty = TempDir::new().unwrap();
    let name = empty.path().display().to_string();
    assert!(data(&name).contains("it has no version-2; name the directory"), "{}", data(&name));
    fs::create_dir(empty.path().join("version-2")).unwrap();
    assert!(data(&name).ends_with("has no data of a server"), "{}", data(&name));
    assert!(
        directory
            .run("dump", &["--log-dir", "/no/such"])
            .refused(2)
            .contains("/no/such is no data directory")
    );
}

#[test]
fn a_wrong_argument_is_refused_with_a_hint() {
    let directory = DataDirectory::sample();
    for (command, arguments, expected) in [
        ("log", &["--from", "10"][..], "must be a zxid as it is printed, such as 0x2b"),
        ("log", &["--from", "0x"], "must be a zxid as it is printed, such as 0x2b"),
        ("log", &["--follow", "--to", "0x1"], "the argument '--follow' cannot be used with '--to <ZXID>'"),
        ("log", &["--follwo"], "tip: a similar argument exists: '--follow'"),
        ("snapshot", &["--compression", "zip"], "must be none, gz or snappy"),
    ] {
        let ran = directory.run(command, arguments);
        assert!(ran.refused(2).contains(expected), "{ran:?}");
        assert!(ran.err.contains(&format!("see `zoolet data {command} --help`")), "{ran:?}");
    }
    assert!(run(&["data"]).refused(2).contains("see `zoolet data --help`"));
    assert!(run(&["data", "dmup"]).refused(2).contains("tip: a similar subcommand exists: 'dump'"));
}
