//! The table of watches: their users, what the server has set, and when to remove a watch.
//!
//! Only the driver uses it, in the order of the wire, so there is no moment between a reply and its watch. Three things
//! keep an entry: local users, requests in flight that will set the watch (`registering`), and the watch at the server
//! (`registered`). A watch is removed when it is registered and has neither users nor such requests. Not earlier, because
//! the removal would remove what such a request has just set.
//!
//! Operations on many watches go in the order of their paths, so that neither the bytes that a client sends nor the order
//! of wake-ups depends on a hash map.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zoolet_proto::{EventType, WatcherType, path};

use super::stream::UpdateQueue;
use super::{Watch, WatchEvent, WatchHandle, WatchKind, WatchRegistration, WatchStream};
use crate::call::Command;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::state::SessionState;

type OneShotUser = oneshot::Sender<Result<WatchEvent, Error>>;
type StreamUser = Arc<UpdateQueue>;

/// A watch on one path.
#[derive(Debug)]
pub(super) struct WatchEntry<U> {
    /// Sorted by id.
    users: Vec<(u64, U)>,
    registering: usize,
    registered: bool,
    /// The znode was absent when the watch was set, which only exists allows.
    pub(super) missing: bool,
}

impl<U> Default for WatchEntry<U> {
    fn default() -> Self {
        Self { users: Vec::new(), registering: 0, registered: false, missing: false }
    }
}

pub(super) type WatchEntries<U> = HashMap<String, WatchEntry<U>>;

/// Every watch of a session, by kind and by path as the server sees it.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    pub(super) data: WatchEntries<OneShotUser>,
    pub(super) child: WatchEntries<OneShotUser>,
    pub(super) persistent: WatchEntries<StreamUser>,
    pub(super) recursive: WatchEntries<StreamUser>,
    next_id: u64,
}

/// The reply to a request that sets a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchReply {
    /// The watch is set; `missing` if the znode is absent.
    Set { missing: bool },
    /// The watch is not set.
    Unset,
}

/// Evaluates `$body` with the entries of a kind, whatever the type of their users.
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
    /// A request that sets this watch has been sent.
    pub(crate) fn registering(&mut self, kind: WatchKind, path: &str) {
        of_kind!(self, kind, entries => match entries.get_mut(path) {
            Some(entry) => entry.registering += 1,
            None => {
                entries.insert(path.to_owned(), WatchEntry { registering: 1, ..WatchEntry::default() });
            }
        });
    }

    /// Such a request was answered. A caller that still waits for it was added as a user before.
    /// Returns whether to remove the watch from the server.
    pub(crate) fn answered(&mut self, kind: WatchKind, path: &str, reply: WatchReply) -> bool {
        of_kind!(self, kind, entries => {
            if let Some(entry) = entries.get_mut(path) {
                entry.registering = entry.registering.saturating_sub(1);
                if let WatchReply::Set { missing } = reply {
                    entry.registered = true;
                    entry.missing = missing;
                }
            }
            settle(entries, path)
        })
    }

    /// Makes a handle on a watch and adds it as a user.
    pub(crate) fn open(
        &mut self,
        kind: WatchKind,
        path: &str,
        commands: &mpsc::WeakUnboundedSender<Command>,
    ) -> WatchHandle {
        let registration =
            |id| WatchRegistration { kind, path: path.to_owned(), id, commands: Some(commands.clone()) };
        let next_id = &mut self.next_id;
        match kind {
            WatchKind::Data | WatchKind::Child => {
                let (user, changed) = oneshot::channel();
                let entries = if kind == WatchKind::Data { &mut self.data } else { &mut self.child };
                let registration = registration(enter(entries, next_id, path, user));
                WatchHandle::OneShot(Watch { changed, registration })
            }
            WatchKind::Persistent | WatchKind::Recursive => {
                let queue = StreamUser::default();
                let entries =
                    if kind == WatchKind::Persistent { &mut self.persistent } else { &mut self.recursive };
                let registration = registration(enter(entries, next_id, path, Arc::clone(&queue)));
                WatchHandle::Persistent(WatchStream { queue, _registration: registration })
            }
        }
    }

    /// A user is gone. Returns whether to remove the watch from the server.
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

    /// Notifies the users of every watch that a change concerns. `event` has the path as they see it.
    pub(crate) fn fire(&mut self, kind: EventType, path: &str, event: &WatchEvent) {
        use EventType::*;
        // The one-shot watches that a change removes at the server. A deletion removes both, but is reported once.
        if matches!(kind, NodeCreated | NodeDeleted | NodeDataChanged) {
            fire_once(&mut self.data, path, event);
        }
        if matches!(kind, NodeDeleted | NodeChildrenChanged) {
            fire_once(&mut self.child, path, event);
        }
        if let Some(entry) = self.persistent.get(path) {
            entry.users.iter().for_each(|(_, user)| user.push_event(event));
        }
        if kind != NodeChildrenChanged && !self.recursive.is_empty() {
            let mut above = path;
            loop {
                if let Some(entry) = self.recursive.get(above) {
                    entry.users.iter().for_each(|(_, user)| user.push_event(event));
                }
                if above == "/" {
                    break;
                }
                above = path::parent(above);
            }
        }
    }

    /// The connection is lost, and with it every watch at the server. Those with users are kept, to be restored.
    pub(crate) fn lose_connection(&mut self) {
        fn lose<U>(entries: &mut WatchEntries<U>) {
            entries.retain(|_, entry| {
                entry.registering = 0;
                entry.registered = false;
                !entry.users.is_empty()
            });
        }
        lose(&mut self.data);
        lose(&mut self.child);
        lose(&mut self.persistent);
        lose(&mut self.recursive);
    }

    /// Every watch is being restored on a new connection. Persistent ones may have missed changes.
    pub(crate) fn restored(&mut self) {
        self.data.values_mut().chain(self.child.values_mut()).for_each(|entry| entry.registered = true);
        self.persistent
            .values_mut()
            .chain(self.recursive.values_mut())
            .for_each(|entry| entry.registered = true);
        for (_, entry) in by_path(&self.persistent).into_iter().chain(by_path(&self.recursive)) {
            entry.users.iter().for_each(|(_, user)| user.push_missed());
        }
    }

    /// The server has removed watches; their users get an error with the path `shown`.
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

    /// The session is over: every user gets an error, with the path that `shown` returns.
    pub(crate) fn end(&mut self, end: SessionState, shown: impl Fn(&str) -> String) {
        let error = |path: &str| end.error(ErrorContext::local("watch", shown(path)));
        for (path, entry) in take_by_path(&mut self.data).into_iter().chain(take_by_path(&mut self.child)) {
            entry.users.into_iter().for_each(|(_, user)| drop(user.send(Err(error(&path)))));
        }
        let streams = take_by_path(&mut self.persistent).into_iter().chain(take_by_path(&mut self.recursive));
        for (path, entry) in streams {
            entry.users.iter().for_each(|(_, user)| user.end(error(&path)));
        }
    }
}

/// The entries in the order of their paths.
pub(super) fn by_path<U>(entries: &WatchEntries<U>) -> Vec<(&String, &WatchEntry<U>)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(path, _)| *path);
    entries
}

fn take_by_path<U>(entries: &mut WatchEntries<U>) -> Vec<(String, WatchEntry<U>)> {
    let mut entries: Vec<_> = entries.drain().collect();
    entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
    entries
}

fn enter<U>(entries: &mut WatchEntries<U>, next_id: &mut u64, path: &str, user: U) -> u64 {
    *next_id += 1;
    match entries.get_mut(path) {
        Some(entry) => entry.users.push((*next_id, user)),
        None => {
            entries.insert(
                path.to_owned(),
                WatchEntry { users: vec![(*next_id, user)], ..WatchEntry::default() },
            );
        }
    }
    *next_id
}

/// Drops an entry that nothing needs. Returns whether the server still has its watch.
fn settle<U>(entries: &mut WatchEntries<U>, path: &str) -> bool {
    match entries.get(path) {
        Some(entry) if entry.users.is_empty() && entry.registering == 0 => {
            let registered = entry.registered;
            entries.remove(path);
            registered
        }
        _ => false,
    }
}

fn fire_once(entries: &mut WatchEntries<OneShotUser>, path: &str, event: &WatchEvent) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.registered = false;
    entry.users.drain(..).for_each(|(_, user)| drop(user.send(Ok(event.clone()))));
    settle(entries, path);
}

fn drop_one_shots(entries: &mut WatchEntries<OneShotUser>, path: &str, error: &dyn Fn() -> Error) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.registered = false;
    entry.users.drain(..).for_each(|(_, user)| drop(user.send(Err(error()))));
    settle(entries, path);
}

fn drop_streams(entries: &mut WatchEntries<StreamUser>, path: &str, error: &dyn Fn() -> Error) {
    let Some(entry) = entries.get_mut(path) else { return };
    entry.registered = false;
    entry.users.drain(..).for_each(|(_, user)| user.end(error()));
    settle(entries, path);
}
