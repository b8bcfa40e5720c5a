//! `zoolet health` and `zoolet wait`: whether servers serve, for a container, a supervisor or a script.

mod place;
mod probe;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::duration;
use crate::failure::Failure;
use crate::json;
use crate::output::Lines;
use crate::relay::{RelayArguments, Route};
use crate::runtime;
use crate::text::quoted;
use place::{Place, address};
use probe::Serving;
pub(crate) use probe::Trouble;

/// How long `wait` rests between two looks: a server starts in milliseconds, or in minutes.
const FIRST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_millis(500);

/// The arguments of `zoolet health`.
#[derive(Debug, clap::Args)]
pub(crate) struct Health {
    /// The servers, all of which must serve; without them, those of the variable ZOOKEEPER, else 127.0.0.1:2181
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    address: Option<String>,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::interval)]
    timeout: Duration,
    /// Print an object in a line for each server, also if it is not healthy
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    relay: RelayArguments,
}

/// The arguments of `zoolet wait`.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    feature = "shell",
    command(
        after_help = "Exit code 1 if it takes longer, with --znode 5 if no server is reached. Example: zoolet wait zk1:2181,zk2:2181,zk3:2181 --leader --timeout 5m"
    )
)]
pub(crate) struct Wait {
    /// The servers, all of which must serve; without them, those of the variable ZOOKEEPER, else 127.0.0.1:2181
    #[arg(value_name = "HOST:PORT", value_parser = address)]
    address: Option<String>,
    /// Wait until one of the servers leads or follows a leader, and not for the others
    #[arg(long)]
    leader: bool,
    /// Wait until this znode exists
    #[cfg(feature = "shell")]
    #[arg(long, value_name = "PATH", conflicts_with = "leader")]
    znode: Option<String>,
    /// Wait until the znode is gone instead
    #[cfg(feature = "shell")]
    #[arg(long, requires = "znode")]
    gone: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::interval)]
    timeout: Duration,
    /// Print an object in a line for each server, also if it does not serve in time
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    relay: RelayArguments,
}

/// What ends the questions to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskUntil {
    FirstAnswer,
    Serving,
    /// It leads, or serves in an ensemble with a leader; others are then not waited for.
    Leader,
}

impl Health {
    /// Asks each server once. The exit code is 0 if all serve, and 1 if not.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let place = Place::find(self.address.as_deref())?;
        look(&place, self.relay, self.timeout, self.json, AskUntil::FirstAnswer)
    }
}

impl Wait {
    /// Asks again and again.
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let place = Place::find(self.address.as_deref())?;
        #[cfg(feature = "shell")]
        if let Some(path) = self.znode {
            let wait = zoolet_shell::ZnodeWait { path, gone: self.gone, timeout: self.timeout };
            return wait_for_znode(&place, &wait, self.relay, self.json);
        }
        let until = if self.leader { AskUntil::Leader } else { AskUntil::Serving };
        look(&place, self.relay, self.timeout, self.json, until)
    }
}

/// What was seen of a server.
struct Looked {
    outcome: Result<Serving, Trouble>,
    took: Duration,
}

fn look(
    place: &Place,
    relay: RelayArguments,
    timeout: Duration,
    as_json: bool,
    until: AskUntil,
) -> Result<ExitCode, Failure> {
    let relay = place.relay(relay);
    let seen = runtime::run(async {
        let routes = relay.routes(&place.hosts, false).await?;
        Ok(ask_all(routes, timeout, until).await)
    })?;
    print(place, seen, as_json, until)
}

/// What was seen of each server; nothing of those that are no longer waited for.
async fn ask_all(routes: Vec<Route>, timeout: Duration, until: AskUntil) -> Vec<Option<Looked>> {
    let mut seen: Vec<_> = routes.iter().map(|_| None).collect();
    let mut asking = JoinSet::new();
    for (at, route) in routes.into_iter().enumerate() {
        asking.spawn(async move { (at, ask(&route, timeout, until).await) });
    }
    while let Some(Ok((at, looked))) = asking.join_next().await {
        let is_enough = until == AskUntil::Leader && looked.outcome.is_ok();
        if let Some(place) = seen.get_mut(at) {
            *place = Some(looked);
        }
        if is_enough {
            break;
        }
    }
    seen
}

async fn ask(route: &Route, timeout: Duration, until: AskUntil) -> Looked {
    let since = Instant::now();
    let mut rest = FIRST_REST;
    let mut seen = None;
    loop {
        let outcome = match probe::ask(&route.address, since + timeout).await {
            Ok(serving) if until == AskUntil::Leader && !serving.has_leader() => Err(Trouble::NoLeader),
            Ok(serving) => Ok(serving),
            // That the time is over says less than what was seen before.
            Err(trouble) => Err(match (route.take_failure(), trouble) {
                (Some(reason), _) => Trouble::Unreached(reason),
                (None, Trouble::Timeout) => seen.unwrap_or(Trouble::Timeout),
                (None, trouble) => trouble,
            }),
        };
        let took = since.elapsed();
        let next = rest_before_next(rest, timeout.saturating_sub(took));
        let Some(next) = next.filter(|_| outcome.is_err() && until != AskUntil::FirstAnswer) else {
            return Looked { outcome, took };
        };
        seen = outcome.err();
        sleep(next).await;
        rest = (rest * 2).min(LONGEST_REST);
    }
}

/// How long to rest before the next look; `None` if the time that is left is too short for one. The looks come closer towards its
/// end, so that a server that serves shortly before is seen.
fn rest_before_next(rest: Duration, left: Duration) -> Option<Duration> {
    (left > FIRST_REST).then(|| rest.min(left / 2))
}

fn print(
    place: &Place,
    seen: Vec<Option<Looked>>,
    as_json: bool,
    until: AskUntil,
) -> Result<ExitCode, Failure> {
    let is_found = |looked: &Looked| until == AskUntil::Leader && looked.outcome.is_ok();
    let is_found = seen.iter().flatten().any(is_found);
    let mut lines = Lines::new();
    let mut unhealthy = Vec::new();
    for (address, looked) in place.hosts.iter().zip(seen) {
        let Some(Looked { outcome, took }) = looked else { continue };
        match outcome {
            Ok(serving) if as_json => {
                let head = json!({"address": address, "healthy": true});
                lines.line(&json::line(&json::joined([head, serving.json(), took_ms(took)])))?;
            }
            Ok(serving) => lines.line(&format!("{address} serves: {serving}; {} ms", millis(took)))?,
            Err(_) if is_found => {}
            Err(trouble) => {
                if as_json {
                    let head = json!({"address": address, "healthy": false, "error": trouble.to_string()});
                    lines.line(&json::line(&json::joined([head, took_ms(took)])))?;
                }
                unhealthy.push(Failure::Unhealthy { address: quoted(address), trouble });
            }
        }
    }
    let code = lines.end()?;
    if unhealthy.is_empty() { Ok(code) } else { Err(Failure::Several(unhealthy)) }
}

/// Waits in a session.
#[cfg(feature = "shell")]
fn wait_for_znode(
    place: &Place,
    wait: &zoolet_shell::ZnodeWait,
    relay: RelayArguments,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let relay = place.relay(relay);
    runtime::run(async {
        let routes = relay.routes(&place.hosts, true).await?;
        let addresses: Vec<_> = routes.iter().map(|route| &*route.address).collect();
        let server = format!("{}{}", addresses.join(","), place.chroot);
        let shown = format!("{}{}", place.hosts.join(","), place.chroot);
        let (mut out, mut notes) = (std::io::stdout(), std::io::stderr());
        let io = zoolet_shell::ShellIo::new(&mut out, &mut notes);
        wait.run_at(&server, &shown, &place.cluster, as_json, io).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Milliseconds with a digit after the point.
fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).round() / 10.0
}

fn took_ms(took: Duration) -> serde_json::Value {
    json!({"took_ms": millis(took)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_go_on_to_the_end_of_the_time() {
        let (timeout, mut took, mut rest) = (Duration::from_millis(500), Duration::ZERO, FIRST_REST);
        while let Some(next) = rest_before_next(rest, timeout - took) {
            took += next;
            rest = (rest * 2).min(LONGEST_REST);
        }
        assert!(took < timeout && timeout - took <= FIRST_REST, "the last look is after {took:?}");
    }
}
