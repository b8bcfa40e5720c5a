//! The interleavings of turns with the task of a connection, by loom: no wake-up is lost, and no message is lost or overtaken.
//!
//! The outbox is compiled a second time, with loom's lock and atomics. A lost wake-up is a deadlock, which loom reports.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use loom::future::block_on;
use loom::thread::{self, JoinHandle};
use zoolet_proto::{Reply, ReplyHeader, Stat, Xid, Zxid, frame};
use zoolet_server_core::Message;

use self::buffer::SendBuffer;
use self::limits::MOST_MARK;
use self::outbox::{Next, Outbox};
use self::queue::{Delivery, ReleaseRule};
use super::{budget, buffer, limits, queue};

#[allow(dead_code, reason = "these tests use what the task and the turns race for")]
#[allow(clippy::duplicate_mod, reason = "with other locks")]
#[path = "outbox.rs"]
mod outbox;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

/// Runs a test once for each order of steps with at most this many preemptions. One more takes ten times as long.
fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// An outbox with `requests` in flight, and another thread that does `turns` to it.
fn beside(requests: usize, turns: impl Fn(&Outbox) + 'static) -> (Arc<Outbox>, JoinHandle<()>) {
    let outbox = Arc::new(Outbox::new(1 << 20, &Arc::default()));
    outbox.begin_requests(requests);
    let shared = Arc::clone(&outbox);
    (outbox, thread::spawn(move || turns(&shared)))
}

fn reply(zxid: i64) -> Message {
    Message::Reply(ReplyHeader::ok(Xid(7), Zxid(zxid)), Reply::Empty)
}

/// Pushes a message; a reply waits for its transaction if that is later than `durable`.
fn push(outbox: &Outbox, message: Message, durable: i64) {
    let rule = ReleaseRule { durable: Zxid(durable), before: Zxid(100), last: Zxid(100) };
    outbox.push([Delivery::Message(&message)].into_iter(), false, rule);
}

/// Serves a connection whose read loop is `reading` until the replies with the `expected` zxids have left and that has ended, or
/// until the write loop ends. Only wake-ups lead there.
async fn serve(outbox: &Outbox, expected: &[i64], reading: impl Future<Output = ()>) -> Option<Next> {
    let (sent, has_read) = (RefCell::new(Vec::new()), Cell::new(false));
    let mut writing = pin!(async {
        let mut bytes = SendBuffer::default();
        loop {
            match outbox.next(&mut bytes).await {
                Next::Send | Next::SendLast => sent.borrow_mut().extend(zxids(&bytes)),
                end => return io::Result::Ok(end),
            }
        }
    });
    let mut reading = pin!(async {
        reading.await;
        has_read.set(true);
        pending().await
    });
    let end = poll_fn(|cx| match outbox.poll_loops(cx, writing.as_mut(), reading.as_mut()) {
        Poll::Ready(end) => Poll::Ready(end.ok()),
        Poll::Pending if has_read.get() && sent.borrow().len() == expected.len() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await;
    if end != Some(Next::Abort) {
        assert_eq!(*sent.borrow(), expected);
    }
    end
}

/// The zxids in the headers of all frames.
fn zxids(bytes: &SendBuffer) -> Vec<i64> {
    let mut slices = [IoSlice::new(&[]); 8];
    let count = bytes.slices(&mut slices, usize::MAX);
    let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
    let (mut rest, mut zxids) = (&all[..], Vec::new());
    while let Ok(Some(frame)) = frame::split(rest, usize::MAX) {
        zxids.push(i64::from_be_bytes(frame[4..12].try_into().expect("a header")));
        rest = &rest[frame::PREFIX + frame.len()..];
    }
    zxids
}

#[test]
fn a_connection_reads_on_when_another_thread_has_answered_and_when_its_own_task_has() {
    model(2, || {
        let (outbox, turns) = beside(2, |outbox| {
            push(outbox, reply(1), 9);
            outbox.finish_requests(1);
            push(outbox, reply(2), 9);
            outbox.finish_requests(1);
        });
        block_on(serve(&outbox, &[1, 2, 3], async {
            outbox.ready_for_requests().await;
            outbox.begin_requests(1);
            push(&outbox, reply(3), 9);
            outbox.finish_requests(1);
            outbox.ready_for_requests().await;
        }));
        turns.join().expect("no panic");
    });
}

#[test]
fn requests_that_a_turn_has_not_reached_are_returned_to_the_reader() {
    model(3, || {
        let (outbox, turns) = beside(3, |outbox| {
            push(outbox, reply(1), 9);
            outbox.finish_requests(1);
            outbox.return_unprocessed(2);
        });
        block_on(serve(&outbox, &[1], async {
            assert_eq!(outbox.ready_for_requests().await, 2);
        }));
        turns.join().expect("no panic");
    });
}

#[test]
fn replies_leave_when_the_log_has_what_they_show_and_the_reader_that_waits_for_that_goes_on() {
    model(3, || {
        let (outbox, turns) = beside(3, |outbox| {
            push(outbox, reply(1), 0);
            push(outbox, reply(2), 0);
            // Waits for nothing but the replies before it.
            push(outbox, reply(3), 9);
            outbox.finish_requests(3);
            outbox.release(Zxid(1));
            outbox.release(Zxid(2));
        });
        block_on(serve(&outbox, &[1, 2, 3], async {
            outbox.ready_for_requests().await;
            outbox.held_at_most(1).await;
            outbox.held_at_most(0).await;
        }));
        turns.join().expect("no panic");
    });
}

#[test]
fn an_event_wakes_a_connection_that_waits_for_nothing_else() {
    model(3, || {
        let (outbox, turns) = beside(0, |outbox| push(outbox, reply(1), 9));
        block_on(serve(&outbox, &[1], async {}));
        turns.join().expect("no panic");
    });
}

#[test]
fn above_the_mark_the_reader_waits_for_the_writer() {
    model(2, || {
        let (outbox, turns) = beside(1, |outbox| {
            let data = Reply::Data(Some(vec![0; MOST_MARK].into()), Stat::default());
            push(outbox, Message::Reply(ReplyHeader::ok(Xid(7), Zxid(1)), data), 9);
            outbox.finish_requests(1);
        });
        block_on(serve(&outbox, &[1], async {
            outbox.ready_for_requests().await;
            assert!(outbox.unsent() < MOST_MARK);
        }));
        turns.join().expect("no panic");
    });
}

#[test]
fn a_connection_closes_after_the_last_reply_that_waited_for_the_log() {
    model(3, || {
        let (outbox, turns) = beside(1, |outbox| {
            push(outbox, reply(1), 0);
            push(outbox, Message::Close { asked: true, reason: "" }, 0);
            outbox.release(Zxid(1));
        });
        let end = block_on(serve(&outbox, &[1], pending()));
        assert_eq!(end, Some(Next::Finish { asked: true }));
        turns.join().expect("no panic");
    });
}

#[test]
fn a_connection_that_has_nothing_to_send_closes() {
    model(3, || {
        let (outbox, turns) =
            beside(0, |outbox| push(outbox, Message::Close { asked: false, reason: "" }, 9));
        let end = block_on(serve(&outbox, &[], pending()));
        assert_eq!(end, Some(Next::Finish { asked: false }));
        turns.join().expect("no panic");
    });
}

#[test]
fn a_write_that_is_stuck_notices_that_the_connection_closes_and_that_it_is_aborted() {
    model(3, || {
        let (outbox, turns) = beside(0, |outbox| {
            push(outbox, Message::Close { asked: false, reason: "" }, 0);
            outbox.abort();
        });
        let mut writing = pin!(async {
            outbox.closing().await;
            outbox.aborted().await;
            Ok(())
        });
        let mut reading = pin!(pending());
        block_on(poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut()))).expect("an end");
        turns.join().expect("no panic");
    });
}

#[test]
fn after_an_abort_the_reader_alone_still_waits_for_its_requests() {
    model(2, || {
        let (outbox, turns) = beside(1, |outbox| {
            push(outbox, reply(1), 9);
            outbox.finish_requests(1);
        });
        let shutdown = {
            let outbox = Arc::clone(&outbox);
            thread::spawn(move || outbox.abort())
        };
        block_on(async {
            let end = serve(&outbox, &[1, 2], pending()).await;
            assert_eq!(end, Some(Next::Abort));
            let (mut writing, mut reading) = (pin!(pending()), pin!(outbox.ready_for_requests()));
            poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())).await.expect("no write");
        });
        assert!(turns.join().is_ok() && shutdown.join().is_ok());
    });
}
