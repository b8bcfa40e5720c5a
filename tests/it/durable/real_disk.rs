//! A data directory in the file system of this machine.

use std::time::Duration;

use zoolet::Clock;
use zoolet::client::Client;
use zoolet::server::{Server, ServerBuilder, SnapshotError, StartError, StorageError, StorageOptions};
use zoolet::testing::TestServer;
use zoolet_test_support::Zk;

fn options(dir: &tempfile::TempDir) -> StorageOptions {
    let mut options = StorageOptions::new(dir.path());
    options.pre_alloc = 1 << 16;
    options
}

fn settings(dir: &tempfile::TempDir) -> ServerBuilder {
    Server::builder().storage(options(dir))
}

fn snapshots_each_100_txns(dir: &tempfile::TempDir, retain: Option<usize>) -> ServerBuilder {
    let mut options = options(dir);
    options.snapshot_after_txns = 100;
    options.retain = retain;
    Server::builder().storage(options)
}

async fn connect(server: &Server) -> Client {
    Client::connect(server.in_process()).await.expect("a session")
}

fn files(dir: &tempfile::TempDir) -> Vec<String> {
    let entries = dir.path().join("version-2").read_dir().expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_server_goes_on_where_the_one_before_was_shut_down_or_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..4 {
        let server = settings(&dir).start().await.expect("a server");
        let client = connect(&server).await;
        for earlier in 0..round {
            client.get_data(format!("/{earlier}")).await.expect("what an earlier server acknowledged");
        }
        client.create(format!("/{round}"), "").await.expect("a create");
        client.close().await.expect("the end of the session");
        if round % 2 == 0 {
            server.shutdown().await;
        } else {
            drop(server);
        }
    }
}

#[tokio::test]
async fn a_clean_end_leaves_a_snapshot_of_the_last_transaction_and_no_lock() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = settings(&dir).start().await.expect("a server");
    let client = connect(&server).await;
    client.create("/a", "").await.expect("a create");
    client.close().await.expect("the end of the session");
    server.shutdown().await;
    assert_eq!(files(&dir), ["log.1", "snapshot.0", "snapshot.3"]);
}

#[tokio::test]
async fn two_servers_on_one_directory_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = settings(&dir).start().await.expect("a server");
    let refused = settings(&dir).start().await.expect_err("another server has it");
    assert!(matches!(refused, StartError::Storage(StorageError::InUse(_))), "{refused}");
    assert!(refused.to_string().contains(&dir.path().display().to_string()), "{refused}");
    server.shutdown().await;
    settings(&dir).start().await.expect("it is free again").shutdown().await;
}

#[tokio::test]
async fn a_snapshot_on_demand_has_what_was_acknowledged_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = settings(&dir).start().await.expect("a server");
    let client = connect(&server).await;
    let created = client.create("/a", "").await.expect("a create").stat.czxid;
    let zxid = server.snapshot().await.expect("a snapshot");
    assert!(zxid >= created);
    assert_eq!(server.snapshot().await.expect("the same"), zxid, "nothing has changed");
    assert!(files(&dir).contains(&format!("snapshot.{:x}", zxid.0)), "{:?}", files(&dir));
    client.set_data("/a", "later").await.expect("a write");
    assert!(server.snapshot().await.expect("another one") > zxid);
    server.shutdown().await;
    let in_memory = Server::builder().start().await.expect("a server");
    assert!(matches!(in_memory.snapshot().await, Err(SnapshotError::InMemory)));
}

#[tokio::test]
async fn snapshots_are_written_by_number_of_transactions_and_old_ones_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = snapshots_each_100_txns(&dir, Some(2)).start().await.expect("a server");
    let client = connect(&server).await;
    client.create("/a", "").await.expect("a create");
    for round in 0..10 {
        for _ in 0..150 {
            client.set_data("/a", format!("{round}")).await.expect("a write");
        }
        // Waits for the one that is under way.
        server.snapshot().await.expect("a snapshot");
    }
    server.shutdown().await;
    let files = files(&dir);
    let count = |prefix| files.iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!(count("snapshot."), 2, "{files:?}");
    assert!((1..=3).contains(&count("log.")), "{files:?}");
}

#[tokio::test]
async fn a_snapshot_by_number_of_transactions_begins_a_second_after_the_one_before_at_the_earliest() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = Clock::manual();
    let server = snapshots_each_100_txns(&dir, None).clock(clock.clone()).start().await.expect("a server");
    let client = connect(&server).await;
    client.create("/a", "").await.expect("a create");
    let count = || files(&dir).iter().filter(|name| name.starts_with("snapshot.")).count();
    server.snapshot().await.expect("the first one");
    let first = count();
    for _ in 0..1_000 {
        client.set_data("/a", "").await.expect("a write");
    }
    server.snapshot().await.expect("another one, as it is asked for");
    assert_eq!(count(), first + 1);
    clock.advance(Duration::from_secs(1)).expect("a manual clock");
    for write in 0.. {
        if count() > first + 1 {
            break;
        }
        assert!(write < 20_000, "no snapshot, though a second has passed");
        client.set_data("/a", "").await.expect("a write");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn conf_and_dirs_tell_where_the_data_are_and_how_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = StorageOptions::new(dir.path());
    let zk = Zk::with(|settings| settings.storage(options).all_four_letter_words()).await;
    zk.create("/a", "").await;
    let version_2 = dir.path().join("version-2").display().to_string();
    let conf = zk.word("conf").await;
    assert!(conf.contains(&format!("dataDir={version_2}\n")), "{conf}");
    let dirs = zk.word("dirs").await;
    let size: u64 = dirs.lines().next().unwrap().rsplit(' ').next().unwrap().parse().expect("a number");
    assert!(size > 64 << 20, "{dirs}");
    zk.shutdown().await;
}

#[tokio::test]
async fn time_stands_still_on_a_manual_clock_while_something_is_not_durable() {
    let dir = tempfile::tempdir().expect("a directory");
    let zk = TestServer::builder().server(settings(&dir)).start().await.expect("a server");
    let client = zk.client().await;
    for _ in 0..20 {
        let write = client.create("/a-", "").sequential().send();
        zk.advance(Duration::from_secs(60)).await.expect("time that passes");
        write.await.expect("a write that was answered before time passed");
    }
    assert_eq!(zk.children("/").len(), 21);
}
