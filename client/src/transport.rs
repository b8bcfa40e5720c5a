//! Where connections come from: TCP hosts of a connect string, or a closure.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use crate::connect_string::{ConnectString, TargetHosts, parse};
use crate::error::Error;
use crate::locked::locked;
use crate::server_list::ServerList;
#[cfg(feature = "tls")]
use crate::tls_stream::{SharedTls, shake_hands};

/// A stream of any kind.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for S {}

type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn ClientStream>>> + Send>>;

/// An attempt at a connection. `None` if it was the lookup of the hosts: one of them is to be dialed then.
pub(crate) type Dialing = Pin<Box<dyn Future<Output = io::Result<Option<Box<dyn ClientStream>>>> + Send>>;

/// A source of connections, made from a connect string or a closure; see [`IntoTransport`].
pub struct Transport {
    dial: Dial,
    tls: Option<SharedTls>,
}

/// There is no TLS without the feature.
#[cfg(not(feature = "tls"))]
type SharedTls = Arc<std::convert::Infallible>;

#[derive(Clone)]
enum Dial {
    Tcp(ServerList),
    Custom(Arc<Mutex<dyn Fn() -> Opening + Send>>),
}

/// A host of a connect string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) port: u16,
    /// Both, for messages.
    pub(crate) label: Arc<str>,
}

impl Transport {
    /// The transport of one more session, which goes on with the hosts where the others stopped.
    pub(crate) fn share(&self) -> Self {
        Self { dial: self.dial.clone(), tls: self.tls.clone() }
    }

    /// The hosts to choose from; `None` for a closure.
    pub(crate) fn servers(&self) -> Option<ServerList> {
        match &self.dial {
            Dial::Tcp(servers) => Some(servers.clone()),
            Dial::Custom(_) => None,
        }
    }

    /// Connects by TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn secured(self, tls: SharedTls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Starts an attempt at the next host, or the lookup before it. Returns also its name, if it has one.
    pub(crate) fn dial(&self) -> (Option<Arc<str>>, Dialing) {
        #[cfg(feature = "dns-srv")]
        if let Some((name, lookup)) = self.servers().and_then(|servers| servers.lookup()) {
            return (Some(name), Box::pin(async move { lookup.await.map(|()| None) }));
        }
        let (host, opening): (_, Opening) = match &self.dial {
            Dial::Tcp(servers) => {
                let (host, round) = servers.next();
                (Some(host.clone()), Box::pin(async move { host.connect(round).await }))
            }
            Dial::Custom(dial) => (None, locked(dial)()),
        };
        let label = host.as_ref().map(|host| Arc::clone(&host.label));
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.clone() {
            let name = host.map(|host| host.name);
            let secured = async move { shake_hands(tls, name.as_deref(), opening.await?).await.map(Some) };
            return (label, Box::pin(secured));
        }
        (label, Box::pin(async move { opening.await.map(Some) }))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.dial {
            Dial::Tcp(servers) => f.debug_tuple("Transport").field(&servers.hosts()).finish(),
            Dial::Custom(_) => f.write_str("Transport(closure)"),
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
        Ok(Transport { dial: Dial::Tcp(servers), tls: None })
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
        let dial = move || -> Opening {
            let connecting = self();
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn ClientStream>) })
        };
        Ok(Transport { dial: Dial::Custom(Arc::new(Mutex::new(dial))), tls: None })
    }
}
