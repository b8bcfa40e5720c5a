//! The `server.N` lines of a `zoo.cfg`: in a file of 3.5 and later such a line says where clients connect.

use std::collections::BTreeMap;

use crate::properties::Entry;
use crate::values;

/// Where a server listens whose line has a port for clients and no address: Java's `0.0.0.0`, which is IPv6 too.
const ANY_ADDRESS: &str = "[::]";

/// The servers of a file, by their keys. Of a key that is repeated the last line holds.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<String, Entry>);

impl Members {
    /// Takes a line, if it is that of a server.
    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.key.starts_with("server.") {
            self.0.insert(entry.key.clone(), entry.clone());
        }
    }

    /// Where clients are to connect, if the file says it here.
    ///
    /// # Errors
    /// What is wrong with which line. Several servers are, as each of them would be served by itself: whoever takes a lock at
    /// one would share it with whoever takes it at another.
    pub(crate) fn bind(&self) -> Result<Option<String>, (&Entry, String)> {
        let mut entries = self.0.values();
        let Some(entry) = entries.next() else { return Ok(None) };
        if let Some(second) = entries.next() {
            let hint = "an ensemble cannot be had; keep the line of one server to serve it alone";
            return Err((second, hint.to_owned()));
        }
        let Some((_, client)) = entry.value.split_once(';') else { return Ok(None) };
        bind(client.trim()).map(Some).map_err(|hint| (entry, format!("behind the semicolon: {hint}")))
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
