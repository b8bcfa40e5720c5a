//! `zoolet capture`: a recording proxy before a server.

use std::path::PathBuf;
use std::process::ExitCode;

use zoolet_conformance::Capture;

use crate::failure::Failure;
use crate::kit::reach::Reach;
use crate::output::{Lines, until_reader_leaves, warn};
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
    #[command(flatten)]
    reach: Reach,
    /// The capture; a file of this name is replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl CaptureArguments {
    /// Records until SIGINT or SIGTERM.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        runtime::run(async {
            let mut signals = Signals::listen()?;
            let starting = async {
                let server = self.reach.server(&self.server, "").await?;
                Capture::start(&self.listen, &server, &self.file).await.map_err(Failure::from)
            };
            let capture = tokio::select! {
                started = starting => started?,
                code = signals.next() => return Ok(ExitCode::from(code)),
            };
            let mut lines = Lines::new();
            lines.line(&format!("listening on {}", capture.address()))?;
            lines.flush()?;
            let stop = async {
                signals.next().await;
            };
            let captured = capture.run(stop).await?;
            captured.warnings.iter().for_each(|warning| warn(warning));
            let counts = format!("{} connections, {} frames", captured.connections, captured.frames);
            let printed =
                lines.line(&format!("{}: {counts}", self.file.display())).and_then(|()| lines.end());
            // The capture is whole, even if nobody reads this line.
            until_reader_leaves(printed)
        })
    }
}
