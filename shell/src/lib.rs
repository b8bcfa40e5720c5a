//! A command line for any ZooKeeper from 3.4 on. Every command runs by itself (`zoolet get /a`) and in a shell (`zoolet sh`), with
//! the answer and nothing else on stdout, as text or as JSON.
//!
//! [`Invocation`] is a command with its flags, for a program that parses its arguments with `clap`; [`Shell`] runs commands on a
//! client, wherever their output goes:
//!
//! ```no_run
//! use zoolet_client::Client;
//! use zoolet_shell::{Shell, ShellIo};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let (mut out, mut notes) = (Vec::new(), Vec::new());
//! let mut shell = Shell::new(client, ShellIo::new(&mut out, &mut notes));
//! shell.run_line("find / --name 'job-*'").await?;
//! # Ok(()) }
//! ```
//!
//! The manual is `docs/shell.md`.

mod address;
mod answer;
mod clusters;
mod colour;
mod command;
mod connect;
mod dial;
mod diff;
mod failure;
mod interactive;
mod invocation;
mod json;
mod line;
mod reach;
mod read;
mod shell;
mod split;
mod text;
mod transfer;
mod walk;
mod write;

pub use answer::ShellIo;
pub use clusters::{NamedCluster, named_cluster};
pub use command::{ShellCommand, name_here};
pub use connect::ConnectArguments;
pub use failure::{ExitReason, ShellError};
pub use interactive::{ShellArguments, run_shell};
pub use invocation::{Invocation, OutputArguments, ProcessArguments, run};
pub use line::is_only_in_shell;
pub use read::wait::ZnodeWait;
pub use shell::{OtherServers, Shell};
