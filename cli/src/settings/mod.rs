//! The settings of a server, from a `zoo.cfg` and from flags.

mod auth;
mod doubtful;
mod flags;
#[cfg(feature = "admin")]
mod http;
#[cfg(all(feature = "admin", feature = "tls"))]
mod https;
#[cfg(test)]
mod page_tests;
mod secret;
mod table;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod written;

use std::path::{Path, PathBuf};
use std::time::Duration;

use zoolet_server::{FourLetterWord, Server, ServerBuilder};
use zoolet_storage::StorageOptions;

use auth::AuthParts;
#[cfg(feature = "admin")]
use http::HttpParts;
#[cfg(feature = "tls")]
use tls::TlsParts;

pub(crate) use doubtful::directory_of_file;
pub(crate) use flags::Flags;
pub(crate) use table::{DIR, GROUPS, SettingGroup, SettingRow, bare};
pub(crate) use written::{Written, compression, directory};

/// The address if none is given.
const DEFAULT_BIND: &str = "127.0.0.1:2181";

/// The address if a file has only a port: all addresses, as in ZooKeeper. Without IPv6 these are the IPv4 addresses.
pub(crate) const ANY_ADDRESS: &str = "[::]";

/// The default limit of connections per address: that of Apache ZooKeeper when started with a `zoo.cfg`.
const DEFAULT_MAX_CLIENT_CNXNS: usize = 60;

/// The default tick, as in the builder.
const DEFAULT_TICK: Duration = Duration::from_secs(3);

/// The snapshots that are kept if a file has a purge interval and no number.
const DEFAULT_RETAINED: usize = 3;

/// What was set, over the defaults.
#[derive(Debug)]
pub(crate) struct Settings {
    server: ServerBuilder,
    /// Those of the flags, which replace that of a file.
    binds: Vec<String>,
    tick_time: Duration,
    min_session_timeout: Option<Duration>,
    max_session_timeout: Option<Duration>,
    words: Vec<FourLetterWord>,
    pub(crate) data_dir: Option<PathBuf>,
    /// Whether the data directory is ignored.
    pub(crate) in_memory: bool,
    /// Without its data directory.
    storage: StorageOptions,
    auth: AuthParts,
    #[cfg(feature = "tls")]
    tls: TlsParts,
    #[cfg(feature = "admin")]
    pub(crate) http: HttpParts,
    pub(crate) parts: Parts,
}

/// What has several keys in a `zoo.cfg` and is one setting here, and what only decides whether the file can be served.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) address: Option<String>,
    pub(crate) port: Option<u16>,
    /// Address and port, of these keys or of the line of the server.
    pub(crate) bind: Option<String>,
    /// On a standalone server it only adds `isro` to the four-letter words.
    read_only_mode: bool,
    pub(crate) unknown_words: Vec<String>,
    /// Whether it asks for an ensemble.
    pub(crate) ensemble: bool,
    /// Has the line of the server.
    pub(crate) dynamic_file: Option<PathBuf>,
    purge: Option<bool>,
    retained: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: Server::builder().max_connections_per_ip(DEFAULT_MAX_CLIENT_CNXNS),
            binds: Vec::new(),
            tick_time: DEFAULT_TICK,
            min_session_timeout: None,
            max_session_timeout: None,
            words: Vec::new(),
            data_dir: None,
            in_memory: false,
            storage: StorageOptions::new(""),
            auth: AuthParts::default(),
            #[cfg(feature = "tls")]
            tls: TlsParts::default(),
            #[cfg(feature = "admin")]
            http: HttpParts::default(),
            parts: Parts::default(),
        }
    }
}

impl Settings {
    /// Passes a value to a method of the builder.
    fn server<T>(
        &mut self,
        method: fn(ServerBuilder, T) -> ServerBuilder,
        value: Result<T, String>,
    ) -> Result<(), String> {
        self.server = method(std::mem::take(&mut self.server), value?);
        Ok(())
    }

    /// Joins the keys of a file that are one setting here. Called between the file and the flags.
    pub(crate) fn join_parts(&mut self) {
        let parts = &mut self.parts;
        if let Some(port) = parts.port {
            parts.bind = Some(joined(parts.address.as_deref().unwrap_or(ANY_ADDRESS), port));
        }
        if parts.read_only_mode {
            self.words.push(FourLetterWord::Isro);
        }
        // Without an interval an Apache server removes nothing: what is in an existing directory stays.
        match parts.purge {
            Some(true) => self.storage.retain = Some(parts.retained.unwrap_or(DEFAULT_RETAINED)),
            None if self.data_dir.is_none() && parts.retained.is_none() => {}
            _ => self.storage.retain = None,
        }
    }

    /// Sets the super digest from a file of its own.
    pub(crate) fn super_digest_of(&mut self, file: &Path, text: &str) -> Result<(), SettingMistake> {
        let digest = Written::Flag(text.trim()).super_digest();
        self.server(ServerBuilder::super_digest, digest).map_err(|hint| SettingMistake::Secret {
            what: "super digest".to_owned(),
            origin: file.display().to_string(),
            hint,
        })
    }

    /// Whether settings of a data directory have a meaning. With `--in-memory` they are ignored.
    pub(crate) fn may_store(&self) -> bool {
        self.in_memory || self.data_dir.is_some()
    }

    /// Reads the files with users.
    pub(crate) fn load(&mut self) -> Result<(), SettingMistake> {
        self.auth.load()
    }

    /// What does not fit together. The builder checks most of it too, but its errors do not name the keys of a `zoo.cfg`.
    pub(crate) fn check(&self) -> Vec<SettingMistake> {
        let mut mistakes: Vec<_> = self.check_timeouts().err().into_iter().collect();
        #[cfg(feature = "tls")]
        mistakes.extend(self.tls.check());
        #[cfg(feature = "admin")]
        mistakes.extend(self.http.check());
        mistakes.extend(self.auth.check(self.has_tls()));
        mistakes
    }

    /// What is legal and most likely not meant.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        let is_local =
            |bind: &String| ["127.", "localhost:", "[::1]:"].iter().any(|own| bind.starts_with(own));
        if self.auth.has_users() && !self.listens().iter().all(is_local) {
            warnings.push(
                "SASL DIGEST-MD5 at a port without TLS: who can read the connection can try passwords, and who can change it can send \
                 requests in the user's name; see docs/operating.md",
            );
        }
        if self.auth.has_no_users() {
            warnings.push(
                "authProvider or superUser asks for SASL, and there are no users: the JVM property java.security.auth.login.config names \
                 their file, and so does --jaas",
            );
        }
        #[cfg(feature = "admin")]
        if self.http.is_only_local() {
            warnings.push(
                "the admin server listens on 127.0.0.1 alone; admin.serverAddress opens it to other machines, and everybody \
                 who reaches it there sees the tree",
            );
        }
        #[cfg(feature = "tls")]
        if self.tls.is_unused() {
            warnings.push(
                "no port speaks TLS, so ssl.keyStore and ssl.trustStore are not used and clients are not asked for a certificate; set \
                 secureClientPort or client.portUnification",
            );
        }
        warnings
    }

    /// Whether clients can connect by TLS.
    pub(crate) fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_on();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Whether there are certificates, of the ports of clients or of the admin server.
    pub(crate) fn has_certificates(&self) -> bool {
        #[cfg(all(feature = "admin", feature = "tls"))]
        return self.has_tls() || self.http.has_https();
        #[cfg(not(all(feature = "admin", feature = "tls")))]
        self.has_tls()
    }

    /// Where it listens, but for TLS alone.
    fn listens(&self) -> Vec<String> {
        #[cfg(feature = "tls")]
        let by_default = !self.tls.has_port();
        #[cfg(not(feature = "tls"))]
        let by_default = true;
        match &self.parts.bind {
            _ if !self.binds.is_empty() => self.binds.clone(),
            Some(bind) => vec![bind.clone()],
            // A TLS port alone brings no plaintext port.
            None if by_default => vec![DEFAULT_BIND.to_owned()],
            None => Vec::new(),
        }
    }

    fn check_timeouts(&self) -> Result<(), SettingMistake> {
        let tick = self.tick_time.as_millis();
        let min = self.min_session_timeout.map_or(tick * 2, |min| min.as_millis());
        let max = self.max_session_timeout.map_or(tick * 20, |max| max.as_millis());
        if min > max { Err(SettingMistake::Timeouts { min, max }) } else { Ok(()) }
    }

    /// The options of the data directory; `None` if the state is in memory.
    fn storage(&self) -> Option<StorageOptions> {
        let data_dir = self.data_dir.clone().filter(|_| !self.in_memory)?;
        let log_dir = self.storage.log_dir.clone().filter(|log_dir| *log_dir != data_dir);
        let mut options = self.storage.clone();
        (options.data_dir, options.log_dir) = (data_dir, log_dir);
        Some(options)
    }

    /// A server builder with these settings.
    pub(crate) fn builder(&self) -> ServerBuilder {
        let server = self.server.clone().tick_time(self.tick_time).four_letter_words(self.words.clone());
        let server = self.min_session_timeout.into_iter().fold(server, ServerBuilder::min_session_timeout);
        let server = self.max_session_timeout.into_iter().fold(server, ServerBuilder::max_session_timeout);
        let server = self.listens().into_iter().fold(server, ServerBuilder::bind);
        #[cfg(feature = "tls")]
        let server = self.tls.apply(server);
        let server = self.auth.apply(server);
        self.storage().into_iter().fold(server, ServerBuilder::storage)
    }
}

/// An address and a port, as one text.
fn joined(address: &str, port: u16) -> String {
    let bare_v6 = address.contains(':') && !address.starts_with('[');
    if bare_v6 { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// Puts a valid value in its place.
fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

/// What is wrong with flags, or with settings together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingMistake {
    #[error("invalid value '{value}' for '{usage}': {hint}; see `zoolet serve --help`")]
    Flag { value: String, usage: String, hint: String },
    #[error("the {what} of {origin} {hint}")]
    Secret { what: String, origin: String, hint: String },
    #[error(
        "--{flag} requires a data directory; set --data-dir (dataDir), or remove it to keep the state in memory"
    )]
    NoDataDir { flag: &'static str },
    #[error(
        "the minimum session timeout, {min} ms (minSessionTimeout, or 2 ticks), exceeds the maximum, {max} ms \
         (maxSessionTimeout, or 20 ticks); lower the minimum or raise the maximum"
    )]
    Timeouts { min: u128, max: u128 },
    #[error("{0}")]
    Together(&'static str),
    #[error("the users of SASL: {0}")]
    Jaas(String),
}
