//! The requests of a feed, and what their replies mean to it.

use zoolet_proto::records::{AddWatch, Exists, GetChildren, GetData, SetWatches, Sync};
use zoolet_proto::{AddWatchMode, Request};

use crate::chroot::Chroot;
use crate::command::{FeedTicket, ReplyTo, Submission};

/// A request of a [`Feed`](super::Feed): reads, and what arms its watches. Paths are valid, and below the chroot of the client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FeedRequest {
    /// Data and Stat of a znode, with a one-shot watch on its data and deletion if asked.
    GetData(GetData),
    /// The Stat of a znode, with a one-shot watch on its creation, data and deletion if asked, which is also set on an absent one.
    Exists(Exists),
    /// The names of the children of a znode, with a one-shot watch on them and on its deletion if asked.
    GetChildren(GetChildren),
    /// Brings the server up to the leader; with the path of any znode.
    Sync(String),
    /// Sets a persistent recursive watch on a path, which need not exist. Servers have it since 3.6.
    WatchTree(String),
    /// Sets one-shot watches on znodes that were read before, and reports at once which have changed since the zxid at which they
    /// were read.
    SetWatches(SetWatches),
}

impl FeedRequest {
    pub(super) fn submission(self, chroot: &Chroot, ticket: FeedTicket) -> Box<Submission> {
        let mut submission = Submission::internal(self.below(chroot));
        submission.chroot = chroot.clone();
        submission.reply_to = ReplyTo::feed(ticket);
        submission
    }

    fn below(self, chroot: &Chroot) -> Request {
        let join = |path| chroot.join(path);
        let all = |paths: Vec<String>| paths.into_iter().map(join).collect();
        match self {
            Self::GetData(get) => Request::GetData(GetData { path: join(get.path), ..get }),
            Self::Exists(exists) => Request::Exists(Exists { path: join(exists.path), ..exists }),
            Self::GetChildren(get) => Request::GetChildren2(GetChildren { path: join(get.path), ..get }),
            Self::Sync(path) => Request::Sync(Sync { path: Some(join(path)) }),
            Self::WatchTree(path) => {
                let mode = AddWatchMode::PersistentRecursive.code();
                Request::AddWatch(AddWatch { path: Some(join(path)), mode })
            }
            Self::SetWatches(SetWatches { relative_zxid, data, exist, child }) => {
                let (data, exist, child) = (all(data), all(exist), all(child));
                Request::SetWatches(SetWatches { relative_zxid, data, exist, child })
            }
        }
    }
}
