//! `sessions`: which session owns which ephemerals, and from where.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use zoolet_client::SessionId;

use super::walk;
use super::words::ask_all;
use crate::failure::ShellResult;
use crate::shell::Shell;
use crate::text::{count, shown};
use crate::walk::Reading;

/// How long each server has to say which connections it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// The arguments of `sessions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Addresses, and sessions without ephemerals, are known if the servers allow the word cons. Example: zoolet sessions -l /workers"
)]
pub struct SessionsArguments {
    /// Where to look for ephemerals
    #[arg(default_value = "/")]
    path: String,
    /// Print the ephemerals of each
    #[arg(short, long)]
    long: bool,
}

#[derive(Default)]
struct Owner {
    address: Option<String>,
    server: Option<String>,
    ephemerals: Vec<String>,
}

impl SessionsArguments {
    pub(crate) async fn run(&self, shell: &mut Shell<'_>) -> ShellResult {
        let root = shell.path(&self.path);
        let mut owners: BTreeMap<SessionId, Owner> = BTreeMap::new();
        let outcome = walk(shell, &root, Reading::default(), &mut |_, path, visit| {
            if let Some(stat) = visit.stat.filter(|stat| stat.ephemeral_owner.0 != 0) {
                owners.entry(stat.ephemeral_owner).or_default().ephemerals.push(path.to_owned());
            }
            Ok(())
        })
        .await;
        for (server, said) in ask_all(shell, "cons", PATIENCE).await {
            let Ok(said) = said else { continue };
            for (session, address) in said.lines().filter_map(connection) {
                let owner = owners.entry(session).or_default();
                (owner.address, owner.server) = (Some(address.to_owned()), Some(server.clone()));
            }
        }
        for (session, owner) in owners {
            let Owner { address, server, ephemerals } = owner;
            if shell.json {
                shell.json_line(&json!({
                    "session": session.to_string(), "address": address, "server": server, "ephemerals": ephemerals,
                }))?;
                continue;
            }
            let address = address.unwrap_or_else(|| "-".to_owned());
            shell.line(format!("{session}  {address}  {}", count(ephemerals.len(), "ephemeral")))?;
            if self.long {
                ephemerals.iter().try_for_each(|path| shell.line(format!("  {}", shown(path))))?;
            }
        }
        outcome
    }
}

/// The session and the address in a line of `cons`: ` /10.0.0.7:40506[1](queued=0,recved=5,sent=5,sid=0x10000a2b3c0001,...`.
fn connection(line: &str) -> Option<(SessionId, &str)> {
    let address = line.trim().strip_prefix('/')?.split_once('[')?.0;
    let (_, rest) = line.split_once("sid=0x")?;
    let digits = rest.find(|c: char| !c.is_ascii_hexdigit()).map_or(rest, |end| &rest[..end]);
    let id = u64::from_str_radix(digits, 16).ok()?;
    Some((SessionId(i64::from_ne_bytes(id.to_ne_bytes())), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cons_has_a_session_and_an_address() {
        let line = " /10.0.0.7:40506[1](queued=0,recved=5,sent=5,sid=0xff0000a2b3c00001,lop=PING,est=1)";
        let id = 0xff00_00a2_b3c0_0001_u64;
        assert_eq!(
            connection(line),
            Some((SessionId(i64::from_ne_bytes(id.to_ne_bytes())), "10.0.0.7:40506"))
        );
        assert_eq!(connection(" /10.0.0.7:40506[0](queued=0,recved=1,sent=0)"), None);
        assert_eq!(connection("cons is not executed because it is not in the whitelist."), None);
    }
}
