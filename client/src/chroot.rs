//! The prefix of every path that the caller does not see.

use std::sync::Arc;

use zoolet_proto::{PathError, path};

/// A prefix that is added to every outgoing path and stripped from every incoming one. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chroot(Option<Arc<String>>);

impl Chroot {
    /// `/` and the empty string mean none.
    pub(crate) fn new(path: &str) -> Result<Self, PathError> {
        if path.is_empty() || path == "/" {
            return Ok(Self::default());
        }
        path::validate(path)?;
        Ok(Self(Some(Arc::new(path.to_owned()))))
    }

    /// The chroot at the caller's `path` in this one.
    pub(crate) fn nested(&self, path: &str) -> Result<Self, PathError> {
        let inner = Self::new(path)?;
        Ok(match (self.as_str(), inner.as_str()) {
            (_, "") => self.clone(),
            (outer, inner) => Self(Some(Arc::new([outer, inner].concat()))),
        })
    }

    /// The path as the server sees it; empty for none.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().map_or("", String::as_str)
    }

    /// The caller's `path`, which must be valid, as the server sees it.
    pub(crate) fn join(&self, path: String) -> String {
        match (self.as_str(), path.as_str()) {
            ("", _) => path,
            (root, "/") => root.to_owned(),
            (root, path) => [root, path].concat(),
        }
    }

    /// As [`Chroot::join`], for a prefix of a path: a trailing slash is kept.
    pub(crate) fn join_prefix(&self, prefix: String) -> String {
        if self.0.is_none() { prefix } else { [self.as_str(), &prefix].concat() }
    }

    /// The server's `path` as the caller sees it. A path outside the chroot is returned unchanged.
    pub(crate) fn strip<'p>(&self, path: &'p str) -> &'p str {
        self.inside(path).unwrap_or(path)
    }

    /// The server's `path` as the caller sees it; `None` if it is outside the chroot.
    pub(crate) fn inside<'p>(&self, path: &'p str) -> Option<&'p str> {
        match path.strip_prefix(self.as_str())? {
            "" => Some("/"),
            inner if inner.starts_with('/') => Some(inner),
            _ => None,
        }
    }

    /// As [`Chroot::strip`], for an owned path.
    pub(crate) fn strip_owned(&self, path: String) -> String {
        if self.0.is_none() { path } else { self.strip(&path).to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chroot_is_added_and_stripped() {
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
