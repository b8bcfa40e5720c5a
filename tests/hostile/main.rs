//! Attacks on a server, and what its other clients notice.
//!
//! `tests/hostile/run` runs them on `zoolet serve` and `tests/hostile/run --apache` on Apache ZooKeeper. They measure time, so `cargo
//! test` ignores them.
//!
//! Each attack has two fresh servers with the same settings: one is attacked, the other is not. At each a bystander reads and writes
//! 200 times a second on a connection that it opened before; at the attacked one, idle sessions send pings as well. The rule for
//! Zoolet, unless a test states other bounds:
//!
//! - the bystander's longest wait is at most 100 ms above that of the bystander at the other server, which has the noise of the
//!   machine and of the attacker's own work in it;
//! - resident memory grows by at most 256 MiB above that before the attack; what sockets hold is the kernel's and not part of it;
//! - no session of a bystander or an idle client is lost;
//! - the server obeys SIGTERM within a second more than the other one, while the attacker's connections are still open.
//!
//! An attack that breaks the rule is repeated once; the test fails if it breaks it again. An attack is over when the server uses
//! less than 40 % of a processor for half a second, or after 20 s (30 s on Apache, where nothing is asserted).

mod attacks;
mod bystander;
mod peer;
mod server;
mod soak;
mod trial;
