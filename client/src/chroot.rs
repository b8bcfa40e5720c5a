//! The part of every path that the caller does not see.

use zoolet_proto::{PathError, path};

/// A prefix that goes before every path on the way out and off it on the way in. Empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chroot(String);

impl Chroot {
    /// `/` and the empty text mean none.
    pub(crate) fn new(path: &str) -> Result<Self, PathError> {
        if path.is_empty() || path == "/" {
            return Ok(Self::default());
        }
        path::validate(path)?;
        Ok(Self(path.to_owned()))
    }

    /// The server's name for the caller's `path`, which must be a checked one.
    pub(crate) fn join(&self, path: String) -> String {
        match (self.0.as_str(), path.as_str()) {
            ("", _) => path,
            (root, "/") => root.to_owned(),
            (root, path) => [root, path].concat(),
        }
    }

    /// As [`Chroot::join`], for the beginning of a path: a slash at its end stays one.
    pub(crate) fn join_prefix(&self, prefix: String) -> String {
        if self.0.is_empty() { prefix } else { [&self.0, prefix.as_str()].concat() }
    }

    /// The caller's name for the server's `path`. One outside is given as it is.
    pub(crate) fn strip<'p>(&self, path: &'p str) -> &'p str {
        self.inside(path).unwrap_or(path)
    }

    /// The caller's name for the server's `path`, if the caller can have one for it.
    pub(crate) fn inside<'p>(&self, path: &'p str) -> Option<&'p str> {
        match path.strip_prefix(&self.0)? {
            "" => Some("/"),
            inner if inner.starts_with('/') => Some(inner),
            _ => None,
        }
    }

    /// As [`Chroot::strip`], on a text of its own.
    pub(crate) fn strip_owned(&self, path: String) -> String {
        if self.0.is_empty() { path } else { self.strip(&path).to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chroot_goes_on_and_comes_off() {
        let chroot = Chroot::new("/app").unwrap();
        for (outside, inside) in [("/app", "/"), ("/app/a", "/a"), ("/app/a/b", "/a/b")] {
            assert_eq!(chroot.join(inside.to_owned()), outside);
            assert_eq!(chroot.inside(outside), Some(inside));
        }
        assert_eq!(chroot.inside("/apple"), None);
        assert_eq!(chroot.strip("/apple"), "/apple");
    }

    #[test]
    fn no_chroot_changes_nothing() {
        for text in ["", "/"] {
            let chroot = Chroot::new(text).unwrap();
            assert_eq!(chroot.join("/a".to_owned()), "/a");
            assert_eq!(chroot.strip("/a"), "/a");
            assert_eq!(chroot.strip("/"), "/");
        }
        assert_eq!(Chroot::new("app"), Err(PathError::NotAbsolute));
    }
}
