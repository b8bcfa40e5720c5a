//! How a server is reached that somebody else starts, and may be starting still.

use std::time::Duration;

use zoolet_conformance::until_it_serves;

use crate::duration;
use crate::failure::Failure;
use crate::kit::KitFailure;
use crate::relay::RelayArguments;

/// The argument of commands that work on a server that somebody else starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Reach {
    /// How long to wait for a server that is still starting, such as 30s; without it, the server has to serve already
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, value_parser = duration::parse)]
    wait: Duration,
    #[command(flatten)]
    relay: RelayArguments,
}

impl Reach {
    /// How it is reached, as it was given.
    pub(crate) fn text(&self) -> String {
        self.relay.text()
    }

    /// Waits until a server opens sessions. `doing` begins the message if it does not. Returns the address at which it is reached.
    pub(crate) async fn server(&self, address: &str, doing: &'static str) -> Result<String, Failure> {
        let address = self.relay.route(address, true).await?.address;
        let hint = match self.wait {
            Duration::ZERO => "; if it is still starting, wait for it with --wait 30s",
            _ => "; it may need a longer --wait",
        };
        let serving = until_it_serves(&address, self.wait).await;
        serving.map_err(|error| KitFailure::NotServing { doing, error, hint })?;
        Ok(address)
    }
}
