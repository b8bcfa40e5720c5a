//! The servers of a `zoo.cfg`: its `server.N` lines, or those of the file that `dynamicConfigFile` names, where ZooKeeper
//! itself moves them since 3.5. Such a line may end with the address for clients.
//!
//! One server runs standalone. Each of several would run alone as well, so that two clients could hold the same lock at two of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::properties::Entry;
use super::{ConfigError, entries};
use crate::settings::{ANY_ADDRESS, Written};

const PREFIX: &str = "server.";

/// The servers, by their keys. If a key is repeated, the last line wins.
#[derive(Debug, Default)]
pub(crate) struct Members(BTreeMap<String, Entry>);

impl Members {
    /// Adds a line if its key is that of a server.
    pub(crate) fn take(&mut self, entry: &Entry) {
        if entry.key.starts_with(PREFIX) {
            self.0.insert(entry.key.clone(), entry.clone());
        }
    }

    /// Adds the servers of a dynamic configuration file, which this line names. Returns their keys.
    pub(crate) fn take_dynamic(
        &mut self,
        path: &Path,
        named: &Entry,
        mistakes: &mut Vec<ConfigError>,
    ) -> BTreeSet<String> {
        if let Some(entry) = self.0.values().next() {
            let hint =
                "must be in the file that dynamicConfigFile names, as ZooKeeper reads the servers from there";
            mistakes.push(ConfigError::invalid(entry, hint));
        }
        let read = std::fs::read(path).map_err(|error| {
            // Relative to the current directory, as in ZooKeeper, and not to that of the zoo.cfg.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            ConfigError::invalid(named, &format!("cannot read {}: {error}", path.display()))
        });
        let entries = match read.and_then(|bytes| entries(path, &bytes)) {
            Ok(entries) => entries,
            Err(mistake) => {
                mistakes.push(mistake);
                return BTreeSet::new();
            }
        };
        for entry in &entries {
            self.take(entry);
            if ![PREFIX, "group", "weight"].iter().any(|prefix| entry.key.starts_with(prefix)) {
                let hint = "a dynamic configuration file only has lines of servers, groups and weights; ZooKeeper does not \
                            start with this one either";
                mistakes.push(ConfigError::invalid(entry, hint));
            }
        }
        entries.into_iter().map(|entry| entry.key).filter(|key| key.starts_with(PREFIX)).collect()
    }

    /// The address for clients, if there is one server and its line has an address.
    ///
    /// # Errors
    /// Several servers, one that is an observer, and an invalid address.
    pub(crate) fn bind(&self) -> Result<Option<String>, ConfigError> {
        let mut entries = self.0.values();
        let Some(entry) = entries.next() else { return Ok(None) };
        if let Some(second) = entries.next() {
            let hint = "ensembles are not supported, and members that each run alone would each grant the same lock; see \
                        docs/graduate.md for the way back from an ensemble, then keep the line of one server";
            return Err(ConfigError::unsupported(second, hint));
        }
        let (server, client) = match entry.value.split_once(';') {
            Some((server, client)) => (server, Some(client.trim())),
            None => (&*entry.value, None),
        };
        if server.trim_end().to_lowercase().ends_with(":observer") {
            let hint = "an observer needs an ensemble, and ensembles are not supported; name the server a participant to run it standalone";
            return Err(ConfigError::unsupported(entry, hint));
        }
        client
            .map(bind)
            .transpose()
            .map_err(|hint| ConfigError::invalid(entry, &format!("after the semicolon: {hint}")))
    }

    /// Why `standaloneEnabled=false` is refused whatever servers there are: with one, ZooKeeper leads an ensemble that others can
    /// join, and with none it does not start.
    pub(crate) fn not_standalone(&self, entry: &Entry) -> ConfigError {
        let servers = if self.0.is_empty() { ", and there is no server line" } else { "" };
        let hint = format!(
            "asks for an ensemble, and ensembles are not supported{servers}; remove the key to run one server standalone"
        );
        ConfigError::unsupported(entry, &hint)
    }
}

/// The address to bind, from a port with an optional address before it.
fn bind(client: &str) -> Result<String, String> {
    let (address, port) = client.rsplit_once(':').unwrap_or((ANY_ADDRESS, client));
    let (address, port) = (Written::Key(address).address()?, Written::Key(port).port()?);
    if address.contains(':') && !address.starts_with('[') {
        return Err("an IPv6 address needs brackets".to_owned());
    }
    Ok(format!("{address}:{port}"))
}
