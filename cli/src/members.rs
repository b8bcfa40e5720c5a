//! The `server.N` lines of a `zoo.cfg`: in a file of 3.5 and later they say where clients connect.

use std::collections::BTreeMap;

use crate::properties::Entry;
use crate::values;

/// Where a member listens whose line has a port for clients and no address (`QuorumPeer.QuorumServer`).
const ANY_ADDRESS: &str = "0.0.0.0";

/// The members of an ensemble that is not there, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<String, Member>);

#[derive(Debug)]
struct Member {
    line: usize,
    /// What is behind the semicolon.
    client: Option<String>,
}

/// What is wrong with the line of a member.
#[derive(Debug)]
pub(crate) struct BadMember {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) client: String,
    pub(crate) mend: String,
}

impl Members {
    /// Takes a line, if it is that of a member. Of a key that is repeated the last one holds.
    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.key.starts_with("server.") {
            let client = entry.value.split_once(';').map(|(_, client)| client.trim().to_owned());
            self.0.insert(entry.key.clone(), Member { line: entry.line, client });
        }
    }

    /// Where clients are to connect, if the lines say one thing about that: which of several this server is they don't say.
    pub(crate) fn bind(&self) -> Result<Option<String>, BadMember> {
        let mut binds = self.0.iter().filter_map(|(key, Member { line, client })| {
            let client = client.as_ref()?;
            let wrong = |mend| BadMember { line: *line, key: key.clone(), client: client.clone(), mend };
            Some(bind(client).map_err(wrong))
        });
        let Some(first) = binds.next().transpose()? else { return Ok(None) };
        for other in binds {
            if other? != first {
                return Ok(None);
            }
        }
        Ok(Some(first))
    }
}

/// An address to listen at, of a port with an address before it or none.
fn bind(client: &str) -> Result<String, String> {
    let (address, port) = client.rsplit_once(':').unwrap_or((ANY_ADDRESS, client));
    let (address, port) = (values::address(address)?, values::port(port)?);
    if address.contains(':') && !address.starts_with('[') {
        return Err("needs brackets around an IPv6 address".to_owned());
    }
    Ok(format!("{address}:{port}"))
}
