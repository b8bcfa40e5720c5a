//! Where connections come from: TCP hosts of a connect string, or a closure.

use std::fmt;
use std::future::Future;
#[cfg(feature = "dns-srv")]
use std::future::ready;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::error::Error;
use crate::server_list::ServerList;
#[cfg(feature = "tls")]
use crate::tls_stream::{SharedTls, shake_hands};

/// The port of a host without one.
const DEFAULT_PORT: u16 = 2181;

/// A stream of any kind.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for S {}

pub(crate) type Dialing = Pin<Box<dyn Future<Output = io::Result<Box<dyn ClientStream>>> + Send>>;

/// A source of connections, made from a connect string or a closure; see [`IntoTransport`].
pub struct Transport {
    dial: Dial,
    pub(crate) chroot: String,
    #[cfg(feature = "tls")]
    tls: Option<SharedTls>,
}

enum Dial {
    Tcp(ServerList),
    Custom(Box<dyn Fn() -> Dialing + Send>),
    /// That of several sessions.
    Shared(SharedTransport),
}

/// A source of connections for one session after the other, which go on with the hosts where the last one stopped.
#[derive(Clone)]
pub(crate) struct SharedTransport(Arc<Mutex<Transport>>);

impl SharedTransport {
    pub(crate) fn new(transport: Transport) -> Self {
        Self(Arc::new(Mutex::new(transport)))
    }

    /// The transport of one more session.
    pub(crate) fn share(&self) -> Transport {
        Transport::new(Dial::Shared(self.clone()), &self.lock().chroot)
    }

    fn lock(&self) -> MutexGuard<'_, Transport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host of a connect string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    port: u16,
    /// Both, for messages.
    pub(crate) label: Arc<str>,
}

impl Transport {
    fn new(dial: Dial, chroot: &str) -> Self {
        Self {
            dial,
            chroot: chroot.to_owned(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// The hosts to choose from; `None` for a closure.
    pub(crate) fn servers(&self) -> Option<ServerList> {
        match &self.dial {
            Dial::Tcp(servers) => Some(servers.clone()),
            Dial::Custom(_) => None,
            Dial::Shared(transport) => transport.lock().servers(),
        }
    }

    /// What the connect string says about the connection.
    pub(crate) fn security(&self) -> TargetSecurity {
        self.servers().map(|servers| servers.security().clone()).unwrap_or_default()
    }

    /// The name of the SRV records that its hosts are from.
    #[cfg(feature = "dns-srv")]
    pub(crate) fn srv_label(&self) -> Option<Arc<str>> {
        self.servers()?.srv_label()
    }

    /// Connects by TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secured(self, tls: SharedTls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Whether its servers have names.
    #[cfg(feature = "tls")]
    pub(crate) fn is_named(&self) -> bool {
        match &self.dial {
            Dial::Tcp(_) => true,
            Dial::Custom(_) => false,
            Dial::Shared(transport) => transport.lock().is_named(),
        }
    }

    /// Starts an attempt at the next host. Returns also its name, if it has one.
    pub(crate) fn dial(&mut self) -> (Option<Arc<str>>, Dialing) {
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.clone() {
            let (host, label, dialing) = self.dial_next();
            let dialing = async move { shake_hands(tls, host.as_deref(), dialing.await?).await };
            return (label, Box::pin(dialing));
        }
        let (_, label, dialing) = self.dial_next();
        (label, dialing)
    }

    /// As [`dial`](Transport::dial), in plaintext. The name is also returned without its port.
    fn dial_next(&mut self) -> (Option<Arc<str>>, Option<Arc<str>>, Dialing) {
        match &mut self.dial {
            Dial::Tcp(servers) => {
                #[cfg(feature = "dns-srv")]
                if let Some((label, error)) = servers.unresolved() {
                    return (None, Some(label), Box::pin(ready(Err(error))));
                }
                let (host, round) = servers.next();
                let (name, label) = (Arc::clone(&host.name), Arc::clone(&host.label));
                (Some(name), Some(label), Box::pin(async move { host.connect(round).await }))
            }
            Dial::Custom(dial) => (None, None, dial()),
            Dial::Shared(transport) => transport.lock().dial_next(),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dial {
            Dial::Tcp(servers) => f.debug_tuple("Transport").field(&servers.hosts()).finish(),
            Dial::Custom(_) => f.write_str("Transport(closure)"),
            Dial::Shared(transport) => fmt::Debug::fmt(&*transport.lock(), f),
        }
    }
}

impl Host {
    pub(crate) fn new(name: &str, port: u16) -> Self {
        let label = if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") };
        Self { name: name.into(), port, label: label.into() }
    }

    /// A name may have several addresses; each round tries the next one.
    async fn connect(&self, round: usize) -> io::Result<Box<dyn ClientStream>> {
        let addresses: Vec<_> = lookup_host((&*self.name, self.port)).await?.collect();
        let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let address = addresses.get(round % addresses.len().max(1)).ok_or_else(nowhere)?;
        let stream = TcpStream::connect(address).await.map_err(|error| self.explain(error, address))?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }

    /// Names the address if the host is a name.
    fn explain(&self, error: io::Error, address: &SocketAddr) -> io::Error {
        match address.to_string() {
            address if *address == *self.label => error,
            address => io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
}

/// A target that a [`Client`](crate::Client) can connect to.
///
/// - A connect string: `host:port,host:port/chroot`. The port defaults to 2181, an IPv6 address is in brackets, and the
///   chroot is optional and stands once, at the end. Empty entries, as after a comma at the end, are skipped. The hosts are tried in random order, and names are resolved at each attempt.
/// - `dns-srv://name/chroot`, with the feature `dns-srv`: the hosts and ports of the SRV records of the name, which is a whole
///   one. They are looked up at the beginning of each round of attempts, and tried by priority and weight (RFC 2782); if a lookup
///   fails, those of the last one are tried again. As DNS says who the hosts are, TLS proves no more than that they are these,
///   unless `ClientTls::server_name` is set.
/// - Either with a scheme and a user before the hosts. `zk+tls://` and `dns-srv+tls://` connect by TLS: as
///   `ConnectOptions::tls` says, and without that to servers whose certificates the authorities of the system have issued.
///   `zk://` is the same as none. `alice@` authenticates by SASL DIGEST-MD5 as this user, with the password of
///   [`ConnectOptions::sasl_password`](crate::ConnectOptions::sasl_password), which has no place in the string:
///   `zk+tls://alice@zk1:2281,zk2:2281/app`.
/// - A closure that connects: `Fn() -> impl Future<Output = io::Result<S>>` with any byte stream `S`. It is called for each
///   attempt. Use it for Unix sockets, simulators and servers in the same process.
///
/// ```no_run
/// # async fn example() -> Result<(), zoolet_client::Error> {
/// let zk = zoolet_client::Client::connect(|| tokio::net::UnixStream::connect("/run/zookeeper.sock")).await?;
/// # Ok(()) }
/// ```
pub trait IntoTransport {
    /// Converts the target.
    ///
    /// # Errors
    /// `InvalidTarget` with the reason, if a connect string is invalid.
    fn into_transport(self) -> Result<Transport, Error>;
}

impl IntoTransport for Transport {
    fn into_transport(self) -> Result<Transport, Error> {
        Ok(self)
    }
}

impl IntoTransport for &str {
    fn into_transport(self) -> Result<Transport, Error> {
        let ConnectString { security, hosts, chroot } = parse(self)?;
        #[cfg(not(feature = "tls"))]
        if security.tls {
            let hint = "to connect by TLS, turn on the feature `tls` of the crate";
            return Err(Error::InvalidTarget(format!("{self:?}: {hint}")));
        }
        let servers = match hosts {
            TargetHosts::Named(hosts) => ServerList::new(hosts, chroot, security),
            #[cfg(feature = "dns-srv")]
            TargetHosts::Srv(name) => ServerList::of_srv(name, chroot, security),
            #[cfg(not(feature = "dns-srv"))]
            TargetHosts::Srv(name) => {
                let hint = "turn on the feature `dns-srv` of the crate";
                return Err(Error::InvalidTarget(format!(
                    "{self:?}: to read the SRV records of {name}, {hint}"
                )));
            }
        };
        Ok(Transport::new(Dial::Tcp(servers), chroot))
    }
}

impl IntoTransport for String {
    fn into_transport(self) -> Result<Transport, Error> {
        self.as_str().into_transport()
    }
}

impl IntoTransport for &String {
    fn into_transport(self) -> Result<Transport, Error> {
        self.as_str().into_transport()
    }
}

impl<F, C, S> IntoTransport for F
where
    F: Fn() -> C + Send + 'static,
    C: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    fn into_transport(self) -> Result<Transport, Error> {
        let dial = move || -> Dialing {
            let connecting = self();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn ClientStream>) })
        };
        Ok(Transport::new(Dial::Custom(Box::new(dial)), ""))
    }
}

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
    let (scheme, rest) = text.split_once("://").unwrap_or(("zk", text));
    let (base, tls) = scheme.strip_suffix("+tls").map_or((scheme, false), |base| (base, true));
    if !matches!(base, "zk" | "dns-srv") {
        return Err(invalid(
            "a connect string begins with its hosts, or with \"zk://\", \"zk+tls://\", \"dns-srv://\" or \"dns-srv+tls://\"".to_owned(),
        ));
    }
    if rest.contains("://") {
        return Err(invalid("the scheme stands once, before the first host".to_owned()));
    }
    let (hosts, chroot) = split_chroot(rest);
    let (user, hosts) = split_user(hosts).map_err(invalid)?;
    let hosts = match base {
        "dns-srv" => TargetHosts::Srv(parse_srv_name(hosts.trim()).map_err(invalid)?),
        _ => TargetHosts::Named(parse_hosts(hosts, chroot).map_err(|reason| {
            // A password may have a slash, and what is before it is not repeated either.
            invalid(if chroot.contains('@') { NO_PASSWORD.to_owned() } else { reason })
        })?),
    };
    Ok(ConnectString { security: TargetSecurity { tls, user }, hosts, chroot })
}

/// The user before the hosts, and the hosts.
fn split_user(hosts: &str) -> Result<(Option<String>, &str), String> {
    let Some((user, hosts)) = hosts.rsplit_once('@') else { return Ok((None, hosts)) };
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
    Ok((Some(user.trim().to_owned()), hosts))
}

/// At least one host.
fn parse_hosts(hosts: &str, chroot: &str) -> Result<Vec<Host>, String> {
    if chroot.contains(',') {
        return Err(chroot_in_the_middle(&format!("{hosts}{chroot}")));
    }
    // Empty entries are skipped, as by Java: templates leave a comma at the end.
    let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
    let hosts: Vec<Host> = hosts.map(parse_host).collect::<Result<_, _>>()?;
    if hosts.is_empty() {
        return Err("it names no host".to_owned());
    }
    Ok(hosts)
}

/// What is before the chroot, and the chroot; empty if there is none.
fn split_chroot(text: &str) -> (&str, &str) {
    text.split_at(text.find('/').unwrap_or(text.len()))
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
    let (mut hosts, mut chroots): (Vec<_>, Vec<_>) =
        text.split(',').map(|entry| entry.split_at(entry.find('/').unwrap_or(entry.len()))).unzip();
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
        None => match text.find(':') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        },
    };
    if name.is_empty() {
        return Err("a host has no name".to_owned());
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| format!("{text:?} has no valid port"))?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return Err(format!("{text:?} is not a host and port")),
    };
    Ok(Host::new(name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

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
