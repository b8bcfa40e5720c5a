//! The outbox without a connection.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;

use zoolet_proto::records::{OpResult, WatchedEvent};
use zoolet_proto::{EventType, KeeperState, NameList, Reply, ReplyHeader, Stat, Xid, Zxid};

use super::*;

fn ping() -> Message {
    Message::Reply(ReplyHeader::ok(Xid::PING, Zxid(1)), Reply::Empty)
}

#[tokio::test]
async fn messages_before_a_close_are_sent_and_those_after_it_are_lost() {
    let outbox = Outbox::new(1 << 20);
    outbox.push([ping(), Message::Close { asked: false }, ping()].iter(), false);
    let mut bytes = BytesMut::new();
    assert_eq!((outbox.next(&mut bytes).await, bytes.len()), (Next::SendLast, 20));
    assert_eq!(outbox.next(&mut bytes).await, Next::Finish { asked: false });
}

#[tokio::test]
async fn past_its_limit_an_outbox_closes_the_connection() {
    let outbox = Outbox::new(30);
    outbox.push([ping()].iter(), false);
    outbox.push([ping()].iter(), false);
    assert_eq!(outbox.next(&mut BytesMut::new()).await, Next::Abort);
}

#[tokio::test]
async fn above_the_high_mark_there_is_no_room_until_it_is_sent() {
    let outbox = Outbox::new(1 << 30);
    outbox.push(std::iter::repeat_n(&ping(), HIGH_MARK / 20 + 1), false);
    let mut bytes = BytesMut::new();
    let mut room = std::pin::pin!(outbox.room());
    assert!(futures_poll(room.as_mut()).await.is_pending());
    assert_eq!(outbox.next(&mut bytes).await, Next::Send);
    assert!(futures_poll(room.as_mut()).await.is_pending(), "the bytes are taken but not sent");
    let mut next = std::pin::pin!(outbox.next(&mut bytes));
    assert!(futures_poll(next.as_mut()).await.is_pending());
    assert!(futures_poll(room.as_mut()).await.is_ready());
}

#[tokio::test]
async fn with_replies_to_come_there_is_no_room() {
    let outbox = Outbox::new(1 << 30);
    outbox.begin_requests(3);
    let mut room = std::pin::pin!(outbox.room());
    assert!(futures_poll(room.as_mut()).await.is_pending());
    outbox.finish_requests(2);
    assert!(futures_poll(room.as_mut()).await.is_pending());
    outbox.finish_requests(1);
    assert!(futures_poll(room.as_mut()).await.is_ready());
}

#[tokio::test]
async fn after_a_failed_write_only_the_unsent_bytes_no_longer_hold_up_the_reading() {
    let outbox = Outbox::new(1 << 30);
    outbox.begin_requests(3);
    outbox.writer_is_gone();
    let mut room = std::pin::pin!(outbox.room());
    assert!(futures_poll(room.as_mut()).await.is_pending(), "their frames may have to be submitted again");
    outbox.return_unprocessed(2);
    outbox.finish_requests(1);
    assert_eq!(futures_poll(room.as_mut()).await, Poll::Ready(2));
}

#[test]
fn a_connection_whose_request_is_held_up_sleeps_between_events() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let outbox = Outbox::new(1 << 20);
    let mut bytes = BytesMut::new();
    outbox.begin_requests(1);
    for events in 0..3 {
        assert!(pin!(outbox.next(&mut bytes)).poll(&mut cx).is_pending());
        assert!(pin!(outbox.room()).poll(&mut cx).is_pending());
        assert_eq!(wakes.0.load(Relaxed), events);
        outbox.push([ping()].iter(), false);
        assert!(pin!(outbox.next(&mut bytes)).poll(&mut cx).is_ready());
    }
}

#[test]
fn replies_that_come_at_once_wake_nobody_and_leave_before_more_is_read() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    let outbox = Outbox::new(1 << 20);
    let mut bytes = BytesMut::new();
    assert!(pin!(outbox.next(&mut bytes)).poll(&mut cx).is_pending());
    outbox.begin_requests(1);
    outbox.push([ping()].iter(), false);
    outbox.finish_requests(1);
    assert!(pin!(outbox.room()).poll(&mut cx).is_pending(), "the write loop goes first");
    assert!(outbox.writer_is_next());
    assert!(pin!(outbox.next(&mut bytes)).poll(&mut cx).is_ready());
    assert!(pin!(outbox.next(&mut bytes)).poll(&mut cx).is_pending());
    assert!(pin!(outbox.room()).poll(&mut cx).is_ready());
    assert_eq!(wakes.0.load(Relaxed), 0);
    // A write loop that waits again has to be woken.
    assert!(!outbox.writer_is_next());
    outbox.push([ping()].iter(), false);
    assert_eq!(wakes.0.load(Relaxed), 1);
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
    let outbox = Outbox::new(1 << 20);
    let data = bytes::Bytes::from(vec![0; 1 << 19]);
    let results = vec![OpResult::GetData(Some(data), zoolet_proto::Stat::default()); 100_000];
    let reply = Message::Reply(ReplyHeader::ok(Xid(1), Zxid(1)), Reply::Multi(results));
    outbox.push([ping(), reply, ping()].iter(), false);
    assert_eq!(outbox.lock().waiting.capacity(), 0, "what waited is let go at once");
    assert_eq!(outbox.next(&mut BytesMut::new()).await, Next::Abort);
}

#[test]
fn what_the_results_of_a_multi_read_share_is_counted_as_often_as_it_is_sent() {
    let names: NameList = ["child"; 1_000].into_iter().collect();
    let (list, data) =
        (OpResult::GetChildren(names), OpResult::GetData(Some("x".repeat(9_000).into()), Stat::default()));
    assert_eq!(
        reply_size(&Reply::Multi([vec![list; 100], vec![data; 100]].concat())),
        100 * 9_000 + 100 * 9_000
    );
}

#[tokio::test]
async fn requests_that_a_turn_has_not_reached_are_returned_when_there_is_room() {
    let outbox = Outbox::new(1 << 20);
    outbox.begin_requests(3);
    outbox.return_unprocessed(2);
    let mut room = std::pin::pin!(outbox.room());
    assert!(futures_poll(room.as_mut()).await.is_pending(), "the first is not answered yet");
    outbox.finish_requests(1);
    assert_eq!(futures_poll(room.as_mut()).await, Poll::Ready(2));
    assert_eq!(outbox.room().await, 0, "they are returned once");
}

#[tokio::test]
async fn replies_that_were_held_back_count_by_their_own_size_and_events_by_all_that_waits() {
    let event = |path: &str| {
        let event = WatchedEvent {
            kind: EventType::NodeCreated,
            state: KeeperState::SyncConnected,
            path: path.into(),
        };
        Message::Reply(ReplyHeader::ok(Xid::EVENT, Zxid(-1)), Reply::Event(event))
    };
    let outbox = Outbox::new(100);
    assert_eq!(outbox.push(std::iter::repeat_n(&ping(), 10), true), 10);
    assert_eq!(outbox.push([event("/a")].iter(), true), 0);
    assert_eq!(outbox.next(&mut BytesMut::new()).await, Next::Abort);
    let outbox = Outbox::new(100);
    let long = Message::Reply(
        ReplyHeader::ok(Xid(1), Zxid(1)),
        Reply::Data(Some(vec![0; 101].into()), Stat::default()),
    );
    assert_eq!(outbox.push([ping(), long].iter(), true), 1);
    assert_eq!(outbox.next(&mut BytesMut::new()).await, Next::Abort);
}

async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
