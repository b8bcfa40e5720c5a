//! Znode paths: the rules of `PathUtils.validatePath`, and a type for paths that keep them.

use std::fmt;

/// Why a text is not the path of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The text is empty.
    #[error("a path must not be empty")]
    Empty,
    /// The first character is not a slash.
    #[error("a path must start with /")]
    NotAbsolute,
    /// The last character is a slash, and the text is not the root.
    #[error("a path must not end with /")]
    TrailingSlash,
    /// Two slashes stand side by side.
    #[error("a path must not have an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("a path must not have a component . or ..")]
    RelativeComponent,
    /// A character ZooKeeper does not allow: controls, private use, or one outside the Basic Multilingual Plane.
    #[error("a path must not contain U+{:04X}", *.0 as u32)]
    IllegalCharacter(char),
}

/// A path that names a znode by ZooKeeper's rules: absolute, normal, and of allowed characters only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZnodePath(String);

impl ZnodePath {
    /// Checks `path` and keeps it.
    ///
    /// # Errors
    /// The first rule that `path` breaks.
    pub fn new(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        Self::check(&path)?;
        Ok(Self(path))
    }

    /// Checks `path` without keeping it.
    ///
    /// # Errors
    /// The first rule that `path` breaks.
    pub fn check(path: &str) -> Result<(), PathError> {
        let Some(rest) = path.strip_prefix('/') else {
            return Err(if path.is_empty() { PathError::Empty } else { PathError::NotAbsolute });
        };
        if rest.is_empty() || is_plain(rest) {
            return Ok(());
        }
        if rest.ends_with('/') {
            return Err(PathError::TrailingSlash);
        }
        for component in rest.split('/') {
            match component {
                "" => return Err(PathError::EmptyComponent),
                "." | ".." => return Err(PathError::RelativeComponent),
                _ => {}
            }
        }
        match rest.chars().find(|c| !is_allowed(*c)) {
            Some(c) => Err(PathError::IllegalCharacter(c)),
            None => Ok(()),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The znode above this one; the root has none.
    pub fn parent(&self) -> Option<ZnodePath> {
        (self.0 != "/").then(|| Self(parent_of(&self.0).to_owned()))
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path of the child called `name`.
    ///
    /// # Errors
    /// The first rule that the joined path breaks.
    pub fn child(&self, name: &str) -> Result<ZnodePath, PathError> {
        let above = if self.0 == "/" { "" } else { &self.0 };
        Self::new(format!("{above}/{name}"))
    }
}

impl fmt::Debug for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ZnodePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<ZnodePath> for String {
    fn from(path: ZnodePath) -> Self {
        path.0
    }
}

/// The text before the last slash of `path`, with the root as `/`: the parent of a valid path, and what a server
/// takes for the parent of any other text.
pub fn parent_of(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// Whether what stands behind the first slash keeps every rule at first sight, as nearly all paths do: no more than
/// printable ASCII, no component that is empty or begins with a dot. Two loops without a branch, which take a fraction
/// of the time of a look at every character.
fn is_plain(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let starts = |byte: u8| (byte != b'/') & (byte != b'.');
    let printable = bytes.iter().fold(true, |all, byte| all & (b' '..=b'~').contains(byte));
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let components = pairs.fold(true, |all, (before, byte)| all & ((*before != b'/') | starts(*byte)));
    let ends = bytes.first().is_some_and(|first| starts(*first)) && bytes.last() != Some(&b'/');
    printable & components & ends
}

/// Everything above U+FFFF needs surrogates in Java's UTF-16, and those are forbidden.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_path_are_those_of_the_java_client() {
        use PathError::*;
        let illegal = IllegalCharacter;
        for (path, verdict) in [
            ("/", Ok(())),
            ("/a", Ok(())),
            ("/a/...", Ok(())),
            ("/a.b/c..", Ok(())),
            ("/.a/..b/ ~", Ok(())),
            ("/ ~\u{a0}\u{f900}\u{ffef}", Ok(())),
            ("/\u{d7ff}", Ok(())),
            ("", Err(Empty)),
            ("a", Err(NotAbsolute)),
            ("/a/", Err(TrailingSlash)),
            ("//a", Err(EmptyComponent)),
            ("/a//b", Err(EmptyComponent)),
            ("/a/./b", Err(RelativeComponent)),
            ("/..", Err(RelativeComponent)),
            ("/.", Err(RelativeComponent)),
            ("/a/.", Err(RelativeComponent)),
            ("//", Err(TrailingSlash)),
            ("/a\0", Err(illegal('\0'))),
            ("/\u{1f}", Err(illegal('\u{1f}'))),
            ("/\u{7f}", Err(illegal('\u{7f}'))),
            ("/\u{9f}", Err(illegal('\u{9f}'))),
            ("/\u{e000}", Err(illegal('\u{e000}'))),
            ("/\u{f8ff}", Err(illegal('\u{f8ff}'))),
            ("/\u{fff0}", Err(illegal('\u{fff0}'))),
            ("/\u{fffd}", Err(illegal('\u{fffd}'))),
            ("/😀", Err(illegal('😀'))),
        ] {
            assert_eq!(ZnodePath::check(path), verdict, "{path:?}");
        }
    }

    #[test]
    fn a_path_knows_its_family() {
        let a = ZnodePath::new("/a").unwrap();
        let b = a.child("b").unwrap();
        assert_eq!((b.as_str(), b.name()), ("/a/b", "b"));
        assert_eq!(b.parent(), Some(a.clone()));
        let root = a.parent().unwrap();
        assert_eq!((root.as_str(), root.name(), root.parent()), ("/", "", None));
        assert_eq!(root.child("a").unwrap(), a);
    }
}
