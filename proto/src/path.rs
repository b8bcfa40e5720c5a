//! Znode paths: the rules of `PathUtils.validatePath`, and their parts.

/// Why a text is not a valid path.
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
    /// Two slashes follow each other.
    #[error("a path must not have an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("a path must not have a component . or ..")]
    RelativeComponent,
    /// A character that ZooKeeper does not allow: controls, private use, or one outside the Basic Multilingual Plane.
    #[error("a path must not contain U+{:04X}", *.0 as u32)]
    IllegalCharacter(char),
}

/// Checks that `path` names a znode by ZooKeeper's rules: absolute, normalized, and of allowed characters only.
///
/// # Errors
/// The first rule that `path` breaks.
pub fn validate(path: &str) -> Result<(), PathError> {
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

/// The path of the parent: the text before the last slash, with the root as `/`. The root is its own parent, and a server
/// applies this to invalid paths too.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// The last component of a path; empty for the root.
pub fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The path of the child `name` of the znode at `parent`.
pub fn join(parent: &str, name: &str) -> String {
    format!("{}/{name}", if parent == "/" { "" } else { parent })
}

/// Whether the text after the first slash obviously keeps every rule, as that of nearly all paths does: printable ASCII only,
/// no component that is empty or begins with a dot. Two loops without a branch take a fraction of the time of checking every
/// character.
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
            assert_eq!(validate(path), verdict, "{path:?}");
        }
    }

    #[test]
    fn a_path_has_a_parent_and_a_name() {
        for (path, above, last) in [("/a/b", "/a", "b"), ("/a", "/", "a")] {
            assert_eq!((parent(path), name(path)), (above, last));
            assert_eq!(join(above, last), path);
        }
        assert_eq!((parent("/"), name("/")), ("/", ""));
    }
}
