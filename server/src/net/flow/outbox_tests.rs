//! The outbox without a connection.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use zoolet_proto::records::{OpResult, WatchedEvent};
use zoolet_proto::{EventType, KeeperState, Reply, ReplyHeader, Stat, Xid, Zxid};
use zoolet_server_core::{ConnId, Message, Recipients, SharedEvent};

use crate::net::flow::budget::SendBudget;
use crate::net::flow::buffer::SendBuffer;
use crate::net::flow::outbox::{Next, Outbox};
use crate::net::flow::queue::{Delivery, ReleaseRule};

fn outbox_of(limit: usize) -> Outbox {
    Outbox::new(limit, &Arc::default())
}

fn ping() -> Message {
    Message::Reply(ReplyHeader::ok(Xid::PING, Zxid(1)), Reply::Empty)
}

#[tokio::test]
async fn messages_before_a_close_are_sent_and_those_after_it_are_lost() {
    let outbox = outbox_of(1 << 20);
    outbox.push(
        [ping(), Message::Close { asked: false, reason: "" }, ping()].iter().map(Delivery::Message),
        false,
        ReleaseRule::AT_ONCE,
    );
    let mut bytes = SendBuffer::default();
    assert_eq!((outbox.next(&mut bytes).await, bytes.len()), (Next::SendLast, 20));
    assert_eq!(outbox.next(&mut bytes).await, Next::Finish { asked: false });
}

#[tokio::test]
async fn past_its_limit_an_outbox_closes_the_connection() {
    let outbox = outbox_of(30);
    let event = SharedEvent {
        to: Recipients::One(ConnId(1)),
        zxid: Zxid(1),
        kind: EventType::NodeCreated,
        path: "/a".into(),
    };
    for (message, count) in [(Delivery::Message(&ping()), 1), (Delivery::Event(&event), 0)] {
        assert_eq!(outbox.push([message].into_iter(), false, ReleaseRule::AT_ONCE).count, count);
    }
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
}

#[tokio::test]
async fn above_the_high_mark_there_is_no_room_until_it_is_sent() {
    let outbox = outbox_of(1 << 30);
    outbox.push(
        std::iter::repeat_n(Delivery::Message(&ping()), SendBudget::default().mark() / 20 + 1),
        false,
        ReleaseRule::AT_ONCE,
    );
    let mut bytes = SendBuffer::default();
    let mut room = pin!(outbox.ready_for_requests());
    assert!(poll_reader(&outbox, room.as_mut()).await.is_pending());
    assert_eq!(outbox.next(&mut bytes).await, Next::Send);
    assert!(poll_reader(&outbox, room.as_mut()).await.is_pending(), "the bytes are taken but not sent");
    let mut next = pin!(outbox.next(&mut bytes));
    assert!(futures_poll(next.as_mut()).await.is_pending());
    assert!(poll_reader(&outbox, room.as_mut()).await.is_ready());
}

#[tokio::test]
async fn with_replies_to_come_there_is_no_room() {
    let outbox = outbox_of(1 << 30);
    outbox.begin_requests(3);
    let mut room = pin!(outbox.ready_for_requests());
    assert!(poll_reader(&outbox, room.as_mut()).await.is_pending());
    outbox.finish_requests(2);
    assert!(poll_reader(&outbox, room.as_mut()).await.is_pending());
    outbox.finish_requests(1);
    assert!(poll_reader(&outbox, room.as_mut()).await.is_ready());
}

#[tokio::test]
async fn after_a_failed_write_only_the_unsent_bytes_no_longer_hold_up_the_reading() {
    let outbox = outbox_of(1 << 30);
    outbox.begin_requests(3);
    outbox.abort();
    let mut room = pin!(outbox.ready_for_requests());
    assert!(
        poll_reader(&outbox, room.as_mut()).await.is_pending(),
        "their frames may have to be submitted again"
    );
    outbox.return_unprocessed(2);
    outbox.finish_requests(1);
    assert_eq!(poll_reader(&outbox, room.as_mut()).await, Poll::Ready(2));
}

#[test]
fn a_connection_whose_request_is_held_up_sleeps_between_events() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let outbox = outbox_of(1 << 20);
    let mut bytes = SendBuffer::default();
    outbox.begin_requests(1);
    for events in 0..3 {
        let (mut next, mut room) = (pin!(next_of(&outbox, &mut bytes)), pin!(outbox.ready_for_requests()));
        assert!(outbox.poll_loops(&mut cx, next.as_mut(), room.as_mut()).is_pending());
        assert_eq!(wakes.0.load(Relaxed), events);
        outbox.push([ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
        assert_eq!(wakes.0.load(Relaxed), events + 1);
        assert!(next.poll(&mut cx).is_ready());
    }
}

#[test]
fn replies_that_come_at_once_wake_nobody_and_leave_before_more_is_read() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let outbox = outbox_of(1 << 20);
    let order = RefCell::new(Vec::new());
    let mut writing = pin!(async {
        let mut bytes = SendBuffer::default();
        loop {
            assert_eq!(outbox.next(&mut bytes).await, Next::Send);
            order.borrow_mut().push("sent");
        }
    });
    let mut reading = pin!(async {
        outbox.begin_requests(1);
        outbox.push([ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
        outbox.finish_requests(1);
        outbox.ready_for_requests().await;
        order.borrow_mut().push("read");
        pending::<usize>().await
    });
    let mut poll = |wakes_before| {
        assert_eq!(wakes.0.load(Relaxed), wakes_before);
        assert!(outbox.poll_loops(&mut cx, writing.as_mut(), reading.as_mut()).is_pending());
        assert_eq!(wakes.0.load(Relaxed), wakes_before);
    };
    poll(0);
    assert_eq!(*order.borrow(), ["sent", "read"]);
    // Loops that wait again have to be woken: once, however many things change.
    for _ in 0..2 {
        outbox.push([ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
        outbox.finish_requests(1);
    }
    poll(1);
    assert_eq!(*order.borrow(), ["sent", "read", "sent"]);
}

#[test]
fn nobody_is_woken_for_messages_that_cannot_leave_yet() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let outbox = outbox_of(1 << 20);
    let mut bytes = SendBuffer::default();
    let rule = ReleaseRule { durable: Zxid(3), before: Zxid(3), last: Zxid(4) };
    {
        let (mut next, mut nothing) = (pin!(next_of(&outbox, &mut bytes)), pin!(pending()));
        assert!(outbox.poll_loops(&mut cx, next.as_mut(), nothing.as_mut()).is_pending());
        push(&outbox, &[reply(4)], rule);
        assert_eq!(wakes.0.load(Relaxed), 0, "it waits for the log");
        outbox.release(Zxid(4));
        assert_eq!(wakes.0.load(Relaxed), 1);
        assert!(outbox.poll_loops(&mut cx, next.as_mut(), nothing.as_mut()).is_ready());
    }
    // The write loop writes, for as long as the peer likes.
    let (mut writing, mut nothing) = (pin!(pending()), pin!(pending::<usize>()));
    assert!(outbox.poll_loops(&mut cx, writing.as_mut(), nothing.as_mut()).is_pending());
    push(&outbox, &[reply(3)], rule);
    assert_eq!(wakes.0.load(Relaxed), 1, "it looks again after the write");
    outbox.abort();
    assert_eq!(wakes.0.load(Relaxed), 2);
}

/// A turn on another thread releases a reply after the write loop has looked, and before the read loop does, which has come to the
/// end of the stream.
#[test]
fn a_reply_that_is_released_while_the_loops_are_polled_leaves_before_the_connection_ends() {
    let mut cx = Context::from_waker(Waker::noop());
    let outbox = outbox_of(1 << 20);
    push(&outbox, &[reply(4)], ReleaseRule { durable: Zxid(3), before: Zxid(3), last: Zxid(4) });
    let taken = Cell::new(0);
    let mut writing = pin!(async {
        let mut bytes = SendBuffer::default();
        outbox.next(&mut bytes).await;
        taken.set(bytes.len());
        pending::<io::Result<&str>>().await
    });
    let mut reading = pin!(async {
        outbox.release(Zxid(4));
        outbox.held_at_most(0).await;
        "the read loop"
    });
    let ended = outbox.poll_loops(&mut cx, writing.as_mut(), reading.as_mut());
    assert!(matches!(ended, Poll::Ready(Ok("the read loop"))), "{ended:?}");
    assert_eq!(taken.get(), 20, "bytes that the write loop has");
}

/// What the write loop waits for.
async fn next_of(outbox: &Outbox, bytes: &mut SendBuffer) -> io::Result<usize> {
    outbox.next(bytes).await;
    Ok(bytes.len())
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[tokio::test]
async fn a_reply_that_does_not_fit_is_not_encoded_to_find_that_out() {
    let outbox = outbox_of(1 << 20);
    let data = bytes::Bytes::from(vec![0; 1 << 19]);
    let results = vec![OpResult::GetData(Some(data), zoolet_proto::Stat::default()); 100_000];
    let reply = Message::Reply(ReplyHeader::ok(Xid(1), Zxid(1)), Reply::Multi(results));
    outbox.push([ping(), reply, ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
    assert_eq!(outbox.unsent(), 0, "what waited is let go at once");
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
}

#[tokio::test]
async fn with_the_budget_spent_a_connection_that_does_not_read_is_closed_and_others_are_not() {
    let budget = Arc::<SendBudget>::default();
    let (deaf, other) = (Outbox::new(1 << 30, &budget), Outbox::new(1 << 30, &budget));
    deaf.push(std::iter::repeat_n(Delivery::Message(&ping()), 20_000), false, ReleaseRule::AT_ONCE);
    let spent = budget.shared(bytes::BytesMut::zeroed(256 << 20));
    other.push([ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
    deaf.push([ping()].iter().map(Delivery::Message), false, ReleaseRule::AT_ONCE);
    let mut bytes = SendBuffer::default();
    assert_eq!((other.next(&mut bytes).await, deaf.next(&mut bytes).await), (Next::Send, Next::Abort));
    drop(spent);
    assert!(!budget.is_spent());
}

#[tokio::test]
async fn events_for_many_are_queued_without_a_copy_and_close_a_connection_at_its_limit() {
    let events = Bytes::from(vec![0; 100_000]);
    let outbox = outbox_of(250_000);
    let push_events = |outbox: &Outbox| outbox.push_events(&events, 3, ReleaseRule::AT_ONCE).count;
    assert_eq!(push_events(&outbox) + push_events(&outbox), 6);
    assert_eq!(outbox.position(), 200_000);
    let mut sent = SendBuffer::default();
    assert_eq!((outbox.next(&mut sent).await, sent.size().unshared), (Next::Send, 0));
    assert_eq!(push_events(&outbox), 0);
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
}

#[tokio::test]
async fn requests_that_a_turn_has_not_reached_are_returned_when_there_is_room() {
    let outbox = outbox_of(1 << 20);
    outbox.begin_requests(3);
    outbox.return_unprocessed(2);
    let mut room = pin!(outbox.ready_for_requests());
    assert!(poll_reader(&outbox, room.as_mut()).await.is_pending(), "the first is not answered yet");
    outbox.finish_requests(1);
    assert_eq!(poll_reader(&outbox, room.as_mut()).await, Poll::Ready(2));
    assert_eq!(outbox.ready_for_requests().await, 0, "they are returned once");
}

#[tokio::test]
async fn replies_that_a_fault_has_delayed_count_by_their_own_size_and_events_by_all_that_waits() {
    let event = |path: &str| {
        let event = WatchedEvent {
            kind: EventType::NodeCreated,
            state: KeeperState::SyncConnected,
            path: path.into(),
        };
        Message::Reply(ReplyHeader::ok(Xid::EVENT, Zxid(-1)), Reply::Event(event))
    };
    let outbox = outbox_of(100);
    assert_eq!(
        outbox.push(std::iter::repeat_n(Delivery::Message(&ping()), 10), true, ReleaseRule::AT_ONCE).count,
        10
    );
    assert_eq!(outbox.push([event("/a")].iter().map(Delivery::Message), true, ReleaseRule::AT_ONCE).count, 0);
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
    let outbox = outbox_of(100);
    let long = Message::Reply(
        ReplyHeader::ok(Xid(1), Zxid(1)),
        Reply::Data(Some(vec![0; 101].into()), Stat::default()),
    );
    assert_eq!(
        outbox.push([ping(), long].iter().map(Delivery::Message), true, ReleaseRule::AT_ONCE).count,
        1
    );
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
}

async fn futures_poll<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Polls what the read loop waits for as the task of the connection does, beside a write loop that waits.
async fn poll_reader<F: Future>(outbox: &Outbox, mut reading: Pin<&mut F>) -> Poll<F::Output> {
    let mut writing = pin!(pending());
    poll_fn(|cx| Poll::Ready(outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())))
        .await
        .map(|outcome| outcome.expect("no write loop that fails"))
}

fn reply(zxid: i64) -> Message {
    Message::Reply(ReplyHeader::ok(Xid(7), Zxid(zxid)), Reply::Empty)
}

fn push(outbox: &Outbox, messages: &[Message], rule: ReleaseRule) -> Option<Zxid> {
    outbox.push(messages.iter().map(Delivery::Message), false, rule).waits
}

/// The zxids in the headers of everything that may leave now.
async fn leaving(outbox: &Outbox) -> Vec<i64> {
    const FRAME: usize = 20;
    let mut bytes = SendBuffer::default();
    let is_ready = {
        let mut next = pin!(outbox.next(&mut bytes));
        poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_ready())).await
    };
    if !is_ready {
        return Vec::new();
    }
    let mut slices = [IoSlice::new(&[]); 64];
    let count = bytes.slices(&mut slices, usize::MAX);
    let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
    let zxid = |frame: &[u8]| i64::from_be_bytes(frame[8..16].try_into().expect("eight bytes"));
    all.chunks(FRAME).map(zxid).collect()
}

#[tokio::test]
async fn what_names_a_transaction_leaves_when_that_is_in_the_log_and_not_before() {
    let outbox = outbox_of(1 << 20);
    // Up to 3 is in the log, 4 waits for it since an earlier turn, and this turn has decided 5 and 6.
    let rule = ReleaseRule { durable: Zxid(3), before: Zxid(4), last: Zxid(6) };
    assert_eq!(push(&outbox, &[reply(3)], rule), None);
    assert_eq!(push(&outbox, &[reply(4)], rule), Some(Zxid(4)));
    assert_eq!(push(&outbox, &[reply(5), reply(6)], rule), None, "it is asked again when 4 is in the log");
    assert_eq!(outbox.unsent(), 80, "what waits counts");
    assert_eq!(leaving(&outbox).await, [3]);
    assert_eq!(leaving(&outbox).await, [] as [i64; 0]);
    assert_eq!(outbox.release(Zxid(4)), Some(Zxid(6)));
    assert_eq!(leaving(&outbox).await, [4]);
    assert_eq!(outbox.release(Zxid(6)), None);
    assert_eq!(leaving(&outbox).await, [5, 6]);
    assert_eq!(leaving(&outbox).await, [] as [i64; 0]);
    assert_eq!(outbox.unsent(), 0);
}

#[tokio::test]
async fn what_comes_later_waits_too_whatever_it_names() {
    let outbox = outbox_of(1 << 20);
    assert_eq!(
        push(&outbox, &[reply(5)], ReleaseRule { durable: Zxid(3), before: Zxid(4), last: Zxid(5) }),
        Some(Zxid(5))
    );
    let rule = ReleaseRule { durable: Zxid(3), before: Zxid(5), last: Zxid(5) };
    assert_eq!(push(&outbox, &[reply(0), reply(-1), reply(5)], rule), None, "it waits for 5 already");
    assert_eq!(leaving(&outbox).await, [] as [i64; 0]);
    outbox.release(Zxid(5));
    assert_eq!(leaving(&outbox).await, [5, 0, -1, 5]);
}

#[tokio::test]
async fn a_connection_closes_after_what_waits_for_the_log() {
    let outbox = outbox_of(1 << 20);
    let rule = ReleaseRule { durable: Zxid(3), before: Zxid(3), last: Zxid(4) };
    push(&outbox, &[reply(3), reply(4), Message::Close { asked: true, reason: "" }], rule);
    let mut bytes = SendBuffer::default();
    assert_eq!((outbox.next(&mut bytes).await, bytes.len()), (Next::Send, 20));
    outbox.release(Zxid(4));
    assert_eq!((outbox.next(&mut bytes).await, bytes.len()), (Next::SendLast, 20));
    assert_eq!(outbox.next(&mut bytes).await, Next::Finish { asked: true });
}

#[tokio::test]
async fn what_waits_for_the_log_counts_against_the_limit() {
    let outbox = outbox_of(30);
    let rule = ReleaseRule { durable: Zxid(3), before: Zxid(3), last: Zxid(4) };
    push(&outbox, &[reply(4)], rule);
    push(&outbox, &[reply(4)], rule);
    assert_eq!(outbox.next(&mut SendBuffer::default()).await, Next::Abort);
    assert_eq!(outbox.unsent(), 0);
}
