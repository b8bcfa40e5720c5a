//! Path patterns.

use std::fmt;

/// A pattern for paths: `*` stands for any text within a name, `**` for zero or more whole names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob(String);

impl Glob {
    /// The pattern, or what is wrong with it.
    pub(crate) fn new(pattern: &str) -> Result<Self, &'static str> {
        if !pattern.starts_with('/') {
            return Err("a path pattern begins with a slash");
        }
        if pattern.contains("//") {
            return Err("no path has an empty name in it");
        }
        if pattern.split('/').any(|name| name != "**" && name.contains("**")) {
            return Err("** stands for whole names and must be alone between slashes");
        }
        Ok(Self(pattern.to_owned()))
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let pattern: Vec<_> = names(&self.0).collect();
        let path: Vec<_> = names(path).collect();
        matches_names(&pattern, &path)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    // The root has no name; a path that ends with a slash, as sequential ones may, has an empty one.
    path.strip_prefix('/').unwrap_or(path).split('/').filter(move |_| path != "/")
}

fn matches_names(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=path.len()).any(|taken| matches_names(rest, &path[taken..])),
        (Some((name, pattern)), Some((candidate, path))) => {
            matches_name(name.as_bytes(), candidate.as_bytes()) && matches_names(pattern, path)
        }
        _ => false,
    }
}

fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| matches_name(rest, &name[taken..])),
        (Some((wanted, pattern)), Some((found, name))) => wanted == found && matches_name(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_paths() {
        let cases = [
            ("/a", "/a", true),
            ("/a", "/a/b", false),
            ("/a/*", "/a/b", true),
            ("/a/*", "/a", false),
            ("/a/*", "/a/b/c", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**", "/ab", false),
            ("/**", "/", true),
            ("/", "/", true),
            ("/", "/a", false),
            ("/**/lock-*", "/x/y/lock-0000000001", true),
            ("/**/lock-*", "/x/y/lock-1/z", false),
            ("/a/*-*-b", "/a/1-2-b", true),
            ("/a/job-*", "/a/job-", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).unwrap().matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        assert!(Glob::new("locks/*").is_err());
        assert!(Glob::new("/locks/**x").is_err());
        assert!(Glob::new("/locks//x").is_err());
    }
}
