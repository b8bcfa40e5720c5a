//! What a test sees and changes of a disk without being one of its processes.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use crate::directory::NameTarget;
use crate::disk::SimulatedDisk;
use crate::file::FileState;
use crate::machine::{File, Machine, ROOT, components};

impl SimulatedDisk {
    /// Flips a bit of a file, on disk and in what is read.
    ///
    /// # Errors
    /// There is no such file, or it is shorter.
    pub fn flip(&self, path: impl AsRef<Path>, offset: u64, bit: u8) -> io::Result<()> {
        let mut machine = self.machine();
        let file = machine.file(path.as_ref())?;
        if offset >= machine.files[&file].state.len() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        machine.file_mut(file).state.flip(offset, bit);
        Ok(())
    }

    /// The whole content of a file, as a process sees it.
    ///
    /// # Errors
    /// There is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let machine = self.machine();
        let state = &machine.files[&machine.file(path.as_ref())?].state;
        let mut bytes = vec![0; state.len() as usize];
        state.read(&mut bytes, 0);
        Ok(bytes)
    }

    /// Puts a file on the disk as if it had been there for long: durable, with its directories. It is not a step, and no fault
    /// matches it.
    ///
    /// # Errors
    /// A directory is in the way, or a file where a directory must be.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut machine = self.machine();
        let mut names = components(path.as_ref())?;
        let name = names.pop().ok_or(ErrorKind::IsADirectory)?;
        let mut dir = ROOT;
        for name in names {
            dir = match machine.dirs[&dir].get(&name) {
                Some(NameTarget::File(_)) => return Err(ErrorKind::NotADirectory.into()),
                Some(NameTarget::Dir(below)) => below,
                None => {
                    let id = machine.next_id();
                    machine.dirs.insert(id, Arc::default());
                    machine.dir_mut(dir).insert_durable(name, NameTarget::Dir(id));
                    id
                }
            };
        }
        if let Some(NameTarget::Dir(_)) = machine.dirs[&dir].get(&name) {
            return Err(ErrorKind::IsADirectory.into());
        }
        let id = machine.next_id();
        let file = File { name: name.clone(), state: FileState::durable(bytes.as_ref()), handles: 0 };
        machine.files.insert(id, Arc::new(file));
        machine.dir_mut(dir).insert_durable(name, NameTarget::File(id));
        Ok(())
    }

    /// All directories and files, a line each, with what of them is not durable: for the messages of failing tests.
    pub fn tree(&self) -> String {
        let mut lines = String::new();
        self.machine().write_tree(&mut lines, ROOT, 0);
        lines
    }
}

impl Machine {
    fn write_tree(&self, lines: &mut String, dir: u64, depth: usize) {
        let indent = "  ".repeat(depth);
        let dir = &self.dirs[&dir];
        for (name, target) in dir.names() {
            let unsynced = if dir.is_durable(name) { "" } else { ", name not synced" };
            let name = name.to_string_lossy();
            match target {
                NameTarget::Dir(below) => {
                    _ = writeln!(lines, "{indent}{name}/{unsynced}");
                    self.write_tree(lines, below, depth + 1);
                }
                NameTarget::File(file) => {
                    let state = &self.files[&file].state;
                    let (len, durable, dirty) = (state.len(), state.durable_len(), state.dirty_pages());
                    let shorter =
                        if len == durable { String::new() } else { format!(", {durable} of them synced") };
                    let dirty =
                        if dirty == 0 { String::new() } else { format!(", {dirty} pages not synced") };
                    _ = writeln!(lines, "{indent}{name}: {len} bytes{shorter}{dirty}{unsynced}");
                }
            }
        }
        for name in dir.unsynced_removals() {
            _ = writeln!(lines, "{indent}({}: gone, not synced)", name.to_string_lossy());
        }
    }
}
