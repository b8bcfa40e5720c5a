//! Logging to stderr. Stdout is for the one line that announces a ready server.

mod audit;
mod queue;

use std::io::{self, IsTerminal as _};
use std::time::SystemTime;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Format;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::log::audit::WithAudit;
use crate::log::queue::LogQueue;
use crate::text::quoted;

/// The filter if neither `--log` nor `RUST_LOG` is given.
const DEFAULT: LevelFilter = LevelFilter::WARN;

/// How a line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    /// An object a line: `timestamp`, `level`, `target`, `message` and the fields of the event.
    Json,
}

impl LogFormat {
    /// A line that is not an event.
    fn line(self, level: Level, message: &str) -> String {
        match self {
            Self::Text => format!("zoolet: {message}\n"),
            Self::Json => {
                let timestamp = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
                let fields = serde_json::json!({
                    "timestamp": timestamp, "level": level.as_str(), "message": message, "target": "zoolet"
                });
                format!("{fields}\n")
            }
        }
    }
}

/// Logging, until it is dropped: then it waits a moment for what is not written yet.
#[must_use = "lines are lost if nothing waits for them"]
pub(crate) struct Logging {
    queue: LogQueue,
    format: LogFormat,
}

/// Sets up logging for the process. The filter is that of `--log` or else of `RUST_LOG`: a level, or several by module, such
/// as `info,zoolet_server=debug`.
///
/// # Errors
/// `--log` is invalid. An invalid `RUST_LOG`, which may be meant for other programs, is only a warning.
pub(crate) fn start(flag: Option<&str>, format: LogFormat) -> Result<Logging, Failure> {
    let mut complaint = None;
    let filter = match (flag, std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty())) {
        (Some(filter), _) => {
            parse(filter).map_err(|hint| Failure::Log { filter: filter.to_owned(), hint })?
        }
        (None, Some(filter)) => parse(&filter).unwrap_or_else(|hint| {
            complaint = Some(format!("RUST_LOG = {}: {hint}; logging at {DEFAULT}", quoted(&filter)));
            Targets::new().with_default(DEFAULT)
        }),
        (None, None) => Targets::new().with_default(DEFAULT),
    };
    // Audit lines pass every filter: a server writes them only if that is asked for.
    let filter = filter.with_target(audit::TARGET, LevelFilter::INFO);
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let queue = LogQueue::start(io::stderr(), format)
        .map_err(|source| Failure::System { action: "start the thread that writes the log", source })?;
    let subscriber = tracing_subscriber::fmt()
        // The filter decides alone.
        .with_max_level(LevelFilter::TRACE)
        .with_writer(queue.clone())
        .with_ansi(colours)
        // A failed write would be reported to stderr, where it fails again with a panic.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => {
            subscriber
                .event_format(WithAudit(Format::default().with_ansi(colours)))
                .finish()
                .with(filter)
                .init();
        }
        LogFormat::Json => {
            // A list of spans would repeat the innermost.
            let subscriber = subscriber.json().flatten_event(true).with_span_list(false);
            subscriber.finish().with(filter).init();
        }
    }
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
    Ok(Logging { queue, format })
}

impl Logging {
    /// Writes what ends the process, whatever the filter, so that a collector of JSON has it too. Returns whether it has: as text
    /// it is written where that of every command is.
    pub(crate) fn report(&self, failure: &Failure) -> bool {
        if self.format == LogFormat::Text {
            return false;
        }
        for line in failure.to_string().lines() {
            self.queue.push_last(&self.format.line(Level::ERROR, line));
        }
        true
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.queue.drain();
    }
}

fn parse(filter: &str) -> Result<Targets, String> {
    // A misspelt level would be taken for the name of a module, and silence everything else.
    let bare = !filter.contains(['=', ',', '[', ':']);
    if filter.is_empty() || bare && filter.parse::<LevelFilter>().is_err() {
        return Err("must be off, error, warn, info, debug or trace, or a filter such as \
                    info,zoolet_server=debug"
            .to_owned());
    }
    filter.parse().map_err(|error| format!("{error}; an example is info,zoolet_server=debug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_accepted_and_misspelt_levels_are_not() {
        for filter in
            ["off", "warn", "DEBUG", "info,zoolet_server=trace", "zoolet_server_core::session=debug"]
        {
            assert!(parse(filter).is_ok(), "{filter}");
        }
        for filter in ["", "debgu", "verbose", "info,zoolet_server=loud"] {
            assert!(parse(filter).is_err(), "{filter}");
        }
    }
}
