//! The requests of a feed, and what their replies mean to it.

use zoolet_proto::{AddWatchMode, Request, Zxid, records};

use crate::chroot::Chroot;
use crate::command::{FeedTicket, ReplyTo, Submission};

/// A request of a [`Feed`](super::Feed): reads, and what arms its watches. Paths are valid, and below the chroot of the client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FeedRequest {
    /// Data and Stat of a znode, with a one-shot watch if asked.
    GetData {
        /// The znode.
        path: String,
        /// Whether to set a watch on its data and deletion.
        watch: bool,
    },
    /// The Stat of a znode, with a one-shot watch if asked, which is also set on an absent one.
    Exists {
        /// The znode.
        path: String,
        /// Whether to set a watch on its creation, data and deletion.
        watch: bool,
    },
    /// The names of the children of a znode, with a one-shot watch if asked.
    GetChildren {
        /// The znode.
        path: String,
        /// Whether to set a watch on its children and its deletion.
        watch: bool,
    },
    /// Brings the server up to the leader.
    Sync {
        /// Any znode.
        path: String,
    },
    /// Sets a persistent recursive watch. Servers have it since 3.6.
    WatchTree {
        /// The root of the subtree, which need not exist.
        path: String,
    },
    /// Sets one-shot watches on znodes that were read before, and reports at once which have changed since.
    SetWatches {
        /// The zxid at which they were read.
        since: Zxid,
        /// Znodes whose data and deletion to watch.
        data: Vec<String>,
        /// Znodes that were absent, whose creation to watch.
        absent: Vec<String>,
        /// Znodes whose children and deletion to watch.
        children: Vec<String>,
    },
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
            Self::GetData { path, watch } => Request::GetData(records::GetData { path: join(path), watch }),
            Self::Exists { path, watch } => Request::Exists(records::Exists { path: join(path), watch }),
            Self::GetChildren { path, watch } => {
                Request::GetChildren2(records::GetChildren { path: join(path), watch })
            }
            Self::Sync { path } => Request::Sync(records::Sync { path: Some(join(path)) }),
            Self::WatchTree { path } => {
                let mode = AddWatchMode::PersistentRecursive.code();
                Request::AddWatch(records::AddWatch { path: Some(join(path)), mode })
            }
            Self::SetWatches { since, data, absent, children } => Request::SetWatches(records::SetWatches {
                relative_zxid: since,
                data: all(data),
                exist: all(absent),
                child: all(children),
            }),
        }
    }
}
