//! The keys of a file that have no meaning here: misspelt ones, and all others.

use std::collections::BTreeMap;
use std::path::Path;

use super::protections;
use crate::settings::{bare, settings};
use crate::text::quoted;

/// What deserves a warning, the likely mistakes first. Values are omitted, as some of them are secrets.
pub(super) fn of_ignored(file: &Path, ignored: &BTreeMap<String, String>) -> Vec<String> {
    let (mut misspelt, mut unsupported) = (vec![], vec![]);
    for key in ignored.keys() {
        match (meant(key), why_ignored(key)) {
            (Some(meant), _) => misspelt.push(format!("{} (did you mean {meant}?)", quoted(key))),
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
        name if name.starts_with("server.") => Some("no ensemble; only its client address is used"),
        _ => None,
    }
}

/// The key that a misspelt one most likely means. No key of ZooKeeper is as close to another.
fn meant(spelling: &str) -> Option<&'static str> {
    const TYPING_ERRORS: usize = 2;
    let name = bare(spelling).to_lowercase();
    let keys =
        settings().filter_map(|row| row.key).filter(|key| !key.ends_with('.')).chain(protections::names());
    let keys = keys.map(|key| (strsim::damerau_levenshtein(&name, &key.to_lowercase()), key));
    keys.filter(|(distance, _)| *distance <= TYPING_ERRORS).min().map(|(_, key)| key)
}
