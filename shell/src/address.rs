//! The parts of a connect string, and where its paths are. Whether it is one is for the client to judge.

use crate::shell::resolve;

/// The port of a server that is written without one.
const DEFAULT_PORT: &str = "2181";

/// What is before the chroot, with the scheme and the user; and the chroot, empty if there is none.
pub(crate) fn split_chroot(address: &str) -> (&str, &str) {
    let hosts = address.find("://").map_or(0, |at| at + "://".len());
    let slash = address.get(hosts..).and_then(|rest| rest.find('/'));
    address.split_at(slash.map_or(address.len(), |at| hosts + at))
}

/// The servers, each with its port, without the scheme and the user.
pub(crate) fn hosts(address: &str) -> Vec<String> {
    let hosts = split_chroot(address).0;
    let hosts = hosts.split_once("://").map_or(hosts, |(_, rest)| rest);
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, rest)| rest);
    let with_port = |host: &str| {
        let name_ends = host.rfind(']').map_or(0, |at| at + 1);
        let has_port = host.get(name_ends..).is_some_and(|rest| rest.contains(':'));
        if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") }
    };
    hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect()
}

/// The path as the servers see it.
pub(crate) fn whole_path(address: &str, path: &str) -> String {
    resolve("/", &format!("{}{path}", split_chroot(address).1))
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
    fn every_server_of_an_address_has_its_port() {
        assert_eq!(hosts("zk+tls://alice@a,b:7/app"), ["a:2181", "b:7"]);
        assert_eq!(hosts("a,b:7,[::1],[::1]:9,/app"), ["a:2181", "b:7", "[::1]:2181", "[::1]:9"]);
    }

    #[test]
    fn a_chroot_begins_after_the_hosts() {
        assert_eq!(split_chroot("zk+tls://alice@a,b:7/app/x"), ("zk+tls://alice@a,b:7", "/app/x"));
        assert_eq!(split_chroot("zk://a"), ("zk://a", ""));
        assert_eq!(split_chroot("a:1/"), ("a:1", "/"));
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
