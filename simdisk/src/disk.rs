//! [`SimulatedDisk`]: a disk in memory that loses power, fails and lies on demand.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::{DiskFault, DiskFaultError, DiskFaultId, DiskMatcher, FiredDiskFault};
use crate::machine::Machine;

/// A disk in memory, for tests. It keeps exactly what [`Disk`](zoolet_storage::disk::Disk) promises, and of the rest what a seed says.
///
/// **What a power loss takes.** Unsynced pages of 4 KiB are lost, kept or torn independently of one another, in sectors of 512 bytes,
/// each with any content that it had since the last sync. The length of a file is any that it had since then. Of the unsynced changes of
/// a directory any may be lost; a rename is one change, and a change of a name needs the earlier ones of that name. Syncing a file
/// does not make its name durable. Journaling file systems keep the order of such changes, others do not, so the harsher is simulated.
///
/// **Processes.** A handle is a process: clones of it are the same one. [`kill`](Self::kill) and [`power_loss`](Self::power_loss)
/// return the handle of the next process. The old one can then do nothing, not even remove its temporary files, and what it
/// had open and locked is closed and free. The controls of the disk work on every handle.
///
/// **Steps.** Operations that change something are numbered from 1. The machine stops at step `n` after
/// [`crash_at(n)`](Self::crash_at).
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::path::Path;
/// use zoolet_simdisk::SimulatedDisk;
/// use zoolet_storage::disk::Disk;
///
/// let disk = SimulatedDisk::new(7);
/// let dir = Path::new("/data");
/// disk.create_dir(dir)?;
/// let mut file = disk.create(&dir.join("log"))?;
/// file.write_at(b"synced", 0)?;
/// file.sync()?;
/// disk.sync_dir(dir)?;
/// file.write_at(b" or not", 6)?;
/// for seed in 0..100 {
///     let disk = disk.fork().power_loss(seed);
///     assert!(disk.read("/data/log")?.starts_with(b"synced"), "seed {seed}\n{}", disk.tree());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SimulatedDisk {
    machine: Arc<Mutex<Machine>>,
    process: u64,
}

impl SimulatedDisk {
    /// An empty disk. The seed decides what [`DiskFault`] and [`crash_at`](Self::crash_at) leave open.
    pub fn new(seed: u64) -> Self {
        Self::running(Machine::new(seed))
    }

    /// Ends the process: what it wrote stays, synced or not. Returns the handle of the next one.
    #[must_use = "the old handle is dead"]
    pub fn kill(&self) -> Self {
        let process = self.machine().kill();
        Self { machine: Arc::clone(&self.machine), process }
    }

    /// Turns the power off and on: of what is not synced the seed decides what is left. Returns the handle of the next process.
    #[must_use = "the old handle is dead"]
    pub fn power_loss(&self, seed: u64) -> Self {
        let process = self.machine().lose_power(seed);
        Self { machine: Arc::clone(&self.machine), process }
    }

    /// Stops the machine at this step: it is done not at all, whole or in part, as the seed says, and it and everything later
    /// fails, until [`power_loss`](Self::power_loss) or [`kill`](Self::kill).
    pub fn crash_at(&self, step: u64) {
        self.machine().crash_at = Some(step);
    }

    /// How many operations have changed something, failed ones included.
    pub fn steps(&self) -> u64 {
        self.machine().steps
    }

    /// Whether the machine stopped at the step of [`crash_at`](Self::crash_at).
    pub fn has_crashed(&self) -> bool {
        self.machine().is_off
    }

    /// A copy of the disk as it is, page cache included, for a process of its own. Steps are counted on from here, and placed faults
    /// are copied. It is cheap: the bytes are shared until one of both changes them.
    #[must_use = "a fork changes nothing here"]
    pub fn fork(&self) -> Self {
        Self::running(self.machine().fork())
    }

    /// Keeps a [`fork`](Self::fork) of the disk from before each step from now on, for [`take_history`](Self::take_history).
    pub fn keep_history(&self) {
        self.machine().history = Some(Vec::new());
    }

    /// The forks that are kept, each with the number of the step that it is just before.
    pub fn take_history(&self) -> Vec<(u64, Self)> {
        let history = self.machine().history.as_mut().map(std::mem::take).unwrap_or_default();
        history.into_iter().map(|machine| (machine.steps + 1, Self::running(machine))).collect()
    }

    /// Places a fault.
    ///
    /// ```
    /// use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
    ///
    /// let disk = SimulatedDisk::new(0);
    /// disk.place(DiskOp::Sync.on("log.*").nth(3), DiskFault::Fail)?;
    /// disk.place(DiskOp::Read.any(), DiskFault::Short { bytes: 100 })?;
    /// # Ok::<_, zoolet_simdisk::DiskFaultError>(())
    /// ```
    ///
    /// # Errors
    /// The operation cannot go wrong in this way. No fault is placed then.
    pub fn place(&self, matcher: DiskMatcher, fault: DiskFault) -> Result<DiskFaultId, DiskFaultError> {
        self.machine().rules.place(matcher, fault)
    }

    /// Removes a fault. Returns whether it existed.
    pub fn remove_fault(&self, id: DiskFaultId) -> bool {
        self.machine().rules.remove(id)
    }

    /// Removes every fault.
    pub fn clear_faults(&self) {
        self.machine().rules.clear();
    }

    /// The faults that fired, in order.
    pub fn fired(&self) -> Vec<FiredDiskFault> {
        self.machine().rules.fired.clone()
    }

    /// How many bytes may still be allocated, in pages of 4 KiB, before the disk is full; `None`, the default, for any number.
    /// Reserved room is allocated. Files that are cut or removed give room back.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.machine().free = bytes;
    }

    fn running(machine: Machine) -> Self {
        Self { process: machine.process, machine: Arc::new(Mutex::new(machine)) }
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine, unless the process of this handle is dead or the machine is off.
    pub(crate) fn running_process(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let machine = self.machine();
        if self.process != machine.process {
            return Err(io::Error::other(
                "the process of this handle was killed; use the handle of the next one",
            ));
        }
        machine.check_on()?;
        Ok(machine)
    }

    /// Gives something of the process back, unless its end has done so.
    pub(crate) fn of_process(&self, give_back: impl FnOnce(&mut Machine)) {
        let mut machine = self.machine();
        if self.process == machine.process {
            give_back(&mut machine);
        }
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk").field("process", &self.process).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zoolet_storage::disk::Disk as _;

    use super::*;

    #[test]
    fn memory_is_bounded_though_nothing_is_ever_synced() {
        let disk = SimulatedDisk::new(1);
        let mut file = disk.create(Path::new("/a")).unwrap();
        for n in 0..100_000 {
            file.write_at(b"x", n % 8192).unwrap();
            file.set_len(8192 + n % 10).unwrap();
            if n % 16 == 0 {
                disk.create(Path::new("/b")).unwrap();
                disk.remove(Path::new("/b")).unwrap();
            }
        }
        let machine = disk.machine();
        let held = format!("{machine:?}").matches("Version").count();
        assert!(held <= 8 * 3, "{held} states of three pages");
        let changes = format!("{machine:?}").matches("Change {").count();
        assert!(changes <= 1024, "{changes} changes of names");
    }

    #[test]
    fn what_a_power_loss_takes_of_one_file_is_not_free_if_another_gets_it_back() {
        for seed in 0..100 {
            let disk = SimulatedDisk::new(1);
            disk.write("/a", [1; 2 * 4096]).unwrap();
            disk.write("/b", []).unwrap();
            disk.set_free_space(Some(0));
            disk.create(Path::new("/a")).unwrap();
            disk.create(Path::new("/b")).unwrap().write_at(&[1; 2 * 4096], 0).unwrap();
            let disk = disk.power_loss(seed);
            let machine = disk.machine();
            let room = (2 * 4096_u64).saturating_sub(machine.allocated());
            assert_eq!(machine.free, Some(room), "seed {seed}");
        }
    }
}
