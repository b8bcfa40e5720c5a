//! `zoolet health` and `zoolet wait`: whether a server serves, for a container, a supervisor or a script.

mod probe;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;
use zoolet_server::ServerBuilder;

use crate::duration;
use crate::failure::Failure;
use crate::json;
use crate::output::Lines;
use crate::relay::RelayArguments;
use crate::runtime;
use crate::text::quoted;
use probe::Serving;
pub(crate) use probe::Trouble;

/// How long `wait` rests between two looks: a server starts in milliseconds, or in minutes.
const FIRST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(500);

/// The arguments of `zoolet health`.
#[derive(Debug, clap::Args)]
pub(crate) struct Health {
    /// The server
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:2181", value_parser = address)]
    address: String,
    /// How long to wait for its answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::interval)]
    timeout: Duration,
    /// Print an object in one line, also if the server is not healthy
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    relay: RelayArguments,
}

/// The arguments of `zoolet wait`.
#[derive(Debug, clap::Args)]
pub(crate) struct Wait {
    /// The server
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:2181", value_parser = address)]
    address: String,
    /// How long to wait until it serves
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::interval)]
    timeout: Duration,
    /// Print an object in one line, also if the server does not serve in time
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    relay: RelayArguments,
}

impl Health {
    /// Asks once. The exit code is 0 if the server serves, and 1 if not.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Self { address, timeout, json, relay } = self;
        look(&address, &relay, json, async |address, since| Looked {
            outcome: probe::ask(&address, since + timeout).await,
            took: since.elapsed(),
        })
    }
}

impl Wait {
    /// Asks again and again until the server serves.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let Self { address, timeout, json, relay } = self;
        look(&address, &relay, json, async |address, since| {
            let end = since + timeout;
            let mut rest = FIRST_REST;
            loop {
                let outcome = probe::ask(&address, end).await;
                let took = since.elapsed();
                if outcome.is_ok() || took + rest >= timeout {
                    return Looked { outcome, took };
                }
                sleep(rest).await;
                rest = (rest * 2).min(LONGEST_REST);
            }
        })
    }
}

/// What a command has seen.
struct Looked {
    outcome: Result<Serving, Trouble>,
    took: Duration,
}

fn look(
    address: &str,
    relay: &RelayArguments,
    as_json: bool,
    looking: impl AsyncFnOnce(String, Instant) -> Looked,
) -> Result<ExitCode, Failure> {
    let runtime = runtime::start()?;
    let Looked { outcome, took } = runtime.block_on(async {
        let reached = relay.route(address).await?;
        Ok::<_, Failure>(looking(reached, Instant::now()).await)
    })?;
    // The lookup of a name may take longer than the timeout.
    runtime.shutdown_background();
    let mut lines = Lines::new();
    match outcome {
        Ok(serving) => {
            let line = if as_json {
                let head = json!({"address": address, "healthy": true});
                json::line(&json::joined([head, serving.json(), took_ms(took)]))
            } else {
                format!("{address} serves: {serving}; {} ms", millis(took))
            };
            lines.line(&line)?;
            lines.end()
        }
        Err(trouble) => {
            if as_json {
                let head = json!({"address": address, "healthy": false, "error": trouble.to_string()});
                lines.line(&json::line(&json::joined([head, took_ms(took)])))?;
                lines.flush()?;
            }
            Err(Failure::Unhealthy { address: quoted(address), trouble })
        }
    }
}

/// Milliseconds with a digit after the point.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).round() / 10.0
}

fn took_ms(took: Duration) -> serde_json::Value {
    json!({"took_ms": millis(took)})
}

fn address(text: &str) -> Result<String, String> {
    match text {
        _ if ServerBuilder::is_address(text) => Ok(text.to_owned()),
        _ => Err("must be a host and a port, such as 127.0.0.1:2181".to_owned()),
    }
}
