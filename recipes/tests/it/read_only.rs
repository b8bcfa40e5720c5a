//! A holder whose session is taken up by a server that is cut off from its ensemble. The simulated ensemble has no such server, as one
//! of 3.9 takes up local sessions alone; here the handshake is marked on its way to the client.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy, duplex, split};
use zoolet_client::{Client, Clock, SessionState};
use zoolet_fixture::FixtureExt as _;
use zoolet_recipes::{HoldState, Lock, LostReason};
use zoolet_server::InProcessStream;
use zoolet_test_support::{millis, secs};

use crate::common::{DIR, TIMEOUT, World, pass_in_steps, settle, world_on};

/// What a relay does to connections.
#[derive(Default)]
struct Place {
    /// Whether the server says that it is cut off, and no other can be reached.
    is_cut_off: AtomicBool,
    connections: AtomicUsize,
}

type CutOff = Arc<Place>;

/// Passes a connection on, with the last byte of the reply to the handshake as `cut_off` says.
async fn relay(client: DuplexStream, server: InProcessStream, cut_off: CutOff) -> io::Result<()> {
    let (mut client_read, mut client_write) = split(client);
    let (mut server_read, mut server_write) = split(server);
    let replies = async {
        let len = server_read.read_u32().await?;
        let mut welcome = vec![0; len as usize];
        server_read.read_exact(&mut welcome).await?;
        *welcome.last_mut().expect("a reply") = cut_off.is_cut_off.load(Relaxed).into();
        client_write.write_u32(len).await?;
        client_write.write_all(&welcome).await?;
        copy(&mut server_read, &mut client_write).await
    };
    // Whichever ends first drops both.
    let ended = tokio::select! {
        ended = replies => ended.map(drop),
        ended = copy(&mut client_read, &mut server_write) => ended.map(drop),
    };
    cut_off.connections.fetch_sub(1, Relaxed);
    ended
}

async fn holder(world: &World, cut_off: &CutOff) -> Client {
    let (connect, cut_off) = (world.server.in_process(), Arc::clone(cut_off));
    let through_relay = move || -> Ready<io::Result<DuplexStream>> {
        // A second connection would take the session from the first.
        let is_open = !cut_off.is_cut_off.load(Relaxed) || cut_off.connections.load(Relaxed) == 0;
        let Some(Ok(server)) = is_open.then(|| connect().into_inner()) else {
            return ready(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        cut_off.connections.fetch_add(1, Relaxed);
        let (client, ours) = duplex(1 << 16);
        tokio::spawn(relay(ours, server, Arc::clone(&cut_off)));
        ready(Ok(client))
    };
    world.options().read_only(true).connect(through_relay).await.unwrap()
}

/// Has the session of a client taken up by a server that is cut off.
async fn cut_off(world: &World, client: &Client, cut_off: &CutOff) {
    cut_off.is_cut_off.store(true, Relaxed);
    world.server.fixture().disconnect(client.session_id()).await.unwrap();
    settle(|| async { client.state() == SessionState::ConnectedReadOnly }).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_suspect_while_its_server_is_cut_off_and_held_again_with_another() {
    let (world, marked) = (world_on(Clock::manual()).await, CutOff::default());
    let zk = holder(&world, &marked).await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    let since = world.clock.now();
    cut_off(&world, &zk, &marked).await;
    settle(|| async { guard.state() == HoldState::Suspect { since } }).await;
    // It stays so while the server answers pings, and reads that show the znode of the lock.
    pass_in_steps(&world.clock, TIMEOUT / 2).await;
    assert!(zk.exists(guard.node()).await.unwrap().is_some());
    assert_eq!(guard.state(), HoldState::Suspect { since });
    marked.is_cut_off.store(false, Relaxed);
    // The client asks others for one that takes writes.
    pass_in_steps(&world.clock, secs(2)).await;
    assert_eq!((zk.state(), guard.state()), (SessionState::Connected, HoldState::Held));
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_that_is_cut_off_answers_does_not_extend_the_lease() {
    let (world, marked) = (world_on(Clock::manual()).await, CutOff::default());
    let zk = holder(&world, &marked).await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    let left = guard.lease_left();
    cut_off(&world, &zk, &marked).await;
    pass_in_steps(&world.clock, left - millis(1)).await;
    zk.exists(guard.node()).await.unwrap();
    assert!(matches!(guard.state(), HoldState::Suspect { .. }), "{:?}", guard.state());
    pass_in_steps(&world.clock, millis(1)).await;
    assert_eq!(guard.state(), HoldState::Lost(LostReason::LeaseElapsed));
    assert_eq!(zk.state(), SessionState::ConnectedReadOnly);
}
