//! Servers with a data directory: what is acknowledged survives, whatever happens to the process and to the power.

mod crashes;
mod gate;
mod ghosts;
mod held_disk;
mod latency;
mod real_disk;
mod restores;
mod snapshots;
