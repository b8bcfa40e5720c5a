//! Clusters by name: `@prod` is what a file in the user's configuration folder says of it.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use crate::failure::{ExitReason, ShellError};

/// What the file says of a cluster.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedCluster {
    /// Its servers, and its chroot.
    pub address: String,
    /// The values of flags by their names, such as `tls-ca`.
    settings: BTreeMap<String, String>,
}

impl NamedCluster {
    /// The file of a flag, such as `tls-ca`, or else that of this cluster.
    pub fn file(&self, name: &str, given: &Option<PathBuf>) -> Option<PathBuf> {
        given.clone().or_else(|| self.settings.get(name).map(PathBuf::from))
    }

    /// Whether a flag without a value, such as `tls`, is set.
    pub fn is_set(&self, name: &str) -> bool {
        self.settings.get(name).is_some_and(|value| value != "false")
    }
}

/// The settings that a cluster may have besides its address: the flags of the same names.
const SETTINGS: [&str; 6] = ["auth-file", "read-only", "tls", "tls-ca", "tls-identity", "tls-password-file"];

/// The cluster of an address such as `@prod` or `@prod/chroot`; `None` if the address is not a name.
///
/// # Errors
/// If there is no such cluster, or the file of clusters cannot be read: in a line that names the file.
pub fn named_cluster(address: &str) -> Result<Option<NamedCluster>, ShellError> {
    let Some(name) = address.strip_prefix('@') else { return Ok(None) };
    let (name, chroot) = name.find('/').map_or((name, ""), |at| name.split_at(at));
    let file = user_file("XDG_CONFIG_HOME", ".config", "zoolet/clusters").ok_or_else(|| {
        ShellError::usage(format!("@{name}: there is no folder for configuration: set HOME"))
    })?;
    let place = file.display().to_string();
    let text = fs::read_to_string(&file).map_err(|error| {
        let message = format!(
            "@{name}: cannot read {place}: {error}; it has lines such as: {name} = zk1:2181,zk2:2181/app"
        );
        ShellError::new(ExitReason::Usage, message)
    })?;
    let mut clusters = parse(&text).map_err(|why| ShellError::usage(format!("{place}, {why}")))?;
    let known = clusters.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut cluster = clusters
        .remove(name)
        .ok_or_else(|| ShellError::usage(format!("@{name}: {place} has no such cluster, but {known}")))?;
    cluster.address.push_str(chroot);
    Ok(Some(cluster))
}

/// A file of the user, in the folder that a variable names, or else in one of the home directory.
pub(crate) fn user_file(variable: &str, in_home: &str, file: &str) -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = folder(variable).or_else(|| Some(folder("HOME")?.join(in_home)))?;
    Some(folder.join(file))
}

/// Reads lines `NAME = ADDRESS` and `NAME.SETTING = VALUE`.
fn parse(text: &str) -> Result<BTreeMap<String, NamedCluster>, String> {
    let mut clusters: BTreeMap<String, NamedCluster> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {}: {why}", at + 1);
        let (key, value) =
            line.split_once('=').ok_or_else(|| wrong("must be NAME = ADDRESS or NAME.SETTING = VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        match key.split_once('.') {
            None => value.clone_into(&mut clusters.entry(key.to_owned()).or_default().address),
            Some((name, setting)) if SETTINGS.contains(&setting) => {
                let settings = &mut clusters.entry(name.to_owned()).or_default().settings;
                settings.insert(setting.to_owned(), value.to_owned());
            }
            Some((_, setting)) => {
                return Err(wrong(&format!(
                    "{setting:?} is not a setting: they are {}",
                    SETTINGS.join(", ")
                )));
            }
        }
    }
    match clusters.iter().find(|(_, cluster)| cluster.address.is_empty()) {
        Some((name, _)) => Err(format!("{name} has no address: add {name} = HOST:PORT")),
        None => Ok(clusters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_clusters_with_their_settings() {
        let clusters =
            parse("# ours\nprod = zk1:2181,zk2:2181/app\nprod.auth-file = /etc/auth\n\ntest=zk9\n").unwrap();
        assert_eq!(clusters["prod"].address, "zk1:2181,zk2:2181/app");
        assert_eq!(clusters["prod"].settings["auth-file"], "/etc/auth");
        assert_eq!(clusters["test"], NamedCluster { address: "zk9".to_owned(), settings: BTreeMap::new() });
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, why) in [
            ("prod", "line 1: must be NAME = ADDRESS"),
            ("a = b\nprod.auth = x", "line 2: \"auth\" is not a setting"),
            ("prod.tls = true", "prod has no address"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
