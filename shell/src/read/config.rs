//! `config`: the members of the ensemble, as it agreed on them.

use zoolet_client::ErrorCode;

use crate::address::chroot;
use crate::failure::ShellResult;
use crate::json;
use crate::shell::{OtherServers, Shell};
use crate::text::shown;

/// The znode of the configuration (`ZooDefs.CONFIG_NODE`), which no chroot has in it.
const PATH: &str = "/zookeeper/config";

/// The arguments of `config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet config | grep participant")]
pub struct ConfigArguments {}

impl ConfigArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let has_chroot = !chroot(&shell.server).is_empty();
        let without_chroot = has_chroot.then_some(OtherServers::SameWithoutChroot);
        let session = shell.open_if_other(without_chroot).await?;
        let read = session.client.get_data(PATH).await;
        let hint = "servers have it from ZooKeeper 3.5 on";
        let (data, stat) = shell.answered_unless(read, ErrorCode::NoNode, hint)?;
        if shell.json {
            return shell.json_line(&json::joined([json::znode(PATH, &stat), json::data(&data)]));
        }
        if data.is_empty() {
            shell.note("the server stands alone, and has no configuration");
        }
        String::from_utf8_lossy(&data).lines().try_for_each(|line| shell.line(shown(line)))
    }
}
