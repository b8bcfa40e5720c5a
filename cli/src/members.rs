//! The `server.N` lines of a `zoo.cfg`. Since ZooKeeper 3.5 such a line may end with the address for clients.

use std::collections::BTreeMap;

use crate::properties::Entry;
use crate::values;

/// The address if a file has only a port: all addresses, as in ZooKeeper. Without IPv6 these are the IPv4 addresses.
pub(crate) const ANY_ADDRESS: &str = "[::]";

/// The servers of a file, by their keys. If a key is repeated, the last line wins.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<String, Entry>);

impl Members {
    /// Adds a line if its key is that of a server.
    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.key.starts_with("server.") {
            self.0.insert(entry.key.clone(), entry.clone());
        }
    }

    /// The address for clients, if the line has one.
    ///
    /// # Errors
    /// The invalid line and a hint. Several servers are invalid: each would run alone, so that two clients could hold the
    /// same lock at two of them.
    pub(crate) fn bind(&self) -> Result<Option<String>, (&Entry, String)> {
        let mut entries = self.0.values();
        let Some(entry) = entries.next() else { return Ok(None) };
        if let Some(second) = entries.next() {
            let hint = "ensembles are not supported; keep the line of one server to run it standalone";
            return Err((second, hint.to_owned()));
        }
        let Some((_, client)) = entry.value.split_once(';') else { return Ok(None) };
        bind(client.trim()).map(Some).map_err(|hint| (entry, format!("after the semicolon: {hint}")))
    }
}

/// The address to bind, from a port with an optional address before it.
fn bind(client: &str) -> Result<String, String> {
    let (address, port) = client.rsplit_once(':').unwrap_or((ANY_ADDRESS, client));
    let (address, port) = (values::address(address)?, values::port(port)?);
    if address.contains(':') && !address.starts_with('[') {
        return Err("an IPv6 address needs brackets".to_owned());
    }
    Ok(format!("{address}:{port}"))
}
