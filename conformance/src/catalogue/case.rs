//! [`Case`]: one script of the catalogue.

use std::fmt;
use std::str::FromStr;

use crate::catalogue::pattern::Patterns;
use crate::catalogue::request::Draft;

/// A short script of requests, and what must come back.
#[derive(Debug, Clone)]
pub struct Case {
    pub(crate) name: String,
    pub(crate) fact: String,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) with: Vec<Setting>,
    pub(crate) without: Vec<Setting>,
    pub(crate) deviates: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    /// Its name: a group and what it is about, such as `delete/bad-version`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part of its name before the first `/`.
    pub fn group(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// What it shows, and where that is known from.
    pub fn fact(&self) -> &str {
        &self.fact
    }

    /// Whether servers of that version are to pass it.
    pub fn is_for(&self, profile: Profile) -> bool {
        self.profiles.contains(&profile)
    }

    /// The settings that the server must have.
    pub fn with(&self) -> &[Setting] {
        &self.with
    }

    /// The settings that the server must not have.
    pub fn without(&self) -> &[Setting] {
        &self.without
    }

    /// The settings that decide whether it is run: those that the server must have, and those that it must not have.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        self.with.iter().chain(&self.without).copied()
    }

    /// Whether it is for a server that has these settings and no others.
    pub fn is_with(&self, settings: &[Setting]) -> bool {
        let has = |setting: &Setting| settings.contains(setting);
        self.with.iter().all(has) && !self.without.iter().any(has)
    }

    /// The releases on which the fact is recorded.
    pub fn recorded_on(&self) -> impl Iterator<Item = &'static str> {
        self.profiles.iter().map(|profile| profile.recorded_on())
    }

    /// Why Zoolet answers otherwise, if it does so by decision: the row of `docs/deviations.md`.
    pub fn deviates(&self) -> Option<&str> {
        self.deviates.as_deref()
    }
}

/// The version of ZooKeeper that a server is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Apache ZooKeeper 3.8.
    V3_8,
    /// Apache ZooKeeper 3.9.
    V3_9,
}

impl Profile {
    /// Every version.
    pub const ALL: [Self; 2] = [Self::V3_8, Self::V3_9];

    /// The release on which the cases of the version are recorded: each of them passes there.
    pub fn recorded_on(self) -> &'static str {
        match self {
            Self::V3_8 => "3.8.0",
            Self::V3_9 => "3.9.5",
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|profile| profile.to_string() == text);
        known.ok_or_else(|| format!("`{text}` is not a known version; known are 3.8 and 3.9"))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V3_8 => "3.8",
            Self::V3_9 => "3.9",
        })
    }
}

/// A setting of the server that answers depend on. None of them is on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// `zookeeper.extendedTypesEnabled`: there are znodes with a TTL.
    ExtendedTypes,
    /// `zookeeper.enforceQuota`: hard quotas refuse writes.
    EnforceQuota,
    /// `reconfigEnabled`.
    Reconfig,
    /// `zookeeper.DigestAuthenticationProvider.superDigest`, with credentials that are known to the [`Runner`](crate::Runner).
    Super,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Self; 4] = [Self::ExtendedTypes, Self::EnforceQuota, Self::Reconfig, Self::Super];
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|setting| setting.to_string() == text);
        known.ok_or_else(|| {
            let known = Self::ALL.map(|setting| setting.to_string()).join(", ");
            format!("`{text}` is not a setting that cases are about; those are {known}")
        })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExtendedTypes => "extended-types",
            Self::EnforceQuota => "enforce-quota",
            Self::Reconfig => "reconfig",
            Self::Super => "super",
        })
    }
}

/// A line of a case.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its text, for reports.
    pub(crate) text: String,
    /// The connection that it is about.
    pub(crate) session: char,
    pub(crate) action: Action,
}

/// What a line does.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Sends a request. With a pattern, the next frame must be its reply.
    Send(Draft, Option<Patterns>),
    /// Sends bytes that need not be a frame.
    Bytes(Vec<u8>),
    /// The next frame must be the reply to the first request without one.
    Reply(Patterns),
    /// The next frame must be a watch event.
    Event(Patterns),
    /// Nothing has come that was not expected: a ping is answered first.
    Quiet,
    /// Connects, and opens or takes up a session.
    Open(Draft, Patterns),
    /// Cuts the connection. The session stays.
    Drop,
    /// The server must have ended the connection.
    Ended,
}
