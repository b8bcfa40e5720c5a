//! Every setting of `zoolet serve`, in one table. The flags and their help, the keys of a `zoo.cfg`, the suggestions for misspelt
//! keys and `docs/settings.md` follow from it. A new setting is a new row; "Add a setting" in CONTRIBUTING.md has the rest.

mod auth;
mod data;
#[cfg(feature = "admin")]
mod http;
#[cfg(all(feature = "admin", feature = "tls"))]
mod https;
mod server;
#[cfg(feature = "tls")]
mod tls;

use super::Settings;
use super::written::Written;

/// A setting: its names, its description, and its effect.
pub(crate) struct SettingRow {
    /// The flag, without its dashes.
    pub(crate) flag: Option<&'static str>,
    /// The key in a `zoo.cfg`, where it may also be written with `zookeeper.` before it, as Java system properties are. If it ends
    /// with a dot it is the beginning of keys, each of which is a setting.
    pub(crate) key: Option<&'static str>,
    /// A second name of the key.
    pub(crate) alias: Option<&'static str>,
    /// The method of a builder, or the field of its options, by which a program sets it. Empty if no program needs it.
    #[cfg_attr(not(test), allow(dead_code, reason = "a test writes the page that has it"))]
    pub(crate) builder: &'static str,
    /// The kind of value of the flag, or of the key if there is no flag.
    pub(crate) takes: &'static str,
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
    /// Whether the flag can be repeated.
    pub(crate) repeats: bool,
    /// Whether the value must not appear in messages.
    pub(crate) secret: bool,
    /// Whether it is a mistake to give it without a data directory.
    pub(crate) needs_data_dir: bool,
    /// Sets the value, or returns what it must be. A file is applied before the flags, so flags take precedence.
    pub(crate) set: fn(&mut Settings, Written<'_>) -> Result<(), String>,
}

impl SettingRow {
    /// A row without names and effect.
    const fn new(takes: &'static str, default: &'static str) -> Self {
        Self {
            flag: None,
            key: None,
            alias: None,
            builder: "",
            takes,
            default,
            help: "",
            repeats: false,
            secret: false,
            needs_data_dir: false,
            set: |_, _| Ok(()),
        }
    }

    const fn key(self, key: &'static str) -> Self {
        Self { key: Some(key), ..self }
    }

    const fn builder(self, builder: &'static str) -> Self {
        Self { builder, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    const fn sets(self, set: fn(&mut Settings, Written<'_>) -> Result<(), String>) -> Self {
        Self { set, ..self }
    }

    /// As `sets`, for a setting that means nothing without a data directory.
    const fn stores(self, set: fn(&mut Settings, Written<'_>) -> Result<(), String>) -> Self {
        Self { set, needs_data_dir: true, ..self }
    }

    /// Finds a row by the name of its key in a file or by that of its Java system property.
    pub(crate) fn of_key(spelling: &str) -> Option<&'static Self> {
        let name = bare(spelling);
        settings().find(|row| {
            row.alias == Some(name)
                || row
                    .key
                    .is_some_and(|key| if key.ends_with('.') { name.starts_with(key) } else { name == key })
        })
    }

    /// Whether two spellings are the same setting, of those that this row stands for.
    pub(crate) fn is_same(&self, one: &str, other: &str) -> bool {
        !self.key.is_some_and(|key| key.ends_with('.')) || bare(one) == bare(other)
    }
}

/// A key without the prefix of properties.
pub(crate) fn bare(spelling: &str) -> &str {
    spelling.strip_prefix("zookeeper.").unwrap_or(spelling)
}

/// A row with a flag: its name, what it takes, and its default.
const fn flag(name: &'static str, takes: &'static str, default: &'static str) -> SettingRow {
    SettingRow { flag: Some(name), ..SettingRow::new(takes, default) }
}

/// A row without a flag: the name of its key, what that takes, and its default.
const fn key(name: &'static str, takes: &'static str, default: &'static str) -> SettingRow {
    SettingRow::new(takes, default).key(name)
}

pub(super) const BOOL: &str = "BOOL";
const ADDRESS: &str = "ADDRESS:PORT";
const COUNT: &str = "COUNT";
pub(crate) const DIR: &str = "DIR";
const FILE: &str = "FILE";
const SIZE: &str = "SIZE";
const TIME: &str = "TIME";

/// Settings of one subject.
pub(crate) struct SettingGroup {
    pub(crate) title: &'static str,
    /// Whether these keep somebody out: a misspelt key of them is a mistake, as to ignore it would leave the server open.
    pub(crate) protects: bool,
    pub(crate) rows: &'static [SettingRow],
}

/// All of them.
pub(crate) const GROUPS: &[SettingGroup] = &[
    SettingGroup { title: "Any server", protects: false, rows: server::ROWS },
    #[cfg(feature = "tls")]
    SettingGroup { title: "TLS", protects: true, rows: tls::ROWS },
    SettingGroup { title: "Authentication", protects: true, rows: auth::ROWS },
    #[cfg(feature = "admin")]
    SettingGroup { title: "Admin server and metrics", protects: false, rows: http::ROWS },
    #[cfg(all(feature = "admin", feature = "tls"))]
    SettingGroup { title: "HTTPS of the admin server", protects: true, rows: https::ROWS },
    SettingGroup { title: "With a data directory: a mistake without one", protects: false, rows: data::ROWS },
];

/// Every row.
pub(crate) fn settings() -> impl Iterator<Item = &'static SettingRow> {
    GROUPS.iter().flat_map(|group| group.rows)
}
