//! Paths of znodes.

/// The path of a child of `dir`.
pub(crate) fn child(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}
