//! The events of a mirror: each leads to a read, but a deletion.

use std::sync::Arc;

use zoolet_client::{EventType, WatchEvent, Zxid, path as znode_path};

use super::{Mirror, Read, WatchStyle};

impl<T> Mirror<T> {
    /// Applies an event.
    pub(in crate::cache) fn event(&mut self, event: &WatchEvent) {
        if !self.config.scope.contains(&event.path) {
            return;
        }
        let path: Arc<str> = event.path.as_str().into();
        self.pass.unlabelled = true;
        if matches!(event.kind, EventType::NodeCreated | EventType::NodeDeleted) {
            let parent = znode_path::parent(&path);
            if parent.len() < path.len() {
                self.pass.pzxids.insert(parent.into(), event.zxid.unwrap_or(Zxid(0)));
            }
        }
        match event.kind {
            EventType::NodeCreated => {
                if self.style == WatchStyle::Tree {
                    // It has no children yet; theirs will be events.
                    self.pass.unlisted.remove(&path);
                    self.dirty(path, event.zxid);
                } else {
                    // The root, which was absent.
                    self.find(path);
                }
            }
            EventType::NodeDataChanged => {
                // Its children may be as old as it is: it must be listed, though a listing of its parent no longer finds it new.
                if !self.is_known(&path) {
                    self.pass.unlisted.insert(Arc::clone(&path));
                }
                self.dirty(path, event.zxid);
            }
            EventType::NodeDeleted => {
                self.remove(&path);
                if self.style == WatchStyle::OneShot && path == self.config.scope.root {
                    self.absent(&path, &Read::Data(Arc::clone(&path)));
                }
            }
            EventType::NodeChildrenChanged
                if self.style == WatchStyle::OneShot && self.nodes.contains_key(&path) =>
            {
                self.ask_list(&path);
            }
            _ => {}
        }
    }

    /// Reads a znode that has changed, unless a read is outstanding: its reply comes after the event, so it shows the change.
    fn dirty(&mut self, path: Arc<str>, zxid: Option<Zxid>) {
        let reads = self.ask(&path);
        reads.event = reads.event.max(zxid.unwrap_or(Zxid(0)));
        // A Stat that differs leads to a read.
        if !reads.check || self.style == WatchStyle::OneShot {
            self.ask_data(&path);
        }
    }
}
