//! That a fixture is not to be noticed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use zoolet_proto::SessionId;
use zoolet_server::{Clock, InProcessStream};

use crate::common::*;
use crate::faults::random::settings;

/// Sends a random load to a server, with or without a fixture. Gives every byte that came back, and what the server
/// says of itself.
async fn load(seed: u64, with_fixture: bool) -> (Vec<Vec<u8>>, Vec<String>) {
    let clock = Clock::manual();
    let server = settings().clock(clock.clone()).tick_time(TICK).start().await.expect("a server that starts");
    let fixture = with_fixture.then(|| server.fixture());
    let mut rng = StdRng::seed_from_u64(seed);
    let mut peers: Vec<Peer<InProcessStream>> = Vec::new();
    let (mut heard, mut created) = (Vec::new(), 0);
    let rest = async || {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    };
    for _ in 0..250 {
        match rng.random_range(0..20) {
            0 => {
                let mut peer = Peer::over(server.in_process()().into_inner().expect("a connection"));
                peer.hello(SessionId(0), &bytes::Bytes::new()).await;
                peers.push(peer);
                heard.push(Vec::new());
            }
            1 => clock.advance(millis(rng.random_range(1..3000))).expect("a manual clock"),
            _ if peers.is_empty() => {}
            2 => {
                let at = rng.random_range(0..peers.len());
                let _ = tokio::io::AsyncWriteExt::shutdown(&mut peers[at].stream).await;
            }
            _ => {
                let at = rng.random_range(0..peers.len());
                let mut bytes = bytes::BytesMut::new();
                for _ in 0..rng.random_range(1..60) {
                    let path = format!("/{}", rng.random_range(0..8));
                    created += 1;
                    let request = match rng.random_range(0..10) {
                        0..2 => ephemeral(&format!("/new-{}", created % 40)),
                        2 => sequential(&format!("{path}/s-")),
                        3 => create(&path),
                        4 => set(&path, "x"),
                        5 => delete(&path),
                        6 => watch(&path),
                        7 => watch_children("/"),
                        8 => multi([set(&path, "y"), create(&format!("{path}/m-{created}"))]),
                        _ => ping(),
                    };
                    peers[at].encode(request, &mut bytes);
                }
                let _ = tokio::io::AsyncWriteExt::write_all(&mut peers[at].stream, &bytes).await;
            }
        }
        rest().await;
        for (peer, heard) in peers.iter_mut().zip(&mut heard) {
            heard.extend(peer.drained().await);
        }
    }
    let mut words = Vec::new();
    for word in ["srvr", "mntr", "cons", "wchs", "dump"] {
        let mut peer = Peer::over(server.in_process()().into_inner().expect("a connection"));
        peer.write(word.as_bytes()).await;
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut peer.stream, &mut text).await.expect("text");
        words.extend(text.lines().filter(|line| !line.contains("file_descriptor")).map(str::to_owned));
    }
    drop(fixture);
    server.shutdown().await;
    (heard, words)
}

// Paused, so that the time a connection lingers on does not depend on the machine.
#[tokio::test(start_paused = true)]
async fn a_fixture_without_faults_changes_nothing_that_a_client_or_an_operator_can_see() {
    for seed in 0..4 {
        let (plain, fixed) = (load(seed, false).await, load(seed, true).await);
        assert!(plain.0.iter().map(Vec::len).sum::<usize>() > 50_000, "seed {seed}: hardly any load");
        assert_eq!(plain.0, fixed.0, "seed {seed}: bytes");
        assert_eq!(plain.1, fixed.1, "seed {seed}: four-letter words");
    }
}
