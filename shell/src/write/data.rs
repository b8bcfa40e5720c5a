//! `create` and `set`: one znode, and where its data comes from.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::{Acl, Client, Create, ErrorCode, SetData};

use crate::connect::interval;
use crate::failure::{ExitReason, ShellResult, read_file};
use crate::json;
use crate::shell::Shell;
use crate::text::{lacks_hash, parse_acl, shown};

/// Where the data of a write comes from.
#[derive(Debug, clap::Args)]
struct DataArguments {
    /// The data; - for what is on standard input
    #[arg(allow_negative_numbers = true)]
    data: Option<String>,
    /// A file with the data
    #[arg(long, short, value_name = "FILE", conflicts_with = "data")]
    file: Option<PathBuf>,
}

impl DataArguments {
    /// The data, if any is given.
    async fn read(&self, shell: &mut Shell<'_>) -> ShellResult<Option<Bytes>> {
        if let Some(file) = &self.file {
            return Ok(Some(read_file(file)?.into()));
        }
        match self.data.as_deref() {
            Some("-") => shell.read_input("give a file by --file FILE").await.map(Some),
            given => Ok(given.map(|text| Bytes::copy_from_slice(text.as_bytes()))),
        }
    }
}

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
        let stat = shell.answered_unless(set, ErrorCode::NoNode, "`create` makes one")?;
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
