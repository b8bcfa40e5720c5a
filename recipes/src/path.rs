//! Paths of znodes, and numbers in their names.

use std::str::FromStr;

/// The path of a child of `dir`.
pub(crate) fn child(dir: &str, name: &str) -> String {
    format!("{}/{name}", dir.trim_end_matches('/'))
}

/// A number that is written in decimal digits and nothing else.
pub(crate) fn digits<N: FromStr>(text: &str) -> Option<N> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}
