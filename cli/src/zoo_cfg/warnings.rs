//! The keys of a file that have no meaning here: misspelt ones, and all others.

use std::collections::BTreeSet;
use std::path::Path;

use super::protections;
use crate::settings::{GROUPS, SettingGroup, bare};
use crate::text::quoted;

/// What deserves a warning, the likely mistakes first. Only keys, as some of the values are secrets.
pub(super) fn of_ignored(file: &Path, ignored: &BTreeSet<String>) -> Vec<String> {
    let (mut misspelt, mut unsupported) = (vec![], vec![]);
    for key in ignored {
        match (meant(key), why_ignored(key)) {
            (Some(meant), _) => misspelt.push(format!("{} (did you mean {}?)", quoted(key), meant.key)),
            (None, Some(why)) => unsupported.push(format!("{} ({why})", quoted(key))),
            (None, None) => unsupported.push(quoted(key)),
        }
    }
    let warnings = [
        listed(file, "ignored unknown keys", &misspelt),
        listed(file, "ignored unsupported keys", &unsupported),
    ];
    warnings.into_iter().flatten().collect()
}

/// A warning with a list, unless that is empty.
pub(super) fn listed(file: &Path, what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{}: {what}: {}", file.display(), names.join(", ")))
}

/// Why a key is ignored, if that needs an explanation.
fn why_ignored(spelling: &str) -> Option<&'static str> {
    match bare(spelling) {
        "closeSessionTxn.enabled" => Some("the list of ephemerals is always written"),
        "client.certReload" => Some("certificates are always reloaded"),
        "requireClientAuthScheme" => Some(
            "no ZooKeeper reads it, and clients without SASL are served; sessionRequireClientSASLAuth refuses them",
        ),
        #[cfg(not(feature = "admin"))]
        name if name.starts_with("admin.") || name.starts_with("metricsProvider.") => {
            Some("builds with cargo's feature `admin` have it")
        }
        name if name.starts_with("server.") => Some("no ensemble; only its client address is used"),
        _ => None,
    }
}

/// What a misspelt key most likely means.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Meant {
    distance: usize,
    pub(super) key: &'static str,
    /// Whether to ignore it would leave the server open.
    pub(super) protects: bool,
}

/// The key that a misspelt one most likely means. No key of ZooKeeper is as close to another.
pub(super) fn meant(spelling: &str) -> Option<Meant> {
    const TYPING_ERRORS: usize = 2;
    let name = bare(spelling).to_lowercase();
    let of_group = |group: &'static SettingGroup| {
        group.rows.iter().filter_map(|row| row.key).map(|key| (key, group.protects))
    };
    let keys = GROUPS.iter().flat_map(of_group).filter(|(key, _)| !key.ends_with('.'));
    let keys = keys.chain(protections::names().map(|key| (key, true)));
    let meant = keys.map(|(key, protects)| {
        let distance = strsim::damerau_levenshtein(&name, &key.to_lowercase());
        Meant { distance, key, protects }
    });
    meant.filter(|meant| meant.distance <= TYPING_ERRORS).min()
}
