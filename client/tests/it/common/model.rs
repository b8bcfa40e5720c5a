//! A server of a few lines that keeps what a client could leak: watches, ephemerals, sessions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use zoolet_client::{ErrorCode, Stat};
use zoolet_proto::{Reply, Request};

use super::{Listener, Peer};

/// What the server holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Held {
    /// By path and wire number of the watcher type.
    pub watches: BTreeSet<(String, i32)>,
    /// Connections that have a session and have not closed it.
    pub sessions: usize,
    /// Requests answered.
    pub requests: usize,
}

/// Serves every connection that arrives, for ever.
pub fn serve(mut listener: Listener) -> Arc<Mutex<Held>> {
    let held = Arc::new(Mutex::new(Held::default()));
    let shared = Arc::clone(&held);
    tokio::spawn(async move {
        loop {
            let mut peer = listener.connection().await;
            let held = Arc::clone(&shared);
            tokio::spawn(async move {
                peer.grant_session().await;
                held.lock().expect("no panic").sessions += 1;
                while let Some((xid, request)) = peer.next().await {
                    answer(&mut peer, &held, xid, request).await;
                }
            });
        }
    });
    held
}

async fn answer(peer: &mut Peer, held: &Mutex<Held>, xid: i32, request: Request) {
    let reply = {
        let mut held = held.lock().expect("no panic");
        held.requests += 1;
        let mut watch = |set: bool, path: String, kind: i32| {
            if set {
                held.watches.insert((path, kind));
            }
        };
        match request {
            Request::GetData(get) => {
                watch(get.watch, get.path, 2);
                Ok(Reply::Data(None, Stat::default()))
            }
            Request::Exists(exists) => {
                watch(exists.watch, exists.path, 2);
                Err(ErrorCode::NoNode)
            }
            Request::GetChildren2(get) => {
                watch(get.watch, get.path, 1);
                Ok(Reply::Children2([].into_iter().collect(), Stat::default()))
            }
            Request::AddWatch(add) => {
                watch(true, add.path.expect("a path"), 4 + add.mode);
                Ok(Reply::WatchAdded)
            }
            Request::RemoveWatches(remove) => {
                match held.watches.remove(&(remove.path.expect("a path"), remove.kind)) {
                    true => Ok(Reply::Empty),
                    false => Err(ErrorCode::NoWatcher),
                }
            }
            Request::CloseSession => {
                held.sessions -= 1;
                Ok(Reply::Empty)
            }
            Request::SetData(_) => Ok(Reply::Stat(Stat::default())),
            Request::Ping | Request::Delete(_) => Ok(Reply::Empty),
            other => panic!("the model knows no {other:?}"),
        }
    };
    match reply {
        Ok(reply) => peer.reply(xid, reply).await,
        Err(code) => peer.error(xid, code).await,
    }
}
