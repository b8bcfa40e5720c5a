//! `zoolet capture`: a recording proxy before a server.

use std::path::PathBuf;
use std::process::ExitCode;

use zoolet_conformance::Capture;

use crate::failure::Failure;
use crate::output::Lines;
use crate::runtime;
use crate::signals::Signals;

/// The arguments of `zoolet capture`.
#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArguments {
    /// Where clients connect to; with port 0 a free port is taken and printed
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// The server
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    /// The capture; a file of this name is replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl CaptureArguments {
    /// Records until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let runtime = runtime::start()?;
        runtime.block_on(async {
            let signals = Signals::listen();
            let mut signals =
                signals.map_err(|source| Failure::System { action: "listen for signals", source })?;
            let capture = Capture::start(&self.listen, &self.server, &self.file).await?;
            let mut lines = Lines::new();
            lines.line(&format!("listening on {}", capture.address()))?;
            lines.flush()?;
            let stop = async {
                signals.next().await;
            };
            let captured = capture.run(stop).await?;
            lines.line(&format!(
                "{}: {} connections, {} frames",
                self.file.display(),
                captured.connections,
                captured.frames
            ))?;
            lines.flush()?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
