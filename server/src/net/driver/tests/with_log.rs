//! Turns of a server with a log.

use std::pin::Pin;
use std::task::Poll;

use tokio::sync::mpsc::UnboundedReceiver;
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::StorageOptions;

use super::*;
use crate::durable::{Amount, DurableConfig, Work};
use crate::net::flow::buffer::SendBuffer;

/// What the log does with its queue, which is open as long as its end lives.
struct Log {
    queue: Arc<CommitQueue>,
    _end: UnboundedReceiver<Work>,
}

impl Log {
    /// Makes everything up to a transaction durable, and lets its messages leave.
    fn advance(&self, turns: &Turns, durable: i64, bytes: usize) {
        let txns = (durable - self.queue.durable().0).unsigned_abs();
        self.queue.advance(0, Zxid(durable), Amount { txns, bytes }, |_| ());
        turns.release_durable();
    }
}

/// A server with a log that does nothing, and two connections with sessions, which are durable.
async fn with_log() -> (Driver, Arc<Turns>, [Registration; 2], Log) {
    let (queue, end) = CommitQueue::new(Zxid(0));
    let config =
        DurableConfig { disk: Arc::new(SimulatedDisk::new(1)), options: StorageOptions::new("/data") };
    let gate = DurabilityGate::new(Arc::clone(&queue), config);
    let clock = Clock::manual();
    let mut core = CoreConfig::default();
    core.logged = true;
    let core = Box::new(Core::new(core, Millis(clock.unix_millis())));
    let (driver, turns) = server_of(clock, core, Some((gate, Arc::clone(&queue))));
    let members = sessions(&driver, &turns).await;
    let log = Log { queue, _end: end };
    log.advance(&turns, 2, 0);
    (driver, turns, members, log)
}

/// Whether a future is ready when it is polled once.
async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// How many bytes of messages may leave now. They are sent.
async fn leaving(member: &Registration) -> usize {
    let mut bytes = SendBuffer::default();
    is_ready(pin!(member.peer.outbox.next(&mut bytes))).await;
    let leaving = bytes.len();
    assert!(!is_ready(pin!(member.peer.outbox.next(&mut bytes))).await);
    leaving
}

/// Lets a minute pass, and returns whether a connection still has a session then.
fn survives(turns: &Turns, member: &Registration) -> bool {
    turns.clock.advance(Duration::from_secs(60)).expect("a manual clock");
    turns.take(|engine, now| engine.take_due(now));
    locked(&turns.engine).bus.core().session_of(member.id).is_some()
}

#[tokio::test]
async fn each_reply_of_a_batch_leaves_with_the_transaction_that_it_waits_for() {
    let (_driver, turns, [member, writer], log) = with_log().await;
    leaving(&member).await;
    assert!(turns.submit(&writer, &mut requests(&set_root(0), 1)).await);
    let mut batch = requests(&read_root(), 1);
    batch.append(&mut requests(&set_root(0), 1));
    assert!(turns.submit(&member, &mut batch).await);
    for durable in [3, 4] {
        assert_eq!(leaving(&member).await, 0);
        log.advance(&turns, durable, 0);
        assert_ne!(leaving(&member).await, 0, "with transaction {durable}");
    }
}

#[tokio::test]
async fn a_session_does_not_expire_while_its_write_waits_for_room_in_the_queue_of_the_log() {
    let (_driver, turns, [member, silent], log) = with_log().await;
    let much = 33 << 20;
    assert!(turns.submit(&member, &mut requests(&set_root(much), 1)).await);
    let mut batch = requests(&set_root(0), 1);
    let mut submitting = pin!(turns.submit(&member, &mut batch));
    assert!(!is_ready(submitting.as_mut()).await);
    assert!(survives(&turns, &member) && !survives(&turns, &silent));
    log.advance(&turns, 3, much);
    assert!(submitting.await);
    assert!(!survives(&turns, &member), "it is read again");
}

#[tokio::test]
async fn requests_that_wait_for_room_in_the_queue_of_the_log_are_outstanding_until_their_connection_is_closed()
 {
    let (_driver, turns, [member, other], _log) = with_log().await;
    let outstanding = || locked(&turns.engine).bus.stats.outstanding();
    assert!(turns.submit(&member, &mut requests(&set_root(33 << 20), 1)).await);
    let mut batch = requests(&set_root(0), 5);
    let mut submitting = Box::pin(turns.submit(&other, &mut batch));
    assert!(!is_ready(submitting.as_mut()).await);
    assert_eq!(outstanding(), 6);
    drop(submitting);
    assert_eq!(outstanding(), 1);
}

#[tokio::test]
async fn a_session_that_exists_is_resumed_although_the_queue_of_the_log_is_full() {
    let (driver, turns, [member, _], _log) = with_log().await;
    assert!(turns.submit(&member, &mut requests(&set_root(33 << 20), 1)).await);
    let other = enter(&driver);
    for (session, resumed) in [(0, false), (1, true)] {
        let mut batch = connect();
        if let Input::Connect(request) = &mut batch[0] {
            request.session = SessionId(session);
        }
        assert_eq!(is_ready(pin!(turns.submit(&other, &mut batch))).await, resumed);
    }
}

#[tokio::test]
async fn a_session_does_not_expire_while_its_connection_is_not_read_for_replies_that_wait_for_the_log() {
    let (_driver, turns, [member, _], log) = with_log().await;
    leaving(&member).await;
    let mut batch = requests(&set_root(300 << 10), 1);
    batch.append(&mut requests(&read_root(), 1));
    assert!(turns.submit(&member, &mut batch).await);
    let outbox = &member.peer.outbox;
    let (mut writing, mut reading) = (pin!(pending()), pin!(outbox.ready_for_requests()));
    let mut loops = pin!(poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())));
    assert!(!is_ready(loops.as_mut()).await && survives(&turns, &member));
    log.advance(&turns, 3, 0);
    assert!(!is_ready(loops.as_mut()).await && !survives(&turns, &member), "its client takes nothing");
}

#[tokio::test]
async fn a_client_that_takes_nothing_expires_although_some_of_its_messages_wait_for_the_log() {
    let (_driver, turns, [member, _], log) = with_log().await;
    let mut batch = requests(&set_root(300 << 10), 1);
    batch.append(&mut requests(&read_root(), 1));
    assert!(turns.submit(&member, &mut batch).await);
    log.advance(&turns, 3, 0);
    member.peer.state.slow.store(false, Ordering::Relaxed);
    assert!(turns.submit(&member, &mut requests(&set_root(0), 1)).await);
    let outbox = &member.peer.outbox;
    let (mut writing, mut reading) = (pin!(pending()), pin!(outbox.ready_for_requests()));
    let mut loops = pin!(poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())));
    assert!(!is_ready(loops.as_mut()).await && !survives(&turns, &member));
}
