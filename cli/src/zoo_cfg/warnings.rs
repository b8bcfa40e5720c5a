//! What deserves a warning: misspelt keys, keys without which monitoring misses something, and all others that are ignored.

use super::keys::{KEYS, STORAGE_KEYS};
use super::{ZooCfg, protections};
use crate::text::quoted;

impl ZooCfg {
    /// What deserves a warning, the likely mistakes first. Values are omitted, as some of them are secrets.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.doubtful.clone();
        let mut warn = |what: &str, names: Vec<String>| {
            if !names.is_empty() {
                warnings.push(format!("{}: {what}: {}", self.file.display(), names.join(", ")));
            }
        };
        warn(
            "ignored unknown four-letter words",
            self.unknown_words.iter().map(|word| quoted(word)).collect(),
        );
        let (mut misspelt, mut admin, mut metrics, mut unsupported) = (vec![], vec![], vec![], vec![]);
        for key in self.ignored.keys() {
            match (meant(key), why_ignored(key)) {
                (Some(meant), _) => misspelt.push(format!("{} (did you mean {meant}?)", quoted(key))),
                (None, Some(why)) => unsupported.push(format!("{} ({why})", quoted(key))),
                (None, None) if self.wants_admin() && key.starts_with("admin.") => admin.push(quoted(key)),
                (None, None) if self.wants_metrics() && key.starts_with(METRICS) => metrics.push(quoted(key)),
                (None, None) => unsupported.push(quoted(key)),
            }
        }
        warn("ignored unknown keys", misspelt);
        warn(
            "there is no HTTP admin server, so monitoring that asks it gets no answer; the four-letter words mntr, \
             srvr and ruok have the figures (4lw.commands.whitelist)",
            admin,
        );
        warn(
            "there is no metrics endpoint, so monitoring that scrapes it gets no answer; the four-letter word mntr \
             has figures (4lw.commands.whitelist)",
            metrics,
        );
        warn("ignored unsupported keys", unsupported);
        warnings
    }

    fn wants_admin(&self) -> bool {
        !self.ignored.get("admin.enableServer").is_some_and(|value| value.eq_ignore_ascii_case("false"))
    }

    /// Apache's default provider has no endpoint.
    fn wants_metrics(&self) -> bool {
        const WITHOUT_ENDPOINT: [&str; 2] = ["DefaultMetricsProvider", "NullMetricsProvider"];
        let class = self.ignored.get("metricsProvider.className");
        class.is_some_and(|class| !WITHOUT_ENDPOINT.iter().any(|name| class.ends_with(name)))
    }
}

const METRICS: &str = "metricsProvider.";

/// Why a key is ignored, if that needs an explanation.
fn why_ignored(spelling: &str) -> Option<&'static str> {
    match spelling.strip_prefix("zookeeper.").unwrap_or(spelling) {
        "closeSessionTxn.enabled" => Some("the list of ephemerals is always written"),
        name if name.starts_with("server.") => Some("no ensemble; only its client address is used"),
        _ => None,
    }
}

/// The key that a misspelt one most likely means. No key of ZooKeeper is as close to another.
fn meant(spelling: &str) -> Option<&'static str> {
    const TYPING_ERRORS: usize = 2;
    let name = spelling.strip_prefix("zookeeper.").unwrap_or(spelling).to_lowercase();
    let keys = KEYS.iter().chain(STORAGE_KEYS).map(|key| key.name).chain(protections::names());
    let keys = keys.map(|key| (strsim::damerau_levenshtein(&name, &key.to_lowercase()), key));
    keys.filter(|(distance, _)| *distance <= TYPING_ERRORS).min().map(|(_, key)| key)
}
