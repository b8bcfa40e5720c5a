//! Waits for a server that is still starting.

use std::time::Duration;

use zoolet_conformance::until_it_serves;

use crate::duration;
use crate::failure::Failure;

/// The argument of commands that work on a server that somebody else starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Reach {
    /// How long to wait for a server that is still starting, such as 30s; without it, the server has to serve already
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, value_parser = duration::parse)]
    wait: Duration,
}

impl Reach {
    /// Waits until a server opens sessions. `doing` begins the message if it does not.
    pub(crate) async fn server(&self, address: &str, doing: &'static str) -> Result<(), Failure> {
        let hint = match self.wait {
            Duration::ZERO => "; if it is still starting, wait for it with --wait 30s",
            _ => "; it may need a longer --wait",
        };
        let serving = until_it_serves(address, self.wait).await;
        serving.map_err(|error| Failure::NotServing { doing, error, hint })
    }
}
