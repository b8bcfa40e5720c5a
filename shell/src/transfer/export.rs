//! `export`: a tree as it was after one transaction, as a file.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::future::IntoFuture as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zoolet_client::{Client, ErrorCode, Stat};

use super::MovedZnode;
use super::apply::check_not_masked;
use super::format::{ExportHeader, FileFormat, write};
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::reach::open_cache;
use crate::shell::{OtherServers, Shell};
use crate::text::{count, shown};
use crate::walk::{UNLIMITED, WalkPath, within_patience};

/// Most requests in flight.
const WINDOW: usize = 128;

/// The arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Data is a consistent cut: everything as it was after one transaction, which the file names. ACLs are read after \
    it, as no server reports their changes. Example: zoolet export /app app.json"
)]
pub struct Export {
    /// The tree
    path: String,
    /// The file; standard output if it is not given
    file: Option<PathBuf>,
    /// What the file is for
    #[arg(long, value_name = "FORMAT", default_value = "zoolet")]
    format: FileFormat,
    /// Leave ACLs out
    #[arg(long)]
    no_acl: bool,
}

impl Export {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let sessions = shell.open_sessions(OtherServers::Same)?;
        let cache = open_cache(shell, &sessions, &root, usize::MAX).await?;
        let cut = cache.snapshot();
        if let Some((path, reason)) = cut.unreadable().next() {
            let message = format!(
                "{} cannot be read ({reason:?}), and a part must not pass for the whole",
                shown(path)
            );
            return Err(shell.fail(ExitReason::Refused, message));
        }
        if !cut.contains(&root) {
            return Err(shell.fail(ExitReason::Absent, format!("there is no znode {}", shown(&root))));
        }
        let mut znodes = BTreeMap::new();
        let mut ephemerals = 0;
        for entry in cut.iter() {
            if entry.stat().ephemeral_owner.0 != 0 {
                ephemerals += 1;
                continue;
            }
            let data = entry.value().cloned().unwrap_or_default();
            let znode = MovedZnode { data, ..MovedZnode::default() };
            znodes.insert(WalkPath::new(entry.path()), (znode, *entry.stat()));
        }
        let header = ExportHeader { root: root.clone(), zxid: cut.as_of(), znodes: znodes.len(), ephemerals };
        drop((cut, cache));
        sessions.close().await;
        if !self.no_acl {
            self.read_acls(shell, &mut znodes).await?;
        }
        let text = write(self.format, &header, &znodes);
        match &self.file {
            None => shell.print(&text)?,
            Some(file) => save(file, &text)
                .map_err(|error| ShellError::local(&format!("write {}", file.display()), &error))?,
        }
        let (znodes, zxid) = (count(header.znodes, "znode"), header.zxid);
        shell.note(format!("{znodes} as of zxid {zxid}; left out: {}", count(ephemerals, "ephemeral")));
        Ok(())
    }

    async fn read_acls(
        &self,
        shell: &Shell<'_>,
        znodes: &mut BTreeMap<WalkPath, (MovedZnode, Stat)>,
    ) -> ShellResult {
        let client: &Client = &shell.client;
        let mut in_flight = VecDeque::new();
        let mut unread = znodes.iter_mut();
        loop {
            while in_flight.len() < WINDOW {
                let Some((path, znode)) = unread.next() else { break };
                let reply = client.get_acl(path.as_str()).timeout(UNLIMITED).into_future();
                in_flight.push_back((path, znode, reply));
            }
            let Some((path, (znode, _), reply)) = in_flight.pop_front() else { return Ok(()) };
            match within_patience(client, path.as_str(), reply, shell.timeout).await {
                Ok((acl, _)) => {
                    check_not_masked(shell, &shown(path.as_str()), &acl)?;
                    znode.acl = Some(acl);
                }
                // It is gone, and its ACL with it. Without one, an import would give everybody all rights.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    let message = format!(
                        "{} was deleted before its ACL was read: repeat this, or leave ACLs out with --no-acl",
                        shown(path.as_str())
                    );
                    return Err(shell.fail(ExitReason::Conflict, message));
                }
                Err(error) => return Err(shell.failed(&error)),
            }
        }
    }
}

/// The whole file or nothing. What is there keeps its mode, and stays what it is if it is a link or no regular file.
fn save(file: &Path, text: &[u8]) -> io::Result<()> {
    let old = match fs::metadata(file) {
        Ok(old) if !old.is_file() => return fs::write(file, text),
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let file = &if old.is_some() { fs::canonicalize(file)? } else { file.to_owned() };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut whole = tempfile::NamedTempFile::new_in(folder)?;
    if let Some(old) = old {
        whole.as_file().set_permissions(old.permissions())?;
    }
    whole.write_all(text)?;
    whole.as_file().sync_all()?;
    whole.persist(file)?;
    Ok(())
}
