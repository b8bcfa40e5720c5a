//! Every timer of a client on a manual clock. tokio's own time is paused, so a timer that ran on it would fire at once.

use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::DuplexStream;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Clock, ConnectOptions, Error, SessionState, Stat};
use zoolet_proto::{Reply, Request};

use crate::common::{
    Listener, Peer, TIMEOUT, Watched, advance_to_next, at_once, connected_with, listener, pass, until,
};

const MS: Duration = Duration::from_millis(1);
const THIRD: Duration = Duration::from_secs(TIMEOUT.as_secs() / 3);

fn options() -> (ConnectOptions, Clock) {
    let clock = Clock::manual();
    (Client::options().clock(clock.clone()).seed(7), clock)
}

async fn connected() -> (Client, Clock, Peer, Listener) {
    let (options, clock) = options();
    let (zk, peer, listener) = connected_with(options).await;
    (zk, clock, peer, listener)
}

/// The next connection, without which the test would wait for ever: tokio's time goes on when all wait.
async fn accept(listener: &mut Listener) -> Peer {
    tokio::time::timeout(Duration::from_secs(3600), listener.accept()).await.expect("a client that connects")
}

/// What the client has sent by now.
async fn sent(peer: &mut Peer) -> Option<Request> {
    at_once(peer.next()).await.map(|next| next.expect("a client that has not hung up").1)
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_on_the_wire_once_every_task_woken_at_a_third_of_the_timeout_has_run() {
    let (zk, clock, mut peer, _listener) = connected().await;
    let start = clock.now();
    for ping in 1..=3 {
        pass(&clock, THIRD - MS).await;
        assert_eq!(sent(&mut peer).await, None);
        pass(&clock, MS).await;
        assert_eq!(sent(&mut peer).await, Some(Request::Ping));
        peer.reply(-2, Reply::Empty).await;
        until(|| zk.last_contact() == start + THIRD * ping).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_for_a_postponed_deadline_fires_for_nothing_and_is_handled_nevertheless() {
    let (zk, clock, mut peer, _listener) = connected().await;
    pass(&clock, THIRD - MS).await;
    let read = zk.get_data("/a").send();
    let (xid, _) = peer.next().await.expect("a request");
    peer.reply(xid, Reply::Data(None, Stat::default())).await;
    read.await.expect("data");
    // When the ping had been due.
    assert_eq!(advance_to_next(&clock).await, Some(MS));
    assert_eq!(sent(&mut peer).await, None);
    // When it is due now.
    assert_eq!(advance_to_next(&clock).await, Some(THIRD - MS));
    assert_eq!(sent(&mut peer).await, Some(Request::Ping));
}

#[tokio::test(start_paused = true)]
async fn a_client_on_another_clock_ignores_tokios_time() {
    let (zk, clock, mut peer, _listener) = connected().await;
    let read = zk.get_data("/a").timeout(MS).send();
    peer.next().await.expect("a request");
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(sent(&mut peer).await, None, "no ping");
    assert!(at_once(read).await.is_none(), "no timeout");
    assert_eq!(zk.state(), SessionState::Connected);
    assert_eq!(zk.clock().now(), clock.now());
}

#[tokio::test(start_paused = true)]
async fn the_systems_clock_runs_also_if_tokios_is_paused() {
    let (zk, mut peer, _listener) = connected_with(Client::options().clock(Clock::system())).await;
    let reply = zk.get_data("/a").timeout(5 * MS).send();
    peer.next().await.expect("a request");
    let outcome = tokio::time::timeout(Duration::from_secs(3600), reply).await.expect("an outcome in time");
    assert!(matches!(outcome, Err(Error::Timeout(_))), "{outcome:?}");
    assert_eq!(zk.state(), SessionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_request_has_the_timeout_it_is_given() {
    let (options, clock) = options();
    let (zk, mut peer, _listener) = connected_with(options.request_timeout(500 * MS)).await;
    for (call, patience) in [(zk.get_data("/a"), 500 * MS), (zk.get_data("/a").timeout(20 * MS), 20 * MS)] {
        let mut reply = call.send();
        peer.next().await.expect("a request");
        pass(&clock, patience - MS).await;
        assert!(at_once(&mut reply).await.is_none());
        pass(&clock, MS).await;
        let outcome = at_once(&mut reply).await.expect("an outcome");
        assert!(matches!(outcome, Err(Error::Timeout(_))), "{outcome:?}");
    }
    let forever = zk.get_data("/a").timeout(Duration::MAX).send();
    assert!(at_once(forever).await.is_none(), "more time than there is is no limit");
}

#[tokio::test(start_paused = true)]
async fn silence_of_two_thirds_of_the_timeout_ends_the_connection() {
    let (zk, clock, mut peer, mut listener) = connected().await;
    pass(&clock, 2 * THIRD - MS).await;
    assert_eq!(sent(&mut peer).await, Some(Request::Ping));
    assert_eq!(zk.state(), SessionState::Connected);
    pass(&clock, MS).await;
    assert_eq!(zk.state(), SessionState::Disconnected);
    assert_eq!(at_once(peer.next()).await, Some(None), "it has hung up");
    let _peer = accept(&mut listener).await;
    until(|| zk.state() == SessionState::Connected).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_without_confirmation_fails_after_two_thirds_of_the_timeout_and_no_timer_remains() {
    let (zk, clock, mut peer, _listener) = connected().await;
    let mut close = zk.close();
    assert_eq!(peer.next().await.expect("a request").1, Request::CloseSession);
    pass(&clock, 2 * THIRD - MS).await;
    assert!(at_once(&mut close).await.is_none());
    pass(&clock, MS).await;
    let outcome = at_once(&mut close).await.expect("an outcome");
    assert!(matches!(outcome, Err(Error::ConnectionLoss(_))), "{outcome:?}");
    assert_eq!(zk.state(), SessionState::Closed);
    assert_eq!(advance_to_next(&clock).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_fired_timer_counts_as_pending_until_what_was_due_is_written() {
    let (options, clock) = options();
    let (connect, mut listener) = listener();
    let pending = Arc::new(Mutex::new(Vec::new()));
    let connect = {
        let (clock, pending) = (clock.clone(), Arc::clone(&pending));
        move || {
            let (clock, pending) = (clock.clone(), Arc::clone(&pending));
            let before_write = move || {
                pending.lock().expect("no panic").push(clock.pending_wakeups());
                Ok(())
            };
            ready(connect().into_inner().map(|stream| Watched { stream, before_write }))
        }
    };
    let (zk, mut peer) = tokio::join!(options.connect(connect), listener.accept());
    let zk = zk.expect("a session");
    pass(&clock, THIRD).await;
    assert_eq!(sent(&mut peer).await, Some(Request::Ping));
    drop(peer);
    until(|| zk.state() == SessionState::Disconnected).await;
    let _peer = accept(&mut listener).await;
    let seen = pending.lock().expect("no panic").clone();
    assert_eq!(seen, [1, 1, 0], "handshake of a client that begins, ping, handshake that no alarm led to");
}

/// When a connection was asked for, counted from the start.
type Attempts = Arc<Mutex<Vec<Duration>>>;

/// A connector that gives the streams of `listener`, as many as `open` says, then refuses; it notes when it was asked.
fn noting(
    clock: &Clock,
    open: usize,
    attempts: &Attempts,
) -> (impl Fn() -> Ready<io::Result<DuplexStream>> + Send + 'static, Listener) {
    let (connect, listener) = listener();
    let (clock, start, attempts) = (clock.clone(), clock.now(), Arc::clone(attempts));
    let connect = move || {
        let mut attempts = attempts.lock().expect("no panic");
        attempts.push(clock.now() - start);
        if attempts.len() <= open { connect() } else { ready(Err(io::Error::other("no route"))) }
    };
    (connect, listener)
}

#[tokio::test(start_paused = true)]
async fn back_off_follows_the_clients_clock_and_a_request_waits_for_the_session_timeout() {
    let (options, clock) = options();
    let attempts = Attempts::default();
    let (connect, mut listener) = noting(&clock, 1, &attempts);
    let (zk, peer) = tokio::join!(options.connect(connect), listener.accept());
    let zk = zk.expect("a session");
    drop(peer);
    until(|| zk.state() == SessionState::Disconnected).await;
    let start = clock.now();
    let mut waiting = zk.get_data("/a").send();
    // The driver handles it before the clock advances.
    tokio::task::yield_now().await;
    while advance_to_next(&clock).await.is_some() && clock.now() < start + TIMEOUT {
        assert!(at_once(&mut waiting).await.is_none());
    }
    assert_eq!(clock.now(), start + TIMEOUT);
    let outcome = at_once(&mut waiting).await.expect("an outcome");
    assert!(matches!(outcome, Err(Error::ConnectionLoss(_))), "{outcome:?}");

    let attempts = attempts.lock().expect("no panic");
    let pauses: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (round, pause) in pauses.iter().enumerate() {
        let most = (50 * MS * 2u32.pow(round.min(16) as u32)).min(TIMEOUT / 6);
        let least = if round == 0 { Duration::ZERO } else { most / 2 };
        assert!((least..=most).contains(pause), "pause {round} of {pauses:?}");
    }
    assert!(pauses.len() > 6, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn connecting_fails_at_its_timeout_by_the_clients_clock_and_no_timer_remains() {
    let (options, clock) = options();
    let attempts = Attempts::default();
    let (connect, _listener) = noting(&clock, 0, &attempts);
    let start = clock.now();
    let connecting = tokio::spawn(options.connect_timeout(Duration::from_secs(5)).connect(connect));
    until(|| !attempts.lock().expect("no panic").is_empty()).await;
    while clock.now() < start + Duration::from_secs(5) {
        assert!(!connecting.is_finished(), "{:?}", clock.now() - start);
        advance_to_next(&clock).await.expect("an attempt or the end");
    }
    assert_eq!(clock.now(), start + Duration::from_secs(5));
    until(|| connecting.is_finished()).await;
    let error = connecting.await.expect("no panic").expect_err("no server");
    assert_eq!(error.to_string(), "connect: no session within 5s; no route");
    assert!(attempts.lock().expect("no panic").len() > 3, "{attempts:?}");
    assert_eq!(advance_to_next(&clock).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_attempt_times_out_by_the_clients_clock() {
    let (options, clock) = options();
    let (connect, mut listener) = listener();
    let connecting = tokio::spawn(options.session_timeout(TIMEOUT).connect(connect));
    let _silent = listener.connection().await;
    pass(&clock, TIMEOUT / 2 - MS).await;
    assert!(at_once(listener.connection()).await.is_none());
    pass(&clock, MS).await;
    pass(&clock, 50 * MS).await;
    let _peer = accept(&mut listener).await;
    connecting.await.expect("no panic").expect("a session");
}
