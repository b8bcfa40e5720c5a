//! `zoolet replay`: sends what clients have said in a capture again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use zoolet_conformance::{Replay, Replayed};

use crate::duration;
use crate::failure::Failure;
use crate::kit::KitFailure;
use crate::kit::reach::Reach;
use crate::output::{Lines, warn};
use crate::runtime;
use crate::text::counted;

/// The arguments of `zoolet replay`.
#[derive(clap::Args)]
pub(crate) struct ReplayArguments {
    /// The capture
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server that gets it; nobody else may use it meanwhile
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    #[command(flatten)]
    reach: Reach,
    /// How long the server may take for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::interval)]
    timeout: Duration,
    /// Print what is not as captured, and exit with 1 if anything is not
    #[arg(long)]
    diff: bool,
    /// Credentials, which are masked in a capture, such as digest:bob:secret; can be given several times
    #[arg(long, value_name = "SCHEME:ID", value_parser = credentials)]
    auth: Vec<(String, String)>,
}

/// A scheme, and what identifies a client to it.
fn credentials(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').filter(|(scheme, _)| !scheme.is_empty());
    let (scheme, id) = parts.ok_or("must be a scheme, a colon and credentials")?;
    Ok((scheme.to_owned(), id.to_owned()))
}

impl ReplayArguments {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let auth = self.auth.into_iter().map(|(scheme, id)| (scheme, id.into())).collect();
        let replayed = runtime::run(async {
            let server = self.reach.server(&self.server, "").await?;
            let replay = Replay { server, auth, limit: self.timeout };
            Ok(replay.run(&self.file).await?)
        })?;
        warn_of(&replayed);
        if self.diff && replayed.connections == 0 {
            return Err(KitFailure::Undecided(format!(
                "{} has no connection of a client",
                self.file.display()
            ))
            .into());
        }
        let code = match self.diff && !replayed.differences.is_empty() {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        };
        match report(&self.server, &replayed, self.diff) {
            // Everything has been compared, even if nobody reads the result.
            Err(failure) if failure.is_reader_gone() => Ok(code),
            reported => reported.map(|()| code),
        }
    }
}

fn report(server: &str, replayed: &Replayed, diff: bool) -> Result<(), Failure> {
    let mut lines = Lines::new();
    if diff {
        for difference in &replayed.differences {
            let time = difference.time.as_secs_f64();
            lines.line(&format!("{time:11.6} #{:<3} {}", difference.connection, difference.request))?;
            lines.line(&format!("    captured: {}", difference.captured))?;
            lines.line(&format!("    replayed: {}", difference.replayed))?;
        }
    }
    let differences = match diff {
        true => format!(", {}", counted(replayed.differences.len() as u64, "difference")),
        false => String::new(),
    };
    let unexplained = match replayed.unexplained {
        0 => String::new(),
        count => format!(", {count} transactions without an effect that was captured"),
    };
    lines.line(&format!(
        "{server}: {} connections, {} requests, {} events, {} pings left out{unexplained}{differences}",
        replayed.connections, replayed.requests, replayed.events, replayed.pings
    ))?;
    lines.flush()
}

/// Warns of what makes differences likely.
fn warn_of(replayed: &Replayed) {
    if let Some(warning) = &replayed.warning {
        warn(warning);
    }
    if replayed.masked_auth > 0 {
        warn(&format!(
            "{} auth requests were sent with zeros, as captures have no credentials: differences are likely; give them with --auth SCHEME:ID",
            replayed.masked_auth
        ));
    }
    if replayed.masked_sasl > 0 {
        warn(&format!(
            "{} SASL requests were sent with zeros, as captures have no tokens: differences are likely",
            replayed.masked_sasl
        ));
    }
    if replayed.unsent > 0 {
        warn(&format!("{} requests were not sent, as their connections were lost", replayed.unsent));
    }
}
