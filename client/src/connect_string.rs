//! Connect strings: hosts, a chroot, TLS and who authenticates, as text.

use std::net::Ipv6Addr;

use zoolet_proto::ConnectStringParts;

use crate::error::Error;
use crate::transport::Host;

/// The parts of a connect string.
pub(crate) struct ConnectString<'s> {
    pub(crate) security: TargetSecurity,
    pub(crate) hosts: TargetHosts<'s>,
    pub(crate) chroot: &'s str,
}

/// The hosts of a connect string.
pub(crate) enum TargetHosts<'s> {
    /// At least one.
    Named(Vec<Host>),
    /// Those of the SRV records of a name.
    Srv(&'s str),
}

/// What a connect string says about the connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetSecurity {
    /// By TLS.
    pub(crate) tls: bool,
    /// Who authenticates by SASL.
    pub(crate) user: Option<String>,
}

const NO_PASSWORD: &str =
    "no password stands in a connect string: give it by `ConnectOptions::sasl_password`";

/// Reads a connect string.
pub(crate) fn parse(text: &str) -> Result<ConnectString<'_>, Error> {
    // What is before an @ may be a password that somebody has put there.
    let shown = text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("...@{rest}"));
    let invalid = |reason: String| Error::InvalidTarget(format!("{shown:?}: {reason}"));
    let parts = ConnectStringParts::split(text);
    let scheme = parts.scheme.unwrap_or("zk");
    let (base, tls) = scheme.strip_suffix("+tls").map_or((scheme, false), |base| (base, true));
    if !matches!(base, "zk" | "dns-srv") {
        return Err(invalid(
            "a connect string begins with its hosts, or with \"zk://\", \"zk+tls://\", \"dns-srv://\" or \"dns-srv+tls://\"".to_owned(),
        ));
    }
    // What follows the slashes may be anything, as it is a path.
    if parts.hosts.ends_with(':') && parts.chroot.starts_with("//") {
        return Err(invalid("the scheme stands once, before the first host".to_owned()));
    }
    let user = parts.user.map(parse_user).transpose().map_err(invalid)?;
    let hosts = match base {
        "dns-srv" => TargetHosts::Srv(parse_srv_name(parts.hosts.trim()).map_err(invalid)?),
        _ => TargetHosts::Named(parse_hosts(parts).map_err(|reason| {
            // A password may have a slash, and what is before it is not repeated either.
            invalid(if parts.chroot.contains('@') { NO_PASSWORD.to_owned() } else { reason })
        })?),
    };
    Ok(ConnectString { security: TargetSecurity { tls, user }, hosts, chroot: parts.chroot })
}

fn parse_user(user: &str) -> Result<String, String> {
    if user.contains(',') {
        return Err(
            "the user stands once, before the first host, as in \"alice@zk1:2181,zk2:2181\"".to_owned()
        );
    }
    if user.contains(':') {
        return Err(NO_PASSWORD.to_owned());
    }
    if user.trim().is_empty() {
        return Err("before the \"@\" stands a user, as in \"alice@zk1:2181\"".to_owned());
    }
    Ok(user.trim().to_owned())
}

/// At least one host.
fn parse_hosts(parts: ConnectStringParts<'_>) -> Result<Vec<Host>, String> {
    if parts.chroot.contains(',') {
        return Err(chroot_in_the_middle(&format!("{}{}", parts.hosts, parts.chroot)));
    }
    let hosts: Vec<Host> = parts.each_host().map(parse_host).collect::<Result<_, _>>()?;
    if hosts.is_empty() {
        return Err("it names no host".to_owned());
    }
    Ok(hosts)
}

fn parse_srv_name(name: &str) -> Result<&str, String> {
    if name.contains([',', ':']) {
        return Err("after \"dns-srv://\" stands one name; its records have the hosts and ports".to_owned());
    }
    if name.is_empty() {
        return Err("after \"dns-srv://\" stands a name, as in \"dns-srv://_zk._tcp.example.com\"".to_owned());
    }
    #[cfg(feature = "dns-srv")]
    crate::srv::check_name(name)?;
    Ok(name)
}

/// A chroot after a host that is not the last. What follows the comma would be a part of the path, as it may be.
fn chroot_in_the_middle(text: &str) -> String {
    let parts = text.split(',').map(ConnectStringParts::split);
    let (mut hosts, mut chroots): (Vec<_>, Vec<_>) = parts.map(|parts| (parts.hosts, parts.chroot)).unzip();
    hosts.retain(|host| !host.trim().is_empty());
    chroots.retain(|chroot| !chroot.is_empty());
    chroots.dedup();
    let fix = match chroots[..] {
        [chroot] => format!(": write \"{}{chroot}\"", hosts.join(",")),
        _ => String::new(),
    };
    format!(
        "the chroot stands once, after the last host{fix}. For a path with a comma use `ConnectOptions::chroot`"
    )
}

/// The fix for an address of IPv6 without brackets, or another host with several colons.
fn without_brackets(text: &str) -> String {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    let with_port =
        text.rsplit_once(':').filter(|(host, port)| is_address(host) && port.parse::<u16>().is_ok());
    let fix = match (with_port, is_address(text)) {
        (Some((host, port)), false) => format!("\"[{host}]:{port}\""),
        // Both readings are possible, and the first is the likelier one.
        (Some((host, port)), true) => format!("\"[{host}]:{port}\", or \"[{text}]\" without a port"),
        (None, true) => format!("\"[{text}]\""),
        (None, false) => {
            return format!(
                "{text:?} has several colons; an IPv6 address is in brackets, as in \"[::1]:2181\""
            );
        }
    };
    format!("an IPv6 address is in brackets: write {fix}")
}

fn parse_host(text: &str) -> Result<Host, String> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| format!("{text:?} has no closing bracket"))?,
        None if text.matches(':').count() > 1 => return Err(without_brackets(text)),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if name.is_empty() {
        return Err("a host has no name".to_owned());
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| format!("{text:?} has no valid port"))?,
        None if port.is_empty() => ConnectStringParts::DEFAULT_PORT,
        None => return Err(format!("{text:?} is not a host and port")),
    };
    Ok(Host::new(name, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(all(feature = "dns-srv", feature = "tls")))]
    use crate::transport::IntoTransport as _;

    fn hosts(text: &str) -> (Vec<(String, u16)>, String) {
        let ConnectString { hosts: TargetHosts::Named(hosts), chroot, .. } = parse(text).expect(text) else {
            panic!("{text} names no hosts");
        };
        (hosts.into_iter().map(|host| (host.name.to_string(), host.port)).collect(), chroot.to_owned())
    }

    #[test]
    fn a_connect_string_names_hosts_and_a_chroot() {
        let one = |name: &str, port| (name.to_owned(), port);
        assert_eq!(hosts("a"), (vec![one("a", 2181)], String::new()));
        assert_eq!(hosts("a:1,b:2"), (vec![one("a", 1), one("b", 2)], String::new()));
        assert_eq!(hosts("a:1, b/app/x"), (vec![one("a", 1), one("b", 2181)], "/app/x".to_owned()));
        assert_eq!(hosts("a:1,,b,"), (vec![one("a", 1), one("b", 2181)], String::new()));
        assert_eq!(hosts(" ,a:1, /app"), (vec![one("a", 1)], "/app".to_owned()));
        assert_eq!(hosts("a:1/b://c"), (vec![one("a", 1)], "/b://c".to_owned()));
        assert_eq!(hosts("[::1]:7,[fe80::1]"), (vec![one("::1", 7), one("fe80::1", 2181)], String::new()));
    }

    #[test]
    fn a_connect_string_without_a_valid_host_is_refused_with_a_reason() {
        for text in ["", ",", "/app", ":2181", "a:port", "a:70000", "[::1", "[::1]x"] {
            let error = parse(text).map(drop).expect_err(text);
            assert!(error.to_string().starts_with("connect: "), "{error}");
        }
    }

    fn reason(text: &str) -> String {
        let error = parse(text).map(drop).expect_err(text).to_string();
        error.strip_prefix(&format!("connect: {text:?}: ")).expect("the string itself").to_owned()
    }

    #[test]
    fn a_chroot_after_each_host_is_refused_with_the_string_that_is_meant() {
        let other = "For a path with a comma use `ConnectOptions::chroot`";
        let fix = "the chroot stands once, after the last host: write \"h1:2181,h2:2181/x\"";
        assert_eq!(reason("h1:2181/x,h2:2181/x"), format!("{fix}. {other}"));
        assert_eq!(reason("h1:2181/x,h2:2181"), format!("{fix}. {other}"));
        assert_eq!(reason("h1/x,h2/y"), format!("the chroot stands once, after the last host. {other}"));
    }

    #[test]
    fn a_name_of_srv_records_is_not_taken_for_a_host() {
        let text = "dns-srv://_zk._tcp.example.com/app";
        let Ok(ConnectString { hosts: TargetHosts::Srv(name), chroot, .. }) = parse(text) else {
            panic!("{text} names SRV records");
        };
        assert_eq!((name, chroot), ("_zk._tcp.example.com", "/app"));
        let one = "after \"dns-srv://\" stands one name; its records have the hosts and ports";
        assert_eq!(reason("dns-srv://_zk._tcp.a.com,_zk._tcp.b.com/app"), one);
        assert_eq!(reason("dns-srv://_zk._tcp.example.com:2181"), one);
        assert!(reason("dns-srv:///app").ends_with("as in \"dns-srv://_zk._tcp.example.com\""));
        #[cfg(not(feature = "dns-srv"))]
        {
            let error = text.into_transport().map(drop).expect_err("no feature").to_string();
            assert!(error.ends_with("turn on the feature `dns-srv` of the crate"), "{error}");
        }
    }

    #[test]
    fn a_connect_string_says_tls_and_who_authenticates() {
        let security = |tls, user: Option<&str>| TargetSecurity { tls, user: user.map(str::to_owned) };
        for (text, expected) in [
            ("a:1/app@x", security(false, None)),
            ("zk://a:1", security(false, None)),
            ("zk+tls://a:1,b:1/app", security(true, None)),
            ("alice@a:1", security(false, Some("alice"))),
            ("zk+tls://alice@EXAMPLE.COM@[::1]:2281,b/app", security(true, Some("alice@EXAMPLE.COM"))),
            ("dns-srv+tls://alice@_zk._tcp.example.com/app", security(true, Some("alice"))),
        ] {
            assert_eq!(parse(text).expect(text).security, expected, "{text}");
        }
        assert_eq!(hosts("zk+tls://alice@a:1,b/app").0.len(), 2);
        assert_eq!(parse("zk://a:1/b+tls://c").expect("a chroot").chroot, "/b+tls://c");
    }

    #[test]
    fn a_scheme_or_a_user_in_the_wrong_place_is_refused_with_a_hint_and_a_password_is_not_repeated() {
        for (text, hint) in [
            ("tcp+tls://a", "begins with its hosts, or with \"zk://\", \"zk+tls://\""),
            ("+tls://a", "begins with its hosts"),
            ("zk+tls://a,zk+tls://b", "the scheme stands once"),
            ("alice@a,alice@b", "the user stands once, before the first host"),
            ("@a", "before the \"@\" stands a user"),
            ("alice@", "it names no host"),
            ("alice:secret@a", "give it by `ConnectOptions::sasl_password`"),
            ("zk://alice:secret/more@a", "give it by"),
            ("tcp://alice:secret@a", "begins with its hosts"),
            ("dns-srv://alice:secret@a,b", "give it by"),
        ] {
            let error = parse(text).map(drop).expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
            assert!(!error.contains("secret"), "{text}: {error}");
        }
        #[cfg(not(feature = "tls"))]
        {
            let error = "zk+tls://a".into_transport().map(drop).expect_err("no feature").to_string();
            assert!(error.ends_with("turn on the feature `tls` of the crate"), "{error}");
        }
    }

    #[test]
    fn an_ipv6_address_without_brackets_is_refused_with_its_brackets() {
        for (text, fix) in [
            ("::1", "\"[::1]\""),
            ("::1:2181", "\"[::1]:2181\", or \"[::1:2181]\" without a port"),
            ("2001:db8::5:2181", "\"[2001:db8::5]:2181\", or \"[2001:db8::5:2181]\" without a port"),
            ("2001:db8:0:0:0:0:0:5:2181", "\"[2001:db8:0:0:0:0:0:5]:2181\""),
        ] {
            assert_eq!(reason(text), format!("an IPv6 address is in brackets: write {fix}"));
        }
        let other = "\"a:b:c\" has several colons; an IPv6 address is in brackets, as in \"[::1]:2181\"";
        assert_eq!(reason("a:b:c"), other);
    }
}
