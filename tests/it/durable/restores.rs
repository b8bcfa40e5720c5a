//! The state of a running server is replaced by a snapshot: a crash leaves the one or the other, and clients notice what has changed.

use std::path::Path;
use std::sync::Arc;

use zoolet::server::extension::with_disk;
use zoolet::server::{RestoreError, Server, StorageOptions};
use zoolet::testing::{SimulatedDisk, TestServer};
use zoolet::{Client, EventType};
use zoolet_proto::Zxid;
use zoolet_storage::disk::Disk;
use zoolet_storage::{StorageError, open, verify};

/// A server alone on a disk, with a client.
async fn on(disk: &SimulatedDisk) -> (Server, Client) {
    zoolet_test_support::limit();
    let settings = with_disk(Server::builder().data_dir("/data"), Arc::new(disk.clone()));
    let server = settings.start().await.expect("a server");
    let client = Client::options().connect(server.in_process()).await.expect("a client");
    (server, client)
}

/// The bytes of a snapshot of a server.
async fn snapshot_of(server: &Server) -> Vec<u8> {
    let mut taken = server.observer().take_snapshot(Path::new("/nowhere")).await.expect("a snapshot");
    let mut bytes = Vec::new();
    while let Some(piece) = taken.read().await.expect("a piece") {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes.len() as u64, taken.size());
    bytes
}

/// A snapshot with `/both` and `/new`.
async fn new_state() -> Vec<u8> {
    let (server, client) = on(&SimulatedDisk::new(7)).await;
    client.create("/both", "new").await.expect("a create");
    client.create("/new", "").await.expect("a create");
    let bytes = snapshot_of(&server).await;
    server.shutdown().await;
    bytes
}

async fn restore(server: &Server, bytes: &[u8]) -> Result<Zxid, RestoreError> {
    let mut restore = server.observer().begin_restore(Path::new("/nowhere")).await?;
    for piece in bytes.chunks(100) {
        restore.write(piece.to_vec().into()).await?;
    }
    restore.finish().await
}

/// What the next process finds: of `/both`, `/old`, `/new` and `/after` those that are there.
fn found_on(disk: SimulatedDisk) -> String {
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (storage, recovered) =
        open(Arc::clone(&disk), StorageOptions::new("/data")).expect("a directory in order");
    drop(storage);
    let verification = verify(&*disk, &StorageOptions::new("/data"), &mut |_, _| {}).expect("a directory");
    assert!(verification.faults.is_empty(), "{:?}", verification.faults);
    let tree = recovered.tree;
    let both = tree.get("/both").and_then(|node| node.data()).expect("data");
    let mut found = String::from_utf8(both.to_vec()).expect("text");
    for path in ["/old", "/new", "/after"] {
        if tree.get(path).is_some() {
            found += path;
        }
    }
    found
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_restore_leaves_the_old_state_or_the_new_one() {
    let new = new_state().await;
    let disk = SimulatedDisk::new(1);
    let (server, client) = on(&disk).await;
    client.create("/both", "old").await.expect("a create");
    client.create("/old", "").await.expect("a create");
    disk.keep_history();
    restore(&server, &new).await.expect("restored");
    let restored = disk.steps();
    client.create("/after", "").await.expect("a client that comes back");
    let after = disk.steps();
    drop((server, client));

    let (mut old_ones, mut new_ones) = (0, 0);
    let history = disk.take_history();
    assert!(history.len() > 10, "{} steps", history.len());
    for (step, before) in history {
        let mut crashed = vec![("kill", before.fork().kill())];
        crashed.extend((0..8).map(|seed| ("power", before.fork().power_loss(seed))));
        for (how, disk) in crashed {
            let found = found_on(disk);
            match &*found {
                "old/old" => old_ones += 1,
                "new/new" | "new/new/after" => new_ones += 1,
                mixed => panic!("{mixed} after {how} at step {step}"),
            }
            // What was acknowledged is there.
            assert!(step <= restored || found != "old/old", "{how} at step {step}: {found}");
            assert!(step <= after || found == "new/new/after", "{how} at step {step}: {found}");
        }
    }
    assert!(old_ones > 20 && new_ones > 20, "{old_ones} old, {new_ones} new");
}

#[tokio::test]
async fn a_server_that_is_restored_before_it_has_a_log_starts_again() {
    let new = new_state().await;
    let disk = SimulatedDisk::new(1);
    let server = with_disk(Server::builder().data_dir("/data"), Arc::new(disk.clone()));
    let server = server.start().await.expect("a server");
    restore(&server, &new).await.expect("restored");
    assert_eq!(found_on(disk.fork().kill()), "new/new");
    server.shutdown().await;
    assert_eq!(found_on(disk), "new/new");
}

#[tokio::test]
async fn after_a_crash_snapshots_are_taken_and_restored_on_the_disk_of_the_next_process() {
    let zk = TestServer::builder().durable().start().await.expect("a server on an empty disk");
    zk.set("/old", "").await.expect("a write");
    zk.power_loss().await.expect("a server that starts again");
    let bytes = snapshot_of(zk.server()).await;
    zk.delete("/old").await.expect("a delete");
    restore(zk.server(), &bytes).await.expect("restored");
    assert!(zk.get("/old").is_some());
}

#[tokio::test]
async fn a_damaged_snapshot_of_a_restore_is_refused_and_no_older_one_taken_for_it() {
    let new = new_state().await;
    let disk = SimulatedDisk::new(1);
    let (server, client) = on(&disk).await;
    client.create("/old", "").await.expect("a create");
    restore(&server, &new).await.expect("restored");
    client.create("/after", "").await.expect("a create");
    drop((server, client));
    let disk = disk.kill();
    let dir = Path::new("/data/version-2");
    let newest = disk.list(dir).expect("a directory").into_iter().map(|entry| entry.name);
    let newest =
        newest.filter(|name| name.to_string_lossy().starts_with("snapshot.")).max().expect("a snapshot");
    disk.flip(dir.join(newest), 100, 1).expect("a bit");
    let refused = open(Arc::new(disk), StorageOptions::new("/data")).expect_err("no snapshot that will do");
    assert!(matches!(refused, StorageError::Damaged(_)), "{refused}");
}

#[tokio::test]
async fn what_is_no_whole_snapshot_changes_nothing() {
    let new = new_state().await;
    let disk = SimulatedDisk::new(1);
    let (server, client) = on(&disk).await;
    client.create("/old", "").await.expect("a create");
    let mut broken = vec![Vec::new(), b"no snapshot".to_vec(), [&new[..], b"more"].concat()];
    // Without its last 21 bytes, the section of the last zxid, it is a snapshot of an older server.
    broken.extend([1, 20, 22, 60, new.len() - 3].map(|cut| new[..new.len() - cut].to_vec()));
    for at in (0..new.len()).step_by(17).filter(|at| !(8..16).contains(at)) {
        let mut flipped = new.clone();
        flipped[at] ^= 0x10;
        broken.push(flipped);
    }
    for bytes in broken {
        let outcome = restore(&server, &bytes).await;
        assert!(matches!(outcome, Err(RestoreError::Refused(_))), "{outcome:?} to {} bytes", bytes.len());
    }
    // The same connection, the same state.
    client.get_data("/old").await.expect("the old state");
    assert_eq!(server.observer().connections().await.expect("a server").len(), 1);
    assert!(!disk.tree().contains("restore"), "{}", disk.tree());
    server.shutdown().await;
}

#[tokio::test]
async fn clients_come_back_in_their_sessions_and_learn_of_everything_that_they_watch() {
    let disk = SimulatedDisk::new(1);
    let (server, client) = on(&disk).await;
    client.create("/data", "1").await.expect("a create");
    client.create("/parent", "").await.expect("a create");
    client.create("/mine", "").ephemeral().await.expect("an ephemeral");
    let old = snapshot_of(&server).await;
    let before = server.observer().summary().await.expect("a server").zxid;
    client.set_data("/data", "2").await.expect("a write");
    client.create("/parent/child", "").await.expect("a create");
    client.create("/later", "").ephemeral().await.expect("an ephemeral");
    client.delete("/mine").await.expect("a delete");
    let session = client.session_id();
    let (_, _, data) = client.get_data("/data").watch().await.expect("data");
    let (_, _, children) = client.get_children("/parent").watch().await.expect("children");
    let (_, gone) = client.exists("/mine").watch().await.expect("an answer");
    let (_, later) = client.exists("/later").watch().await.expect("an answer");
    let seen = server.observer().summary().await.expect("a server").zxid;

    assert_eq!(restore(&server, &old).await.expect("restored"), before);
    assert_eq!(data.await.expect("an event").kind, EventType::NodeDataChanged);
    assert_eq!(children.await.expect("an event").kind, EventType::NodeChildrenChanged);
    assert_eq!(gone.await.expect("an event").kind, EventType::NodeCreated);
    assert_eq!(later.await.expect("an event").kind, EventType::NodeDeleted);
    assert_eq!(&client.get_data("/data").await.expect("data").0[..], b"1");
    assert_eq!(client.session_id(), session);
    let stat = client.set_data("/data", "3").await.expect("a write");
    assert!(stat.mzxid > seen, "zxids go on: {} after {seen}", stat.mzxid);
    server.shutdown().await;
}

#[tokio::test]
async fn ephemerals_of_sessions_that_nobody_has_go_and_those_of_the_snapshot_wait_for_their_timeout() {
    let (other, _first) = on(&SimulatedDisk::new(2)).await;
    // Of two first sessions in the same millisecond, on servers without a transaction, the ids are the same.
    let owner = Client::options().connect(other.in_process()).await.expect("another client");
    owner.create("/in-process", "").ephemeral().await.expect("an ephemeral");
    let bytes = snapshot_of(&other).await;
    let disk = SimulatedDisk::new(1);
    let (server, client) = on(&disk).await;
    restore(&server, &bytes).await.expect("restored");
    // Its session was one of the other process.
    assert!(client.exists("/in-process").await.expect("an answer").is_none());
    assert_eq!(server.observer().sessions().await.expect("a server").len(), 1);
    drop((server, client));
    let disk: Arc<dyn Disk> = Arc::new(disk.kill());
    let (_storage, recovered) = open(disk, StorageOptions::new("/data")).expect("a directory in order");
    assert!(recovered.tree.get("/in-process").is_none(), "its end is in the log");
}

#[tokio::test]
async fn a_snapshot_that_is_written_meanwhile_is_whole_or_given_up() {
    let new = new_state().await;
    for yields in (0..16).step_by(2) {
        let disk = SimulatedDisk::new(1);
        let (server, client) = on(&disk).await;
        client.create("/both", "old").await.expect("a create");
        let creates: Vec<_> = (0..700).map(|n| client.create(format!("/{n}"), "").send()).collect();
        for create in creates {
            create.await.expect("a create");
        }
        let restoring = async {
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            restore(&server, &new).await.expect("restored");
        };
        let (snapshot, ()) = tokio::join!(server.snapshot(), restoring);
        snapshot.expect("a snapshot of either state");
        client.create("/after", "").await.expect("a create");
        drop((server, client));
        assert_eq!(found_on(disk.kill()), "new/new/after", "{yields} yields");
    }
}

/// A snapshot of a member of an ensemble has zxids that a server alone does not reach.
#[tokio::test]
async fn zxids_go_on_from_the_greater_of_both() {
    let zk = TestServer::builder().durable().start().await.expect("a server");
    for n in 0..100 {
        zk.set("/a", n.to_string()).await.expect("a write");
    }
    let ahead = snapshot_of(zk.server()).await;
    let (server, client) = on(&SimulatedDisk::new(1)).await;
    let restored = restore(&server, &ahead).await.expect("restored");
    let stat = client.create("/b", "").await.expect("a create").stat;
    assert!(stat.czxid > restored, "{stat:?} after {restored}");
    assert!(server.observer().summary().await.expect("a server").zxid > restored);
    server.shutdown().await;
}
