//! The table of watches: who waits for what, what the server has set, and when to take it away.
//!
//! Only the driver touches it, in the order of the wire, so there is no moment between a reply and its watch. Three
//! things hold an entry: local users, requests on their way that will set the watch again (`arming`), and the watch
//! at the server (`armed`). A watch is taken away when it is armed without users and without requests on their way;
//! not earlier, or the removal would hit what such a request has just set.
//!
//! Whatever is done to many watches at once is done in the order of their paths, as what a client sends and whom it
//! wakes first must not hang on the order of a hash map.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zoolet_proto::{EventType, WatcherType, path};

use super::{Handle, Registration, STREAM_CAPACITY, Watch, WatchEvent, WatchKind, WatchStream, WatchUpdate};
use crate::call::Command;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::queue::Queue;
use crate::state::SessionState;

type OneShotUser = oneshot::Sender<Result<WatchEvent, Error>>;
type StreamUser = Arc<Queue<WatchUpdate>>;

/// A watch on one path.
#[derive(Debug)]
pub(super) struct Entry<U> {
    /// In the order of their ids.
    users: Vec<(u64, U)>,
    arming: usize,
    armed: bool,
    /// There was no znode when the watch was set, which only an exists-watch survives.
    pub(super) missing: bool,
}

impl<U> Default for Entry<U> {
    fn default() -> Self {
        Self { users: Vec::new(), arming: 0, armed: false, missing: false }
    }
}

pub(super) type Entries<U> = HashMap<String, Entry<U>>;

/// Every watch of a session, by kind and by the server's name of the znode.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    pub(super) data: Entries<OneShotUser>,
    pub(super) child: Entries<OneShotUser>,
    pub(super) persistent: Entries<StreamUser>,
    pub(super) recursive: Entries<StreamUser>,
    next_id: u64,
}

/// What a request that sets a watch came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The watch is set; whether there is a znode.
    Set { missing: bool },
    /// It is not set.
    Unset,
}

/// Calls a method of the entries of a kind, whatever their users are.
macro_rules! of_kind {
    ($table:expr, $kind:expr, $entries:ident => $body:expr) => {
        match $kind {
            WatchKind::Data => {
                let $entries = &mut $table.data;
                $body
            }
            WatchKind::Child => {
                let $entries = &mut $table.child;
                $body
            }
            WatchKind::Persistent => {
                let $entries = &mut $table.persistent;
                $body
            }
            WatchKind::Recursive => {
                let $entries = &mut $table.recursive;
                $body
            }
        }
    };
}

impl WatchTable {
    /// A request that sets this watch is on its way.
    pub(crate) fn arming(&mut self, kind: WatchKind, path: &str) {
        of_kind!(self, kind, entries => match entries.get_mut(path) {
            Some(entry) => entry.arming += 1,
            None => {
                entries.insert(path.to_owned(), Entry { arming: 1, ..Entry::default() });
            }
        });
    }

    /// Such a request was answered. Whoever asked is entered before this, and so is a user by now.
    /// Whether the watch is to be taken away from the server.
    pub(crate) fn answered(&mut self, kind: WatchKind, path: &str, mark: Mark) -> bool {
        of_kind!(self, kind, entries => {
            if let Some(entry) = entries.get_mut(path) {
                entry.arming = entry.arming.saturating_sub(1);
                if let Mark::Set { missing } = mark {
                    entry.armed = true;
                    entry.missing = missing;
                }
            }
            settle(entries, path)
        })
    }

    /// Makes a handle on a watch and enters it as a user.
    pub(crate) fn open(
        &mut self,
        kind: WatchKind,
        path: &str,
        commands: &mpsc::WeakUnboundedSender<Command>,
    ) -> Handle {
        let registration =
            |id| Registration { kind, path: path.to_owned(), id, commands: Some(commands.clone()) };
        let next_id = &mut self.next_id;
        match kind {
            WatchKind::Data | WatchKind::Child => {
                let (user, changed) = oneshot::channel();
                let entries = if kind == WatchKind::Data { &mut self.data } else { &mut self.child };
                let registration = registration(enter(entries, next_id, path, user));
                Handle::OneShot(Watch { changed, registration })
            }
            WatchKind::Persistent | WatchKind::Recursive => {
                let queue = StreamUser::default();
                let entries =
                    if kind == WatchKind::Persistent { &mut self.persistent } else { &mut self.recursive };
                let registration = registration(enter(entries, next_id, path, Arc::clone(&queue)));
                Handle::Persistent(WatchStream { queue, _registration: registration })
            }
        }
    }

    /// A user has gone. Whether the watch is to be taken away from the server.
    pub(crate) fn leave(&mut self, kind: WatchKind, path: &str, id: u64) -> bool {
        of_kind!(self, kind, entries => {
            if let Some(entry) = entries.get_mut(path) {
                if let Ok(at) = entry.users.binary_search_by_key(&id, |user| user.0) {
                    entry.users.remove(at);
                }
            }
            settle(entries, path)
        })
    }

    /// Tells everybody concerned of a change; `event` is made for the path that the user knows.
    pub(crate) fn fire(&mut self, kind: EventType, path: &str, event: &WatchEvent) {
        use EventType::*;
        // The one-shot watches that a change uses up at the server. A deletion uses up both, but is told once.
        if matches!(kind, NodeCreated | NodeDeleted | NodeDataChanged) {
            fire_once(&mut self.data, path, event);
        }
        if matches!(kind, NodeDeleted | NodeChildrenChanged) {
            fire_once(&mut self.child, path, event);
        }
        if let Some(entry) = self.persistent.get(path) {
            entry.users.iter().for_each(|(_, user)| tell(user, event));
        }
        if kind != NodeChildrenChanged && !self.recursive.is_empty() {
            let mut above = path;
            loop {
                if let Some(entry) = self.recursive.get(above) {
                    entry.users.iter().for_each(|(_, user)| tell(user, event));
                }
                if above == "/" {
                    break;
                }
                above = path::parent(above);
            }
        }
    }

    /// The connection is gone and every watch at the server with it. Those with users stay, to be set again.
    pub(crate) fn lose_connection(&mut self) {
        fn lose<U>(entries: &mut Entries<U>) {
            entries.retain(|_, entry| {
                entry.arming = 0;
                entry.armed = false;
                !entry.users.is_empty()
            });
        }
        lose(&mut self.data);
        lose(&mut self.child);
        lose(&mut self.persistent);
        lose(&mut self.recursive);
    }

    /// Every watch is being set again on a new connection. Persistent ones learn that there was a gap.
    pub(crate) fn restored(&mut self) {
        self.data.values_mut().chain(self.child.values_mut()).for_each(|entry| entry.armed = true);
        self.persistent.values_mut().chain(self.recursive.values_mut()).for_each(|entry| entry.armed = true);
        for (_, entry) in by_path(&self.persistent).into_iter().chain(by_path(&self.recursive)) {
            for (_, user) in &entry.users {
                user.push_with(|_, last| {
                    (!matches!(last, Some(WatchUpdate::Missed))).then_some(WatchUpdate::Missed)
                });
            }
        }
    }

    /// The server has taken watches away because somebody asked it to: their users learn of it.
    pub(crate) fn removed(&mut self, path: &str, kind: WatcherType, shown: &str) {
        let error = || Error::WatchRemoved(ErrorContext::local("watch", shown));
        let any = kind == WatcherType::Any;
        if any || kind == WatcherType::Data {
            drop_one_shots(&mut self.data, path, &error);
        }
        if any || kind == WatcherType::Children {
            drop_one_shots(&mut self.child, path, &error);
        }
        if any || kind == WatcherType::Persistent {
            drop_streams(&mut self.persistent, path, &error);
        }
        if any || kind == WatcherType::PersistentRecursive {
            drop_streams(&mut self.recursive, path, &error);
        }
    }

    /// The session is over: every user learns how, by the path it knows.
    pub(crate) fn end(&mut self, end: SessionState, shown: impl Fn(&str) -> String) {
        let error = |path: &str| end.error(ErrorContext::local("watch", shown(path)));
        for (path, entry) in take_by_path(&mut self.data).into_iter().chain(take_by_path(&mut self.child)) {
            entry.users.into_iter().for_each(|(_, user)| drop(user.send(Err(error(&path)))));
        }
        let streams = take_by_path(&mut self.persistent).into_iter().chain(take_by_path(&mut self.recursive));
        for (path, entry) in streams {
            entry.users.iter().for_each(|(_, user)| finish(user, error(&path)));
        }
    }
}

/// The entries in the order of their paths.
pub(super) fn by_path<U>(entries: &Entries<U>) -> Vec<(&String, &Entry<U>)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(path, _)| *path);
    entries
}

fn take_by_path<U>(entries: &mut Entries<U>) -> Vec<(String, Entry<U>)> {
    let mut entries: Vec<_> = entries.drain().collect();
    entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
    entries
}

fn enter<U>(entries: &mut Entries<U>, next_id: &mut u64, path: &str, user: U) -> u64 {
    *next_id += 1;
    match entries.get_mut(path) {
        Some(entry) => entry.users.push((*next_id, user)),
        None => {
            entries.insert(path.to_owned(), Entry { users: vec![(*next_id, user)], ..Entry::default() });
        }
    }
    *next_id
}

/// Drops an entry nobody needs; whether the server still has its watch.
fn settle<U>(entries: &mut Entries<U>, path: &str) -> bool {
    match entries.get(path) {
        Some(entry) if entry.users.is_empty() && entry.arming == 0 => {
            let armed = entry.armed;
            entries.remove(path);
            armed
        }
        _ => false,
    }
}

fn fire_once(entries: &mut Entries<OneShotUser>, path: &str, event: &WatchEvent) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.armed = false;
    entry.users.drain(..).for_each(|(_, user)| drop(user.send(Ok(event.clone()))));
    settle(entries, path);
}

fn tell(user: &StreamUser, event: &WatchEvent) {
    user.push_with(|len, last| match last {
        _ if len < STREAM_CAPACITY => Some(WatchUpdate::Event(event.clone())),
        Some(WatchUpdate::Missed) => None,
        _ => Some(WatchUpdate::Missed),
    });
}

fn finish(user: &StreamUser, error: Error) {
    user.push(WatchUpdate::Ended(error));
    user.close();
}

fn drop_one_shots(entries: &mut Entries<OneShotUser>, path: &str, error: &dyn Fn() -> Error) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.armed = false;
    entry.users.drain(..).for_each(|(_, user)| drop(user.send(Err(error()))));
    settle(entries, path);
}

fn drop_streams(entries: &mut Entries<StreamUser>, path: &str, error: &dyn Fn() -> Error) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.armed = false;
    entry.users.drain(..).for_each(|(_, user)| finish(&user, error()));
    settle(entries, path);
}
