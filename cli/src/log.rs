//! Logging to stderr. Stdout is for the one line that announces a ready server.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::failure::Failure;

/// Sets up logging for the process: a level, or a filter such as `info,zoolet_server=debug`.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let parsed = parse(filter).map_err(|hint| Failure::Log { filter: filter.to_owned(), hint })?;
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(io::stderr)
        .with_ansi(colours)
        // A failed write would be reported to stderr, where it fails again with a panic.
        .log_internal_errors(false)
        .init();
    Ok(())
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    // A misspelt level would be taken for the name of a module, and silence everything else.
    let bare = !filter.contains(['=', ',', '[', ':']);
    if filter.is_empty() || bare && filter.parse::<LevelFilter>().is_err() {
        return Err("must be off, error, warn, info, debug or trace, or a filter such as \
                    info,zoolet_server=debug"
            .to_owned());
    }
    EnvFilter::try_new(filter).map_err(|error| format!("{error}; an example is info,zoolet_server=debug"))
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
