//! Connect strings: where servers are, as text. Whether the parts are valid is for those to judge who use them.

/// The parts of a connect string, `scheme://user@host:port,host:port/chroot`, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectStringParts<'s> {
    /// The scheme, if there is one.
    pub scheme: Option<&'s str>,
    /// The user, if there is one.
    pub user: Option<&'s str>,
    /// All hosts.
    pub hosts: &'s str,
    /// With its slash; empty if there is none.
    pub chroot: &'s str,
}

impl<'s> ConnectStringParts<'s> {
    /// The port of a host without one.
    pub const DEFAULT_PORT: u16 = 2181;

    /// Splits a connect string.
    pub fn split(text: &'s str) -> Self {
        // After a slash it is the chroot that has it.
        let scheme = text.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
        let (scheme, rest) = scheme.map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let (hosts, chroot) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, hosts) = hosts.rsplit_once('@').map_or((None, hosts), |(user, hosts)| (Some(user), hosts));
        Self { scheme, user, hosts, chroot }
    }

    /// Each host. Empty entries are skipped, as by Java: templates leave a comma at the end.
    pub fn each_host(self) -> impl Iterator<Item = &'s str> {
        self.hosts.split(',').map(str::trim).filter(|host| !host.is_empty())
    }

    /// Each host with its port.
    pub fn addresses(self) -> Vec<String> {
        let with_port = |host: &str| {
            let name_ends = host.rfind(']').map_or(0, |at| at + 1);
            let has_port = host.get(name_ends..).is_some_and(|rest| rest.contains(':'));
            if has_port { host.to_owned() } else { format!("{host}:{}", Self::DEFAULT_PORT) }
        };
        self.each_host().map(with_port).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_string_is_split_into_its_parts() {
        for (text, scheme, user, hosts, chroot) in [
            ("a", None, None, "a", ""),
            ("zk://a", Some("zk"), None, "a", ""),
            ("a:1/", None, None, "a:1", "/"),
            ("zk+tls://alice@a,b:7/app/x", Some("zk+tls"), Some("alice"), "a,b:7", "/app/x"),
            ("alice@EXAMPLE.COM@a/b@c", None, Some("alice@EXAMPLE.COM"), "a", "/b@c"),
            ("a:1/b://c/d", None, None, "a:1", "/b://c/d"),
            ("zk://a:1/b+tls://c", Some("zk"), None, "a:1", "/b+tls://c"),
        ] {
            assert_eq!(
                ConnectStringParts::split(text),
                ConnectStringParts { scheme, user, hosts, chroot },
                "{text}"
            );
        }
    }

    #[test]
    fn every_host_has_its_port() {
        let addresses = ConnectStringParts::split("zk://alice@a, b:7,[::1],[::1]:9,/app").addresses();
        assert_eq!(addresses, ["a:2181", "b:7", "[::1]:2181", "[::1]:9"]);
    }
}
