use std::path::{Path, PathBuf};

use bytes::Bytes;
use zoolet_client::Client;
use zoolet_server_core::TxnOp;

use crate::common::Running;
use crate::common::directory::{DataDirectory, names, run};

fn dump(directory: &Path) -> String {
    run(&["data", "dump", directory.to_str().unwrap(), "--data", "--secrets"]).clean().to_owned()
}

/// A directory beside this one that does not exist yet.
fn beside(directory: &DataDirectory, name: &str) -> PathBuf {
    directory.path().with_file_name(name)
}

#[test]
fn a_copy_has_all_the_data_and_sessions() {
    let directory = DataDirectory::sample();
    for (command, name) in [("export", "a"), ("import", "b")] {
        let to = beside(&directory, name);
        let ran = directory.run(command, &["--to", to.to_str().unwrap()]);
        let expected =
            format!("{}: zxid 0xa, 8 znodes, 1 session, ", to.join("version-2/snapshot.a").display());
        assert!(ran.clean().starts_with(&expected), "{ran:?}");
        assert_eq!(names(&to), [".zoolet-complete", "snapshot.a"]);
        assert_eq!(dump(&to), dump(&directory.path()));
    }
}

#[test]
fn an_export_is_compressed_or_without_a_digest_on_request() {
    let directory = DataDirectory::sample();
    let to = beside(&directory, "plain");
    directory.run("export", &["--to", to.to_str().unwrap(), "--no-digest", "--compression", "gz"]).clean();
    assert_eq!(names(&to), [".zoolet-complete", "snapshot.a.gz"]);
    let inspected = run(&["data", "inspect", to.to_str().unwrap()]);
    assert!(inspected.clean().ends_with(", no digest\n"), "{inspected:?}");
    assert_eq!(dump(&to), dump(&directory.path()));
}

#[test]
fn a_repair_keeps_what_is_before_the_damage() {
    let directory = DataDirectory::sample();
    let before = directory.run("dump", &["--at", "0x4"]);
    let damaged = directory.entry("log.1", 4);
    directory.edit("log.1", |bytes| bytes[damaged + 20] ^= 1);
    let to = beside(&directory, "repaired");
    let target = to.to_str().unwrap();

    let refused = directory.run("repair", &["--cut-at", "0x5", "--to", target]);
    assert!(refused.refused(1).contains(&format!("log.1, byte {damaged}: ")), "{refused:?}");
    assert!(!to.exists());
    directory.run("repair", &["--cut-at", "0x4", "--to", target]).clean();
    assert_eq!(run(&["data", "dump", target]).clean(), before.clean());
    run(&["data", "verify", target]).clean();
    // Never over something.
    let again = directory.run("repair", &["--cut-at", "0x3", "--to", target]);
    assert!(again.refused(2).contains("is not empty"), "{again:?}");
}

#[test]
fn a_copy_of_nothing_and_into_itself_is_refused() {
    let directory = DataDirectory::sample();
    let path = directory.path();
    let itself = directory.run("export", &["--to", path.to_str().unwrap()]);
    assert!(itself.refused(2).contains("is not empty"), "{itself:?}");
    let to = beside(&directory, "late");
    let late = directory.run("repair", &["--cut-at", "0xb", "--to", to.to_str().unwrap()]);
    assert!(late.refused(1).contains("the last transaction is 0xa, which is before 0xb"), "{late:?}");
    assert!(directory.run("export", &[]).refused(2).contains("--to <DIR>"));
}

#[tokio::test]
async fn an_import_that_names_the_members_of_an_ensemble_is_told_how_to_forget_them() {
    let directory = DataDirectory::sample();
    let members = b"server.1=zk1:2888:3888:participant;2181\nversion=100000000";
    let set = |data: &'static [u8]| TxnOp::SetData {
        path: "/zookeeper/config".into(),
        data: Some(Bytes::from_static(data)),
        version: 1,
    };
    directory.append(vec![set(members)]);
    let to = beside(&directory, "imported");
    let ran = directory.run("import", &["--to", to.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.starts_with("zoolet: warning: the znode /zookeeper/config names the members"), "{ran:?}");

    let digest = ["--super-digest", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="];
    let server = Running::start(
        &[&["--bind", "127.0.0.1:0", "--data-dir", to.to_str().unwrap()], &digest[..]].concat(),
    );
    let zk = Client::connect(server.addrs[0].as_str()).await.unwrap();
    assert!(zk.set_data("/zookeeper/config", "").await.is_err(), "only the superuser may");
    zk.add_auth("digest", "super:secret").await.unwrap();
    zk.set_data("/zookeeper/config", "").await.unwrap();
    zk.close().await.unwrap();
    server.stop("TERM");
    let again = beside(&directory, "again");
    run(&["data", "import", to.to_str().unwrap(), "--to", again.to_str().unwrap()]).clean();
}
