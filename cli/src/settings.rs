//! What can be set, by flags and by `zoo.cfg` alike.

use std::fmt;
use std::time::Duration;

use zoolet_proto::is_digest_id;
use zoolet_server::{FourLetterWord, Server, ServerBuilder};

use crate::duration;
use crate::failure::Failure;

/// Where a server listens that is not told where.
const DEFAULT_BIND: &str = "127.0.0.1:2181";

/// How many connections one address may have: the default of Apache ZooKeeper when started with a `zoo.cfg`.
const DEFAULT_MAX_CLIENT_CNXNS: usize = 60;

/// The default tick, as the builder has it.
const DEFAULT_TICK: Duration = Duration::from_secs(3);

/// Settings that were given; the others keep the builder's defaults.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Settings {
    /// Where to listen; port 0 takes a free one. May be given several times [default: 127.0.0.1:2181]
    #[arg(long = "bind", value_name = "ADDRESS:PORT", value_parser = bind)]
    pub(crate) binds: Vec<String>,

    /// The unit of time, such as 2s: sessions expire at multiples of it [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) tick_time: Option<Duration>,

    /// The shortest session timeout granted [default: 2 ticks]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) min_session_timeout: Option<Duration>,

    /// The longest session timeout granted [default: 20 ticks]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) max_session_timeout: Option<Duration>,

    /// How many connections one address may have; 0 for any number [default: 60]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_client_cnxns: Option<usize>,

    /// How many connections there may be in all; 0 for any number [default: 0]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_cnxns: Option<usize>,

    /// How many sessions may live [default: any number]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_sessions: Option<usize>,

    /// How many paths one connection may watch [default: any number]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_watches_per_connection: Option<usize>,

    /// How many connections may wait to be accepted [default: 1024]
    #[arg(long, value_name = "COUNT")]
    pub(crate) listen_backlog: Option<u32>,

    /// After how long a connection that has not opened a session is closed [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) sessionless_timeout: Option<Duration>,

    /// The longest request taken, in bytes [default: 1048575]
    #[arg(long, value_name = "BYTES", value_parser = max_frame)]
    pub(crate) max_frame: Option<usize>,

    /// Which four-letter words are answered besides srvr: ruok,mntr,stat and so on, or * for all [default: none]
    #[arg(long, value_name = "WORDS", value_parser = words)]
    pub(crate) four_letter_words: Option<Words>,

    /// Whether znodes with a time to live may be created [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) extended_types: Option<bool>,

    /// How often empty containers and expired znodes are looked for [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = duration::interval)]
    pub(crate) container_check_interval: Option<Duration>,

    /// How many of them may be deleted in a minute [default: 10000]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) container_max_per_minute: Option<u32>,

    /// The age at which a container that never had a child may go; 0 for never [default: 0]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) container_max_never_used: Option<Duration>,

    /// Who may do everything, as user:base64(sha1(user:password)). Prefer --super-digest-file or the zoo.cfg:
    /// arguments can be seen in the list of processes
    #[arg(long, value_name = "DIGEST")]
    pub(crate) super_digest: Option<Secret>,

    /// Whether hard quotas refuse writes [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) enforce_quota: Option<bool>,

    /// Whether ACLs are not looked at [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) skip_acl: Option<bool>,

    /// Not a flag: whether reconfig is enabled only changes how it is refused.
    #[arg(skip)]
    pub(crate) reconfig_enabled: Option<bool>,
}

impl Settings {
    /// These settings, and those of `below` where these say nothing.
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            binds: if self.binds.is_empty() { below.binds } else { self.binds },
            tick_time: self.tick_time.or(below.tick_time),
            min_session_timeout: self.min_session_timeout.or(below.min_session_timeout),
            max_session_timeout: self.max_session_timeout.or(below.max_session_timeout),
            max_client_cnxns: self.max_client_cnxns.or(below.max_client_cnxns),
            max_cnxns: self.max_cnxns.or(below.max_cnxns),
            max_sessions: self.max_sessions.or(below.max_sessions),
            max_watches_per_connection: self.max_watches_per_connection.or(below.max_watches_per_connection),
            listen_backlog: self.listen_backlog.or(below.listen_backlog),
            sessionless_timeout: self.sessionless_timeout.or(below.sessionless_timeout),
            max_frame: self.max_frame.or(below.max_frame),
            four_letter_words: self.four_letter_words.or(below.four_letter_words),
            extended_types: self.extended_types.or(below.extended_types),
            container_check_interval: self.container_check_interval.or(below.container_check_interval),
            container_max_per_minute: self.container_max_per_minute.or(below.container_max_per_minute),
            container_max_never_used: self.container_max_never_used.or(below.container_max_never_used),
            super_digest: self.super_digest.or(below.super_digest),
            enforce_quota: self.enforce_quota.or(below.enforce_quota),
            skip_acl: self.skip_acl.or(below.skip_acl),
            reconfig_enabled: self.reconfig_enabled.or(below.reconfig_enabled),
        }
    }

    /// The builder of a server that has these settings.
    pub(crate) fn builder(self) -> Result<ServerBuilder, Failure> {
        self.check_timeouts()?;
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
            .given(self.reconfig_enabled, ServerBuilder::reconfig_enabled);
        if self.binds.is_empty() {
            return Ok(builder.bind(DEFAULT_BIND));
        }
        Ok(self.binds.into_iter().fold(builder, ServerBuilder::bind))
    }

    /// The builder checks this too, but cannot tell in the words of a `zoo.cfg` which two settings are at odds.
    fn check_timeouts(&self) -> Result<(), Failure> {
        let tick = self.tick_time.unwrap_or(DEFAULT_TICK).as_millis();
        let min = self.min_session_timeout.map_or(tick * 2, |min| min.as_millis());
        let max = self.max_session_timeout.map_or(tick * 20, |max| max.as_millis());
        if min > max { Err(Failure::Timeouts { min, max }) } else { Ok(()) }
    }
}

/// A builder that is told only what was given.
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

/// Something that is not to be seen in logs and errors.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The four-letter words to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<FourLetterWord>);

/// Reads a list of four-letter words; `*` is all of them.
pub(crate) fn words(text: &str) -> Result<Words, String> {
    let mut words = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if name == "*" {
            return Ok(Words(FourLetterWord::ALL.to_vec()));
        }
        match FourLetterWord::from_name(name) {
            Some(word) => words.push(word),
            None => {
                let known: Vec<_> = FourLetterWord::ALL.iter().map(|word| word.name()).collect();
                let known = known.join(", ");
                return Err(format!("there is no word {}; there are {known}, and * for all", quoted(name)));
            }
        }
    }
    Ok(Words(words))
}

/// Tells whether it can be a super digest at all. One that cannot would just never match.
pub(crate) fn check_super_digest(text: &str) -> Result<(), &'static str> {
    if is_digest_id(text) {
        Ok(())
    } else {
        Err("must be user:base64(sha1(user:password)), 28 characters behind the colon")
    }
}

/// The smallest request limit the builder takes.
pub(crate) const MIN_FRAME: usize = 64;

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

/// Text that somebody else wrote, fit for a place in one line.
pub(crate) fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_above_wins_and_the_rest_shows_through() {
        let above = Settings { max_cnxns: Some(1), binds: vec!["a:1".to_owned()], ..Settings::default() };
        let below = Settings {
            max_cnxns: Some(2),
            skip_acl: Some(true),
            binds: vec!["b:1".to_owned()],
            ..Settings::default()
        };
        let both =
            Settings { skip_acl: Some(true), ..Settings { max_cnxns: Some(1), ..Settings::default() } };
        assert_eq!(above.over(below), Settings { binds: vec!["a:1".to_owned()], ..both });
    }

    #[test]
    fn words_are_trimmed_and_an_unknown_one_is_named() {
        assert_eq!(words(" ruok, stat,,").unwrap().0, [FourLetterWord::Ruok, FourLetterWord::Stat]);
        assert_eq!(words("ruok,*").unwrap().0, FourLetterWord::ALL);
        assert!(words("ruok,stats").unwrap_err().starts_with("there is no word stats; there are conf, cons"));
    }

    #[test]
    fn a_super_digest_has_a_user_and_a_sha1() {
        assert_eq!(check_super_digest("super:lK75jTNcA+U9vtVEw5vB51mj/w4="), Ok(()));
        for text in [
            "",
            "super",
            "super:secret",
            ":lK75jTNcA+U9vtVEw5vB51mj/w4=",
            "super:lK75jTNcA+U9vtVEw5vB51mj/w4",
        ] {
            assert!(check_super_digest(text).is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", Secret::from("super:x")), "(secret)");
    }

    #[test]
    fn contradicting_timeouts_are_told_in_milliseconds() {
        let short = Settings { max_session_timeout: Some(Duration::from_secs(5)), ..Settings::default() };
        let said = short.builder().unwrap_err().to_string();
        assert!(said.contains("6000 ms") && said.contains("5000 ms"), "{said}");
    }
}
