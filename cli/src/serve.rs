//! `zoolet serve`: builds a server from arguments and `zoo.cfg`, and runs it until a signal.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zoolet_proto::Zxid;
use zoolet_server::Server;
use zoolet_storage::RecoveryReport;

use crate::endpoints::Endpoints;
use crate::failure::Failure;
use crate::log::{self, LogFormat};
use crate::notify::Notifier;
use crate::runtime;
use crate::settings::{Flags, Settings};
use crate::signals::{ReloadSignals, Signals};
use crate::text::counted;
use crate::zoo_cfg;

/// The arguments of `zoolet serve`.
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// Read settings from a zoo.cfg; flags take precedence over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags,

    /// Keep the state in memory although the zoo.cfg has a dataDir
    #[arg(long, conflicts_with_all = ["data-dir", "log-dir"])]
    in_memory: bool,

    /// Read the super digest from a file, so that it does not appear in the process list
    #[arg(long, value_name = "FILE", conflicts_with = "super-digest")]
    super_digest_file: Option<PathBuf>,

    /// Log level on stderr: off, error, warn, info, debug or trace, or a filter by module such as
    /// info,zoolet_server=debug. Takes precedence over the environment variable RUST_LOG [default: warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,

    /// Write the log as text, or as JSON, an object a line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: LogFormat,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let logging = log::start(self.log.as_deref(), self.log_format)?;
        self.serve().or_else(|failure| match logging.report(&failure) {
            true => Ok(ExitCode::from(failure.code())),
            false => Err(failure),
        })
    }

    fn serve(self) -> Result<ExitCode, Failure> {
        let settings = self.settings()?;
        // Requests are executed one batch at a time under one lock, so a second thread would only share the socket I/O, at
        // the price of cross-thread wake-ups.
        runtime::run(serve(settings))
    }

    /// What the settings of the file ask for, and those of the flags over them.
    ///
    /// # Errors
    /// All mistakes at once, so that one edit of the file is enough.
    fn settings(self) -> Result<Settings, Failure> {
        let config = self.config.as_deref().map(zoo_cfg::read).transpose()?.unwrap_or_default();
        let mut is_valid = config.has_valid_values();
        let mut settings = config.settings;
        let mut mistakes: Vec<Failure> =
            self.flags.apply(&mut settings).into_iter().map(Failure::from).collect();
        settings.in_memory = self.in_memory;
        if let Some(file) = self.super_digest_file {
            let read = std::fs::read_to_string(&file);
            let text = read.map_err(Failure::file("read the super digest from", &file))?;
            mistakes.extend(settings.super_digest_of(&file, &text).err().map(Failure::from));
        }
        is_valid &= mistakes.is_empty();
        mistakes.extend(config.mistakes.into_iter().map(Failure::from));
        // What depends on several values is not judged while one of them is invalid.
        if is_valid && !settings.may_store() {
            mistakes.extend(self.flags.without_data_dir().map(Failure::from));
            mistakes.extend(config.without_data_dir.into_iter().map(Failure::from));
        }
        if is_valid {
            mistakes.extend(settings.check().into_iter().map(Failure::from));
            mistakes.extend(settings.load().err().map(Failure::from));
        }
        match mistakes.len() {
            0 => {
                let warnings = config.warnings.into_iter().chain(self.flags.warnings());
                warnings.for_each(|warning| tracing::warn!("{warning}"));
                settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                Ok(settings)
            }
            1 => Err(mistakes.remove(0)),
            _ => Err(Failure::Several(mistakes)),
        }
    }
}

async fn serve(settings: Settings) -> Result<ExitCode, Failure> {
    let builder = settings.builder();
    let data_dir = builder.storage_options().map(|options| options.data_dir.clone());
    let notifier = Notifier::from_environment();
    // First, so that any process that knows of the server can stop it.
    let (mut signals, mut reloads) = (Signals::listen()?, ReloadSignals::listen()?);
    let Some(started) = unless(signals.next(), builder.start()).await else {
        tracing::info!("signal received before the server started; exiting");
        return Ok(ExitCode::SUCCESS);
    };
    let server = started?;
    let endpoints = match unless(signals.next(), Endpoints::start(&settings, &server)).await {
        Some(Ok(endpoints)) => endpoints,
        ended => {
            let code = stop(server.shutdown(), signals.next()).await;
            return ended.and_then(Result::err).map_or(Ok(code), Err);
        }
    };
    let addrs = addresses(&server, &endpoints);
    if let Err(error) = announce(&server, &addrs, data_dir.as_deref()) {
        // A closed stdout is no reason not to serve.
        tracing::warn!(%error, "cannot announce the server on stdout");
    }
    notifier.ready(&addrs);
    let reloading = async {
        loop {
            reloads.next().await;
            notifier.reloading();
            reload(&server, &endpoints, settings.has_certificates()).await;
            notifier.ready(&addrs);
        }
    };
    // A file that hangs keeps a reload waiting, and nothing else.
    let failure = tokio::select! {
        biased;
        error = server.failed() => Some(Failure::Disk(error)),
        _ = signals.next() => None,
        () = reloading => None,
        never = notifier.keep_alive() => match never {},
    };
    notifier.stopping();
    if failure.is_none() {
        tracing::info!("signal received; shutting down");
    }
    let stopping = async {
        endpoints.stop().await;
        server.shutdown().await;
    };
    let code = stop(stopping, signals.next()).await;
    failure.map_or(Ok(code), Err)
}

/// Reloads what can change while the server runs: certificates.
async fn reload(server: &Server, endpoints: &Endpoints, has_certificates: bool) {
    const ONLY: &str = "only certificates are reloaded; other settings need a restart";
    if !has_certificates {
        return tracing::warn!("SIGHUP received: there is nothing to reload; {ONLY}");
    }
    #[cfg(feature = "tls")]
    match [server.reload_tls().await, endpoints.reload_tls().await] {
        [Ok(()), Ok(())] => tracing::warn!("SIGHUP received: certificates are reloaded; {ONLY}"),
        outcomes => outcomes.into_iter().filter_map(Result::err).for_each(|error| {
            tracing::error!(%error, "SIGHUP received: new connections use the certificates that were there before");
        }),
    }
    #[cfg(not(feature = "tls"))]
    let _ = (server, endpoints);
}

/// The output of `starting`, or `None` if a signal comes first: a name lookup may take long.
async fn unless<T>(signal: impl Future<Output = u8>, starting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = signal => None,
        started = starting => Some(started),
    }
}

/// Prints the one line that announces the server and its addresses, and what it has loaded.
fn announce(server: &Server, addrs: &str, data_dir: Option<&Path>) -> io::Result<()> {
    let mut line = format!("zoolet {} answers on {}", env!("CARGO_PKG_VERSION"), addrs);
    if let (Some(report), Some(data_dir)) = (server.recovery(), data_dir) {
        // Relative to a current directory that nobody may remember.
        let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        line.push_str(&format!("; data in {}: {}", data_dir.display(), loaded(report)));
        report.cut.iter().for_each(|cut| tracing::warn!("{cut}"));
        report.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if is_empty_without_log(report) {
            tracing::warn!(
                "{} has an empty snapshot and no log; if its log is elsewhere, stop this server and name the directory with \
                 --log-dir (dataLogDir)",
                data_dir.display()
            );
        }
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Where it answers, in plain and by TLS, and what listens beside it.
fn addresses(server: &Server, endpoints: &Endpoints) -> String {
    let list = |addrs: &[SocketAddr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let plain = list(server.addrs());
    #[cfg(feature = "tls")]
    let by_tls = list(server.tls_addrs());
    #[cfg(not(feature = "tls"))]
    let by_tls = String::new();
    let both = match (plain.as_str(), by_tls.as_str()) {
        (_, "") => plain,
        ("", _) => format!("{by_tls} by TLS"),
        _ => format!("{plain}, {by_tls} by TLS"),
    };
    both + &endpoints.shown
}

/// Whether the directory has no more than a new server of Apache ZooKeeper leaves whose log is elsewhere.
fn is_empty_without_log(report: &RecoveryReport) -> bool {
    report.snapshot.as_ref().is_some_and(|(_, zxid)| *zxid == Zxid(0)) && report.log_files == 0
}

/// What the state was made of.
fn loaded(report: &RecoveryReport) -> String {
    let RecoveryReport { snapshot, replayed, last_zxid, .. } = report;
    let from = match snapshot {
        Some((file, _)) => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy(),
        None if *replayed == 0 => return "empty".to_owned(),
        None => "no snapshot".into(),
    };
    format!("{from} and {}, up to zxid {last_zxid}", counted(*replayed, "transaction"))
}

/// Waits until the server has stopped, or until a second signal.
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
