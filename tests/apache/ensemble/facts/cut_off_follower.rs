//! A follower that is cut off from its leader and has not noticed yet: what its clients believe in that time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use zoolet::{Client, HoldState, Lock};

use crate::ensemble::begin;
use crate::ensemble::line::{State, relay};
use crate::ensemble::members::{Ensemble, MEMBERS, TICK};

const SESSION: Duration = Duration::from_secs(3);
const SYNC_LIMIT: u32 = 8;
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run ensemble"]
async fn a_client_at_a_follower_that_is_cut_off_never_holds_beside_the_next_holder() {
    let mut rng = begin();
    let settings = format!("syncLimit={SYNC_LIMIT}\n");
    let mut ensemble = Ensemble::start_with("follower-cut-off", &mut rng, &settings, &[]).await;
    let leader = ensemble.wait_until_served().await;
    let follower = (leader + 1) % MEMBERS;
    // It follows its leader by a way that can be held up.
    let way = watch::Sender::<State>::default();
    ensemble.kill(follower);
    let config = fs::read_to_string(ensemble.config(follower)).expect("settings");
    let mut lines = Vec::new();
    for line in config.lines() {
        let ports = line.strip_prefix("server.").and_then(|rest| rest.split_once("=127.0.0.1:"));
        match ports.and_then(|(id, ports)| Some((id.parse::<usize>().ok()?, ports.split_once(':')?))) {
            Some((id, (quorum, election))) if id != follower + 1 => {
                let target = SocketAddr::from((Ipv4Addr::LOCALHOST, quorum.parse().expect("a port")));
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
                let detour = listener.local_addr().expect("a bound port").port();
                tokio::spawn(relay(listener, target, way.clone()));
                lines.push(format!("server.{id}=127.0.0.1:{detour}:{election}"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    fs::write(ensemble.config(follower), lines.join("\n")).expect("settings");
    ensemble.restart(follower);
    assert_eq!(ensemble.wait_until_served().await, leader);

    let options = || Client::options().session_timeout(SESSION);
    let holder = options().connect(ensemble.address(follower).to_string()).await.expect("a session");
    let next = options().connect(ensemble.address(leader).to_string()).await.expect("a session");
    let guard = Lock::new(&holder, "/lock").acquire().await.expect("the lock");
    let waiting = tokio::spawn(Lock::new(&next, "/lock").acquire().into_future());
    way.send_modify(State::hold_all);
    let cut = Instant::now();
    let next = timeout(LIMIT, waiting).await.expect("it is expired").expect("no panic").expect("the lock");
    let (state, left) = (guard.state(), guard.lease_left());
    println!(
        "syncLimit {:?}, session {SESSION:?}: the next one holds {:?} after the cut; the first is {state:?} then, its \
         lease ends {left:?} later",
        TICK * SYNC_LIMIT,
        cut.elapsed()
    );
    assert!(next.token() > guard.token());
    // The session timeout is longer than the follower may be out of touch: it has closed the connection by now.
    assert_ne!(state, HoldState::Held);
    timeout(LIMIT, guard.lost()).await.expect("the first learns it");
}
