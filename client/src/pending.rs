//! The bound on requests that have been sent and not answered, in bytes. Each call takes its share before it is sent, and
//! the share is returned when the driver drops the call.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::{Mutex, Notify};
use zoolet_proto::Request;
use zoolet_proto::records::Op;

/// What a call takes besides its data and paths: in the channels, in the queue, in the buffer.
const OVERHEAD: usize = 512;

/// Room for pending requests. A tokio semaphore would do, but its lock is taken for each reply.
#[derive(Debug)]
pub(crate) struct PendingRoom {
    max: usize,
    used: AtomicUsize,
    /// Calls that wait for room. While there are any, no other call takes some.
    waiting: AtomicUsize,
    /// Lets them wait in order: only the first looks for room.
    queue: Mutex<()>,
    /// For the first of them: there may be room.
    returned: Notify,
}

/// The share of one call, which is returned when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingShare {
    room: Option<Arc<PendingRoom>>,
    size: usize,
}

impl PendingShare {
    /// For the session's own requests, which are bounded otherwise.
    pub(crate) fn none() -> Self {
        Self { room: None, size: 0 }
    }
}

impl Drop for PendingShare {
    fn drop(&mut self) {
        let Some(room) = &self.room else { return };
        room.used.fetch_sub(self.size, SeqCst);
        // A call that begins to wait counts itself before it looks for room, and this looks after it has made room: one of the
        // two sees the other.
        if room.waiting.load(SeqCst) > 0 {
            room.returned.notify_one();
        }
    }
}

impl PendingRoom {
    pub(crate) fn new(max: usize) -> Self {
        let (used, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Half of the numbers, so that no sum overflows.
        let max = max.clamp(1, usize::MAX / 2);
        Self { max, used, waiting, queue: Mutex::new(()), returned: Notify::new() }
    }

    /// The limit in bytes.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// The share of `request`, if there is room and nobody waits for it.
    pub(crate) fn try_take(self: &Arc<Self>, request: &Request) -> Option<PendingShare> {
        if self.waiting.load(SeqCst) > 0 { None } else { self.try_take_first(self.share_of(request)) }
    }

    fn try_take_first(self: &Arc<Self>, size: usize) -> Option<PendingShare> {
        let with = |used: usize| Some(used + size).filter(|used| *used <= self.max);
        self.used.fetch_update(SeqCst, SeqCst, with).ok()?;
        Some(PendingShare { room: Some(Arc::clone(self)), size })
    }

    /// Waits for the share of `request`, after those that wait already.
    pub(crate) async fn take(self: &Arc<Self>, request: &Request) -> PendingShare {
        let size = self.share_of(request);
        let _counted = Waiting::new(self);
        let _turn = self.queue.lock().await;
        loop {
            let mut returned = pin!(self.returned.notified());
            returned.as_mut().enable();
            match self.try_take_first(size) {
                Some(share) => return share,
                None => returned.await,
            }
        }
    }

    /// At most all the room there is, so that a request of any size fits.
    fn share_of(&self, request: &Request) -> usize {
        size_of_request(request).min(self.max)
    }
}

/// A call that waits, until this is dropped.
struct Waiting<'r>(&'r PendingRoom);

impl<'r> Waiting<'r> {
    fn new(room: &'r PendingRoom) -> Self {
        room.waiting.fetch_add(1, SeqCst);
        Self(room)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

/// About what a request takes in memory.
fn size_of_request(request: &Request) -> usize {
    let data = |data: &Option<bytes::Bytes>| data.as_ref().map_or(0, bytes::Bytes::len);
    let content = match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => {
            data(&create.data)
        }
        Request::CreateTtl(create) => data(&create.data),
        Request::SetData(set) => data(&set.data),
        Request::Auth(auth) => data(&auth.auth),
        Request::Multi(ops) | Request::MultiRead(ops) => ops.iter().map(size_of_op).sum(),
        _ => 0,
    };
    OVERHEAD + content + request.path().map_or(0, str::len)
}

fn size_of_op(op: &Op) -> usize {
    let data = match op {
        Op::Create(create) | Op::Create2(create) | Op::CreateContainer(create) => &create.data,
        Op::CreateTtl(create) => &create.data,
        Op::SetData(set) => &set.data,
        Op::Delete(_) | Op::Check(_) | Op::GetData(_) | Op::GetChildren(_) => &None,
    };
    size_of::<Op>() + op.path().len() + data.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use zoolet_proto::records;

    use super::*;

    fn request() -> Request {
        Request::Delete(records::Delete { path: "/a".into(), version: -1 })
    }

    #[test]
    fn callers_on_many_threads_all_get_room_and_never_more_than_there_is() {
        const CALLERS: usize = 8;
        const EACH: usize = 2_000;
        zoolet_test_support::limit();
        let room = Arc::new(PendingRoom::new(2 * size_of_request(&request())));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let room = Arc::clone(&room);
                runtime.spawn(async move {
                    for _ in 0..EACH {
                        let share = match room.try_take(&request()) {
                            Some(share) => share,
                            None => room.take(&request()).await,
                        };
                        thread::yield_now();
                        drop(share);
                    }
                })
            })
            .collect();
        for caller in callers {
            runtime.block_on(caller).expect("no panic");
        }
        assert_eq!((room.used.load(SeqCst), room.waiting.load(SeqCst)), (0, 0));
    }
}
