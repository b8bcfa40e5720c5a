//! `set`.

use zoolet_client::{Client, ErrorCode, SetData};

use super::DataArguments;
use crate::failure::{ExitReason, ShellResult};
use crate::shell::Shell;

/// The arguments of `set`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet set --if-version 3 /config - < config.json")]
pub struct Set {
    /// The znode
    path: String,
    #[command(flatten)]
    data: DataArguments,
    /// Only if its data has this version
    #[arg(short = 'v', long, value_name = "VERSION")]
    if_version: Option<i32>,
}

impl Set {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let path = shell.path(&self.path);
        let client = shell.client.clone();
        let set = self.build(&client, shell).await?.await;
        let stat =
            set.map_err(|error| shell.failed_because(&error, ErrorCode::NoNode, "`create` makes one"))?;
        shell.written(&path, &stat)
    }

    /// The request.
    pub(super) async fn build<'c>(
        &self,
        client: &'c Client,
        shell: &mut Shell<'_>,
    ) -> ShellResult<SetData<'c>> {
        let path = shell.path(&self.path);
        let Some(data) = self.data.read(shell).await? else {
            let message = format!(
                "no data for {path}: write it after the path, or - for standard input, or --file FILE"
            );
            return Err(shell.fail(ExitReason::Usage, message));
        };
        Ok(client.set_data(path, data).version(self.if_version))
    }
}
