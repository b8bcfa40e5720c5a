//! `zoolet serve`: arguments and `zoo.cfg` to a builder, then a server until a signal.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};
use zoolet_server::{Server, ServerBuilder};

use crate::failure::Failure;
use crate::log;
use crate::settings::{Secret, Settings, check_super_digest};
use crate::signals::Signals;
use crate::zoo_cfg;

/// The arguments of `zoolet serve`.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// A zoo.cfg to take settings from; what the command line says wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,

    /// A file with the super digest, which other users of the machine cannot see in the list of processes
    #[arg(long, value_name = "FILE", conflicts_with = "super_digest")]
    super_digest_file: Option<PathBuf>,

    /// What to log to stderr: off, error, warn, info, debug or trace, or a filter by module such as
    /// info,zoolet_server=debug
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: String,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        log::start(&self.log)?;
        let builder = self.builder()?;
        let runtime =
            runtime().map_err(|source| Failure::System { what: "start the async runtime", source })?;
        let outcome = runtime.block_on(serve(builder));
        // Dropping it would wait for whatever still runs, which is nothing unless a second signal came.
        runtime.shutdown_background();
        outcome
    }

    fn builder(self) -> Result<ServerBuilder, Failure> {
        let mut given = self.settings;
        if let Some(digest) = &given.super_digest {
            check_super_digest(&digest.0)
                .map_err(|hint| Failure::SuperDigest { origin: "--super-digest".to_owned(), hint })?;
        }
        if let Some(file) = self.super_digest_file {
            given.super_digest = Some(read_super_digest(file)?);
        }
        let settings = match self.config {
            Some(file) => {
                let config = zoo_cfg::read(&file)?;
                if let Some(warning) = config.warning() {
                    tracing::warn!("{warning}");
                }
                given.over(config.settings)
            }
            None => given,
        };
        settings.builder()
    }
}

/// The one place that decides on threads. One task owns the state and decides every request, so a second thread would
/// only take over reading and writing sockets, at the price of waking each other.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn read_super_digest(file: PathBuf) -> Result<Secret, Failure> {
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            let digest = text.trim();
            check_super_digest(digest)
                .map_err(|hint| Failure::SuperDigest { origin: file.display().to_string(), hint })?;
            Ok(Secret(digest.to_owned()))
        }
        Err(source) => Err(Failure::SuperDigestFile { file, source }),
    }
}

async fn serve(builder: ServerBuilder) -> Result<ExitCode, Failure> {
    // Before anybody can know of the server, so that whoever does can stop it.
    let mut signals =
        Signals::listen().map_err(|source| Failure::System { what: "listen for signals", source })?;
    let Some(started) = unless(signals.next(), builder.start()).await else {
        tracing::info!("stopping before the server has started");
        return Ok(ExitCode::SUCCESS);
    };
    let server = started?;
    if let Err(error) = announce(&server) {
        // Whoever started it does not listen, which is no reason not to serve.
        tracing::warn!(%error, "cannot tell on stdout that the server answers");
    }
    signals.next().await;
    tracing::info!("stopping");
    Ok(stop(server.shutdown(), signals.next()).await)
}

/// What `starting` comes to; nothing if a signal comes first. Looking up a name may take long.
async fn unless<T>(signal: impl Future<Output = u8>, starting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = signal => None,
        started = starting => Some(started),
    }
}

/// The one line that tells the server will answer, and where.
fn announce(server: &Server) -> io::Result<()> {
    let addrs: Vec<_> = server.addrs().iter().map(ToString::to_string).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "zoolet {} answers on {}", env!("CARGO_PKG_VERSION"), addrs.join(","))?;
    out.flush()
}

/// Waits until the server has stopped, or until somebody has lost patience.
async fn stop(stopped: impl Future<Output = ()>, again: impl Future<Output = u8>) -> ExitCode {
    tokio::select! {
        biased;
        () = stopped => ExitCode::SUCCESS,
        code = again => ExitCode::from(code),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_signal_ends_a_start_that_takes_long() {
        assert_eq!(unless(ready(143), pending::<()>()).await, None);
        assert_eq!(unless(pending(), ready("started")).await, Some("started"));
    }

    #[tokio::test]
    async fn a_second_signal_ends_a_stop_that_takes_long() {
        assert_eq!(stop(pending(), ready(130)).await, ExitCode::from(130));
        assert_eq!(stop(ready(()), pending()).await, ExitCode::SUCCESS);
    }
}
