//! The settings that flags and `zoo.cfg` have in common.

pub(crate) mod doubtful;
pub(crate) mod storage;
pub(crate) mod written;

use std::time::Duration;

use zoolet_server::{FourLetterWord, Server, ServerBuilder};

use crate::duration;
use crate::settings::storage::StorageSettings;
use crate::settings::written::MIN_FRAME;
use crate::text::{Secret, quoted};

/// The address if none is given.
const DEFAULT_BIND: &str = "127.0.0.1:2181";

/// The default limit of connections per address: that of Apache ZooKeeper when started with a `zoo.cfg`.
const DEFAULT_MAX_CLIENT_CNXNS: usize = 60;

/// The default tick, as in the builder.
const DEFAULT_TICK: Duration = Duration::from_secs(3);

/// The settings that were given. All others keep the builder's defaults.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Settings {
    /// Address to listen on; port 0 picks a free port. Can be repeated [default: 127.0.0.1:2181]
    #[arg(long = "bind", value_name = "ADDRESS:PORT", value_parser = bind)]
    pub(crate) binds: Vec<String>,

    /// Tick, such as 2s: sessions expire at multiples of it [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) tick_time: Option<Duration>,

    /// Minimum session timeout [default: 2 ticks]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) min_session_timeout: Option<Duration>,

    /// Maximum session timeout [default: 20 ticks]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) max_session_timeout: Option<Duration>,

    /// Maximum connections per client address; 0 for no limit [default: 60]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) max_client_cnxns: Option<usize>,

    /// Maximum connections in total; 0 for no limit [default: 0]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) max_cnxns: Option<usize>,

    /// Maximum sessions [default: no limit]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) max_sessions: Option<usize>,

    /// Maximum watched paths per connection [default: no limit]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) max_watches_per_connection: Option<usize>,

    /// Maximum connections that wait to be accepted [default: 1024]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(crate) listen_backlog: Option<u32>,

    /// Close connections that do not open a session within this time [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) sessionless_timeout: Option<Duration>,

    /// Maximum size of a request, in bytes [default: 1048575]
    #[arg(long, value_name = "BYTES", value_parser = max_frame, allow_negative_numbers = true)]
    pub(crate) max_frame: Option<usize>,

    /// Four-letter words to answer besides srvr, such as ruok,mntr,stat, or * for all [default: none]
    #[arg(long, value_name = "WORDS", value_parser = words)]
    pub(crate) four_letter_words: Option<Words>,

    /// Allow znodes with a time to live [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) extended_types: Option<bool>,

    /// Interval of checks for empty containers and expired znodes [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) container_check_interval: Option<Duration>,

    /// Maximum deletions of these per minute [default: 10000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub(crate) container_max_per_minute: Option<u32>,

    /// Delete containers that never had a child at this age; 0 for never [default: 0]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) container_max_never_used: Option<Duration>,

    /// Digest of the superuser: user:base64(sha1(user:password)). Prefer --super-digest-file or the zoo.cfg, as
    /// arguments appear in the process list
    #[arg(long, value_name = "DIGEST")]
    pub(crate) super_digest: Option<Secret>,

    /// Refuse writes that exceed a hard quota [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enforce_quota: Option<bool>,

    /// Disable ACL checks [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) skip_acl: Option<bool>,

    /// Not a flag: it only changes the error code of a refused reconfig.
    #[arg(skip)]
    pub(crate) reconfig_enabled: Option<bool>,

    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

impl Settings {
    /// These settings, completed by `fallback`.
    pub(crate) fn over(self, fallback: Self) -> Self {
        macro_rules! merged {
            ($($field:ident),*) => {
                Self {
                    binds: if self.binds.is_empty() { fallback.binds } else { self.binds },
                    storage: self.storage.over(fallback.storage),
                    $($field: self.$field.or(fallback.$field),)*
                }
            };
        }
        merged! {
            tick_time, min_session_timeout, max_session_timeout, max_client_cnxns, max_cnxns,
            max_sessions, max_watches_per_connection, listen_backlog, sessionless_timeout,
            max_frame, four_letter_words, extended_types, container_check_interval,
            container_max_per_minute, container_max_never_used, super_digest, enforce_quota,
            skip_acl, reconfig_enabled
        }
    }

    /// A server builder with these settings.
    pub(crate) fn builder(self) -> ServerBuilder {
        let storage = self.storage.options();
        let max_client_cnxns = self.max_client_cnxns.unwrap_or(DEFAULT_MAX_CLIENT_CNXNS);
        let builder = Server::builder()
            .max_connections_per_ip(max_client_cnxns)
            .given(self.tick_time, ServerBuilder::tick_time)
            .given(self.min_session_timeout, ServerBuilder::min_session_timeout)
            .given(self.max_session_timeout, ServerBuilder::max_session_timeout)
            .given(self.max_cnxns, ServerBuilder::max_connections)
            .given(self.max_sessions, ServerBuilder::max_sessions)
            .given(self.max_watches_per_connection, ServerBuilder::max_watches_per_connection)
            .given(self.listen_backlog, ServerBuilder::listen_backlog)
            .given(self.sessionless_timeout, ServerBuilder::sessionless_timeout)
            .given(self.max_frame, ServerBuilder::max_frame)
            .given(self.four_letter_words, |builder, Words(words)| builder.four_letter_words(words))
            .given(self.extended_types, ServerBuilder::extended_types)
            .given(self.container_check_interval, ServerBuilder::container_check_interval)
            .given(self.container_max_per_minute, ServerBuilder::container_max_per_minute)
            .given(self.container_max_never_used, ServerBuilder::container_max_never_used)
            .given(self.super_digest, |builder, Secret(digest)| builder.super_digest(digest))
            .given(self.enforce_quota, ServerBuilder::enforce_quota)
            .given(self.skip_acl, ServerBuilder::skip_acl)
            .given(self.reconfig_enabled, ServerBuilder::reconfig_enabled)
            .given(storage, ServerBuilder::storage);
        if self.binds.is_empty() {
            return builder.bind(DEFAULT_BIND);
        }
        self.binds.into_iter().fold(builder, ServerBuilder::bind)
    }

    /// The builder checks this too, but its error does not name the keys of a `zoo.cfg`.
    pub(crate) fn check_timeouts(&self) -> Result<(), TimeoutError> {
        let tick = self.tick_time.unwrap_or(DEFAULT_TICK).as_millis();
        let min = self.min_session_timeout.map_or(tick * 2, |min| min.as_millis());
        let max = self.max_session_timeout.map_or(tick * 20, |max| max.as_millis());
        if min > max { Err(TimeoutError { min, max }) } else { Ok(()) }
    }
}

/// Sets only what was given.
trait Given: Sized {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self;
}

impl Given for ServerBuilder {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

/// The bounds of session timeouts contradict each other.
#[derive(Debug, thiserror::Error)]
#[error(
    "the minimum session timeout, {min} ms (minSessionTimeout, or 2 ticks), exceeds the maximum, {max} ms \
     (maxSessionTimeout, or 20 ticks); lower the minimum or raise the maximum"
)]
pub(crate) struct TimeoutError {
    min: u128,
    max: u128,
}

/// The four-letter words to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<FourLetterWord>);

/// The words of a list, and those in it that are no four-letter words.
#[derive(Debug)]
pub(crate) struct KnownWords {
    pub(crate) words: Vec<FourLetterWord>,
    pub(crate) unknown: Vec<String>,
}

/// Parses a list of four-letter words; `*` is all of them. Never fails: ZooKeeper starts with unknown words too.
pub(crate) fn known_words(text: &str) -> Result<KnownWords, String> {
    let mut known = KnownWords { words: Vec::new(), unknown: Vec::new() };
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match FourLetterWord::from_name(name) {
            _ if name == "*" => known.words = FourLetterWord::ALL.to_vec(),
            Some(word) => known.words.push(word),
            None => known.unknown.push(name.to_owned()),
        }
    }
    Ok(known)
}

/// Parses a list of four-letter words, all of which must exist.
fn words(text: &str) -> Result<Words, String> {
    let KnownWords { words, unknown } = known_words(text)?;
    let Some(unknown) = unknown.first() else { return Ok(Words(words)) };
    let known: Vec<_> = FourLetterWord::ALL.iter().map(|word| word.name()).collect();
    let known = known.join(", ");
    Err(format!("unknown four-letter word {}; use {known}, or * for all", quoted(unknown)))
}

fn max_frame(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (MIN_FRAME..=i32::MAX as usize).contains(&bytes) => Ok(bytes),
        _ => Err("must be a number of bytes from 64 to 2147483647".to_owned()),
    }
}

fn bind(text: &str) -> Result<String, String> {
    if ServerBuilder::is_address(text) {
        Ok(text.to_owned())
    } else {
        Err("must be an address and a port, such as 127.0.0.1:2181 or [::1]:0".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_missing_come_from_the_fallback() {
        let flags = Settings { max_cnxns: Some(1), binds: vec!["a:1".to_owned()], ..Settings::default() };
        let fallback = Settings {
            max_cnxns: Some(2),
            skip_acl: Some(true),
            binds: vec!["b:1".to_owned()],
            ..Settings::default()
        };
        let both =
            Settings { skip_acl: Some(true), ..Settings { max_cnxns: Some(1), ..Settings::default() } };
        assert_eq!(flags.over(fallback), Settings { binds: vec!["a:1".to_owned()], ..both });
    }

    #[test]
    fn words_are_trimmed_and_an_unknown_one_is_named() {
        assert_eq!(words(" ruok, stat,,").unwrap().0, [FourLetterWord::Ruok, FourLetterWord::Stat]);
        assert_eq!(words("ruok,*").unwrap().0, FourLetterWord::ALL);
        assert!(
            words("ruok,stats").unwrap_err().starts_with("unknown four-letter word stats; use conf, cons")
        );
    }

    #[test]
    fn contradicting_timeouts_are_reported_in_milliseconds() {
        let short = Settings { max_session_timeout: Some(Duration::from_secs(5)), ..Settings::default() };
        let message = short.check_timeouts().unwrap_err().to_string();
        assert!(message.contains("6000 ms") && message.contains("5000 ms"), "{message}");
    }
}
