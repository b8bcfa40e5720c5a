//! Sessions of clients in the server's own process. They end with it: what starts next waits for none of them.

use std::time::Duration;

use zoolet::client::Client;
use zoolet::recipes::{Election, Lock};
use zoolet::server::{Server, ServerBuilder};
use zoolet::testing::{DiskExt as _, SimulatedDisk};

fn settings(disk: &SimulatedDisk) -> ServerBuilder {
    Server::builder().data_dir("/data").simulated_disk(disk)
}

async fn in_process(server: &Server) -> Client {
    Client::connect(server.in_process()).await.expect("a session")
}

#[tokio::test(start_paused = true)]
async fn a_program_that_was_killed_leads_again_as_soon_as_it_has_started() {
    let mut disk = SimulatedDisk::new(1);
    for round in 0..20u64 {
        let server = settings(&disk).start().await.expect("a server");
        let client = in_process(&server).await;
        let began = tokio::time::Instant::now();
        let leadership = Election::new(&client, "/leader").campaign("me").await.expect("the leadership");
        let lock = Lock::new(&client, "/lock").try_acquire().await.expect("an answer");
        assert!(lock.is_some(), "round {round}: held by a session of the process before");
        assert!(began.elapsed() < Duration::from_secs(1), "round {round}: {:?}", began.elapsed());
        // The process ends before any destructor runs.
        disk = if round % 2 == 0 { disk.kill() } else { disk.power_loss(round) };
        drop((leadership, lock, client, server));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_of_the_network_outlives_the_process_with_its_ephemerals() {
    let disk = SimulatedDisk::new(1);
    let server = settings(&disk).bind("127.0.0.1:0").start().await.expect("a server");
    let address = server.connect_string();
    let (here, there) = (in_process(&server).await, Client::connect(&address).await.expect("a session"));
    here.create("/here", "").ephemeral().await.expect("an ephemeral");
    there.create("/there", "").ephemeral().await.expect("an ephemeral");
    let disk = disk.kill();
    drop((server, here));
    let server = settings(&disk).bind(&address).start().await.expect("the next server");
    let here = in_process(&server).await;
    assert_eq!(here.get_children("/").await.expect("the children").0, ["there", "zookeeper"]);
    there.set_data("/there", "as before").await.expect("a write in the same session");
}

/// A program that changes from one way to the other leaves sessions of both.
#[tokio::test(start_paused = true)]
async fn a_session_is_what_it_was_opened_as_however_it_is_resumed_and_whoever_starts_next() {
    let disk = SimulatedDisk::new(1);
    let server = settings(&disk).bind("127.0.0.1:0").start().await.expect("a server");
    let client = in_process(&server).await;
    client.create("/in-process", "").ephemeral().await.expect("an ephemeral");
    let disk = disk.kill();
    drop((server, client));
    // By TCP only: what was left from before ends all the same.
    let server = settings(&disk).bind("127.0.0.1:0").start().await.expect("the next server");
    let client = Client::connect(server.connect_string()).await.expect("a session");
    assert_eq!(client.exists("/in-process").await.expect("an answer"), None);
    client.create("/tcp", "").ephemeral().await.expect("an ephemeral");
    let disk = disk.kill();
    drop((server, client));
    // In process again: the session of the network has its timeout.
    let server = settings(&disk).start().await.expect("the next server");
    let client = in_process(&server).await;
    assert!(client.exists("/tcp").await.expect("an answer").is_some());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(client.exists("/tcp").await.expect("an answer"), None);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_in_process_is_in_the_log_and_happens_once() {
    let disk = SimulatedDisk::new(1);
    let server = settings(&disk).start().await.expect("a server");
    let client = in_process(&server).await;
    client.create("/here", "").ephemeral().await.expect("an ephemeral");
    let before = client.last_zxid();
    let disk = disk.kill();
    drop((server, client));
    // One transaction for its end, and one for each new session.
    let mut disk = disk;
    for round in 1..=3 {
        let server = settings(&disk).start().await.expect("the next server");
        let client = in_process(&server).await;
        assert_eq!(client.exists("/here").await.expect("an answer"), None);
        assert_eq!(client.last_zxid().0, before.0 + 2 * round);
        let next = disk.power_loss(round as u64);
        drop((server, client));
        disk = next;
    }
}
