//! Where the paths of a connect string are. Whether it is one is for the client to judge.

use zoolet_proto::ConnectStringParts;

use crate::shell::resolve;

/// The chroot, empty if there is none.
pub(crate) fn chroot(address: &str) -> &str {
    ConnectStringParts::split(address).chroot
}

/// The servers, each with its port.
pub(crate) fn hosts(address: &str) -> Vec<String> {
    ConnectStringParts::split(address).addresses()
}

/// The path as the servers see it.
pub(crate) fn whole_path(address: &str, path: &str) -> String {
    resolve("/", &format!("{}{path}", chroot(address)))
}

/// Whether a znode is one that servers keep for themselves.
pub(crate) fn is_of_server(address: &str, path: &str) -> bool {
    below("/zookeeper", &whole_path(address, path)).is_some()
}

/// What a path has below another one: `/` if it is that one, `None` if it is elsewhere.
pub(crate) fn below<'p>(root: &str, path: &'p str) -> Option<&'p str> {
    match path.strip_prefix(root)? {
        "" => Some("/"),
        _ if root == "/" => Some(path),
        rest => rest.starts_with('/').then_some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_chroot() {
        assert_eq!(whole_path("a:1/app/", "/"), "/app");
        assert!(is_of_server("zk+tls://a", "/zookeeper/quota") && is_of_server("a/zookeeper", "/"));
        assert!(!is_of_server("zk+tls://a/app", "/zookeeper") && !is_of_server("a", "/zookeepers"));
    }

    #[test]
    fn a_path_is_below_itself_and_what_is_above_it() {
        for (root, path, expected) in [
            ("/", "/", Some("/")),
            ("/", "/a/b", Some("/a/b")),
            ("/a", "/a", Some("/")),
            ("/a", "/a/b", Some("/b")),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
        ] {
            assert_eq!(below(root, path), expected, "{path} below {root}");
        }
    }
}
