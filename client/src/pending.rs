//! The bound on requests that have been sent and not answered, in bytes. Each call takes its share before it is sent, and
//! the share is returned when the driver drops the call.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zoolet_proto::Request;

/// What a call takes besides its request: in the channels, in the queue, in the buffer.
const OVERHEAD: usize = 512;

/// Room for pending requests: a semaphore of bytes, which serves callers in order, large requests included.
#[derive(Debug)]
pub(crate) struct PendingRoom {
    max: usize,
    free: Arc<Semaphore>,
}

/// The share of one call, which is returned when this is dropped. `None` for the session's own requests, which are bounded
/// otherwise.
pub(crate) type PendingShare = Option<OwnedSemaphorePermit>;

impl PendingRoom {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self { max, free: Arc::new(Semaphore::new(max)) }
    }

    /// The limit in bytes.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// The share of `request`, if there is room and nobody waits for it.
    pub(crate) fn try_take(&self, request: &Request) -> PendingShare {
        Arc::clone(&self.free).try_acquire_many_owned(self.share_of(request)).ok()
    }

    /// Waits for the share of `request`, after those that wait already.
    pub(crate) async fn take(&self, request: &Request) -> PendingShare {
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_many_owned(self.share_of(request)).await.ok()
    }

    /// At most all the room there is, so that a request of any size fits.
    fn share_of(&self, request: &Request) -> u32 {
        u32::try_from(size_of_request(request).min(self.max)).unwrap_or(u32::MAX)
    }
}

/// About what a request takes in memory.
fn size_of_request(request: &Request) -> usize {
    OVERHEAD + request.encoded_len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use zoolet_proto::records::{Delete, SetWatches};
    use zoolet_proto::{Acl, AclList, Perms, Xid, Zxid, records};

    use super::*;

    fn request() -> Request {
        Request::Delete(Delete { path: "/a".into(), version: -1 })
    }

    #[test]
    fn lists_of_paths_and_of_acl_entries_count_like_data() {
        let paths = vec!["/".repeat(1_000); 1_000];
        let watches =
            SetWatches { relative_zxid: Zxid(0), data: paths, exist: Vec::new(), child: Vec::new() };
        let acl = AclList::from(vec![Acl::digest(Perms::ALL, "user", "password"); 1_000]);
        let set_acl = records::SetAcl { path: "/a".into(), acl: Some(acl), version: -1 };
        for (request, least) in
            [(Request::SetWatches(watches), 1_000_000), (Request::SetAcl(set_acl), 40_000)]
        {
            let mut frame = bytes::BytesMut::new();
            request.encode_frame(Xid(1), &mut frame);
            assert_eq!(size_of_request(&request), OVERHEAD + frame.len());
            assert!(frame.len() >= least, "{} bytes", frame.len());
        }
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
                            None => room.take(&request()).await.expect("it is never closed"),
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
        assert_eq!(room.free.available_permits(), room.max());
    }
}
