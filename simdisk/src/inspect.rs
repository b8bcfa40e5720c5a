//! What a test sees and changes of a [`Machine`] without being one of its processes.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use crate::directory::NameTarget;
use crate::file::FileState;
use crate::machine::{File, Machine, ROOT, components};

impl Machine {
    pub(crate) fn flip(&mut self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let file = self.file(path)?;
        if offset >= self.files[&file].state.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.file_mut(file).state.flip(offset, bit);
        Ok(())
    }

    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = &self.files[&self.file(path)?].state;
        let mut bytes = vec![0; state.len() as usize];
        state.read(&mut bytes, 0);
        Ok(bytes)
    }

    pub(crate) fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut names = components(path)?;
        let name = names.pop().ok_or(ErrorKind::IsADirectory)?;
        let mut dir = ROOT;
        for name in names {
            dir = match self.dirs[&dir].get(&name) {
                Some(NameTarget::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Some(NameTarget::Dir(below)) => below,
                None => {
                    let id = self.next_id();
                    self.dirs.insert(id, Arc::default());
                    self.dir_mut(dir).insert_durable(name, NameTarget::Dir(id));
                    id
                }
            };
        }
        if let Some(NameTarget::Dir(_)) = self.dirs[&dir].get(&name) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let id = self.next_id();
        let file = File { name: name.clone(), state: FileState::durable(bytes), handles: 0 };
        self.files.insert(id, Arc::new(file));
        self.dir_mut(dir).insert_durable(name, NameTarget::File(id));
        Ok(())
    }

    pub(crate) fn tree(&self) -> String {
        let mut lines = String::new();
        self.write_tree(&mut lines, ROOT, 0);
        lines
    }

    fn write_tree(&self, lines: &mut String, dir: u64, depth: usize) {
        let indent = "  ".repeat(depth);
        let dir = &self.dirs[&dir];
        for (name, target) in dir.names() {
            let unsynced = if dir.is_durable(name) { "" } else { ", name not synced" };
            let name = name.to_string_lossy();
            _ = match target {
                NameTarget::Dir(_) => writeln!(lines, "{indent}{name}/{unsynced}"),
                NameTarget::File(file) => {
                    let state = &self.files[&file].state;
                    let (len, durable, dirty) = (state.len(), state.durable_len(), state.dirty_pages());
                    let shorter =
                        if len == durable { String::new() } else { format!(", {durable} of them synced") };
                    let dirty =
                        if dirty == 0 { String::new() } else { format!(", {dirty} pages not synced") };
                    writeln!(lines, "{indent}{name}: {len} bytes{shorter}{dirty}{unsynced}")
                }
            };
            if let NameTarget::Dir(below) = target {
                self.write_tree(lines, below, depth + 1);
            }
        }
        for name in dir.unsynced_removals() {
            _ = writeln!(lines, "{indent}({}: gone, not synced)", name.to_string_lossy());
        }
    }
}
