//! `create`.

use std::time::Duration;

use zoolet_client::{Acl, Client, Create, ErrorCode};

use super::DataArguments;
use crate::connect::interval;
use crate::failure::{ExitReason, ShellResult};
use crate::json;
use crate::shell::Shell;
use crate::text::{lacks_hash, parse_acl, shown};

/// The arguments of `create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: zoolet create -p -s /jobs/mail/job- 'to: bob'")]
pub struct CreateArguments {
    /// The znode
    path: String,
    #[command(flatten)]
    data: DataArguments,
    /// Deleted when the session ends
    #[arg(short, long, group = "kind")]
    ephemeral: bool,
    /// Append the next number of the parent to the name
    #[arg(short, long)]
    sequential: bool,
    /// Deleted some time after its last child
    #[arg(short, long, group = "kind", conflicts_with = "sequential")]
    container: bool,
    /// Deleted when its data was not set for this time, if the servers are configured for it
    #[arg(short, long, group = "kind", value_name = "TIME", value_parser = interval)]
    ttl: Option<Duration>,
    /// Create the parents that are missing too
    #[arg(short, long)]
    pub(super) parents: bool,
    /// Who may do what: SCHEME:ID:PERMS, with commas in between; world:anyone:cdrwa if it is not given
    #[arg(long, value_name = "ACL", value_parser = AclList::parse)]
    acl: Option<AclList>,
}

/// An ACL as an argument, which clap would take for several values.
#[derive(Debug, Clone)]
pub(super) struct AclList(Vec<Acl>);

impl AclList {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parse_acl(text).map(Self)
    }

    /// The entries.
    ///
    /// # Errors
    /// An entry has a password in place of its hash. The message does not repeat it.
    pub(super) fn checked(&self, shell: &Shell<'_>) -> ShellResult<Vec<Acl>> {
        match self.0.iter().any(lacks_hash) {
            false => Ok(self.0.clone()),
            true => Err(shell.fail(
                ExitReason::Usage,
                "a digest ACL has the hash of the password, and with the password itself it would let nobody in: write \
                 auth::cdrwa for who you are by --auth-file, or take what `printf %s USER:PASSWORD | openssl sha1 -binary | \
                 base64` prints",
            )),
        }
    }
}

impl CreateArguments {
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.ephemeral
    }

    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let client = shell.client.clone();
        let create = self.build(&client, shell).await?;
        let created = if self.parents { create.parents().await } else { create.await };
        let created = created.map_err(|error| {
            let hint = match error.code() {
                Some(ErrorCode::NodeExists) => "`set` replaces its data",
                Some(ErrorCode::NoNode) => "its parent does not exist: -p creates what is missing",
                _ => "",
            };
            shell.failed_with(&error, hint)
        })?;
        shell.line_or_json(shown(&created.path), &json::znode(&created.path, &created.stat))
    }

    /// The request, without parents.
    pub(super) async fn build<'c>(
        &self,
        client: &'c Client,
        shell: &mut Shell<'_>,
    ) -> ShellResult<Create<'c>> {
        let data = self.data.read(shell).await?.unwrap_or_default();
        let mut path = shell.path(&self.path);
        // The number alone is the name then.
        if self.sequential && self.path.ends_with('/') && path != "/" {
            path.push('/');
        }
        let mut create = client.create(path, data);
        if self.ephemeral {
            create = create.ephemeral();
        }
        if self.container {
            create = create.container();
        }
        if let Some(ttl) = self.ttl {
            create = create.ttl(ttl);
        }
        if self.sequential {
            create = create.sequential();
        }
        if let Some(acl) = &self.acl {
            create = create.acl(acl.checked(shell)?);
        }
        Ok(create)
    }
}
