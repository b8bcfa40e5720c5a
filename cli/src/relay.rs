//! A local port that forwards to a server by TLS and SASL: so the conformance kit and the health check, whose connections are plain
//! ones, reach it too, byte by byte as they do any other. Whoever else connects to it on this machine has the rights of the caller.

mod sasl;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
#[cfg(feature = "tls")]
use zoolet_tls::{ClientTls, LiveTls};

use crate::failure::Failure;
use crate::output::warn;

/// How a server is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct RelayArguments {
    /// Reach the server by TLS, as with any other flag of TLS; without --tls-ca its certificate must be of an authority that the
    /// system trusts
    #[cfg(feature = "tls")]
    #[arg(long)]
    tls: bool,
    /// The authorities of the server's certificate: PEM, PKCS12 or JKS
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// A certificate and its key, for a server that asks for one: PEM, PKCS12 or JKS
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    tls_identity: Option<PathBuf>,
    /// The file with the password of --tls-ca and --tls-identity
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
    /// Authenticate every session by SASL DIGEST-MD5: a user, and the file with the password. While the command runs, other users of
    /// this machine can open such sessions, too, at the local port that it listens on
    #[arg(long, value_name = "USER:FILE", value_parser = user_and_file)]
    sasl: Option<(String, PathBuf)>,
}

fn user_and_file(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once(':').filter(|(user, file)| !user.is_empty() && !file.is_empty());
    let (user, file) = parts.ok_or("must be a user, a colon and the file with the password")?;
    Ok((user.to_owned(), file.into()))
}

/// A stream to a server.
trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

/// How a server is reached: at its own address, or at one in this process while the runtime runs.
pub(crate) struct Route {
    pub(crate) address: String,
    target: Option<Arc<Target>>,
}

impl Route {
    /// Why a connection did not reach the server, if one did not since the last call and that is known here alone.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.target.as_ref()?.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What servers ask for, as the files have it.
#[derive(Clone)]
struct ServerAccess {
    #[cfg(feature = "tls")]
    tls: Option<Arc<LiveTls<ClientTls>>>,
    /// User and password.
    sasl: Option<(String, String)>,
}

/// How long a port waits after a connection that it could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The server that a port forwards to.
struct Target {
    server: String,
    access: ServerAccess,
    /// Whether to warn when it is not reached, the first time.
    warns: bool,
    warned: Once,
    failure: Mutex<Option<String>>,
}

impl RelayArguments {
    /// With the settings of a named cluster where no flag is given.
    #[cfg(all(feature = "shell", feature = "tls"))]
    pub(crate) fn or_of_cluster(self, cluster: &zoolet_shell::NamedCluster) -> Self {
        Self {
            tls: self.tls || cluster.is_set("tls"),
            tls_ca: cluster.file("tls-ca", &self.tls_ca),
            tls_identity: cluster.file("tls-identity", &self.tls_identity),
            tls_password_file: cluster.file("tls-password-file", &self.tls_password_file),
            sasl: self.sasl,
        }
    }

    /// By TLS, as the scheme of an address asks for it.
    #[cfg(feature = "tls")]
    pub(crate) fn or_tls(self, is_tls: bool) -> Self {
        Self { tls: self.tls || is_tls, ..self }
    }

    /// The flags as they were given, each after a blank.
    #[cfg(feature = "conformance")]
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        #[cfg(feature = "tls")]
        {
            text.push_str(if self.tls { " --tls" } else { "" });
            let files = [
                ("tls-ca", &self.tls_ca),
                ("tls-identity", &self.tls_identity),
                ("tls-password-file", &self.tls_password_file),
            ];
            for (flag, file) in files {
                text.extend(file.iter().map(|file| format!(" --{flag} {}", file.display())));
            }
        }
        let sasl = self.sasl.iter().map(|(user, file)| format!(" --sasl {user}:{}", file.display()));
        text.extend(sasl);
        text
    }

    /// Finds out how servers are reached; `warns` is whether to warn the first time that one is not.
    pub(crate) async fn routes(&self, servers: &[String], warns: bool) -> Result<Vec<Route>, Failure> {
        // Once for all servers: it may derive a key from a password, which takes a while.
        let access = self.access().await?;
        let mut routes = Vec::new();
        for server in servers {
            routes.push(access.route(server, warns).await?);
        }
        Ok(routes)
    }

    /// The same for one server.
    #[cfg(feature = "conformance")]
    pub(crate) async fn route(&self, server: &str, warns: bool) -> Result<Route, Failure> {
        self.access().await?.route(server, warns).await
    }

    /// Reads the files.
    async fn access(&self) -> Result<ServerAccess, Failure> {
        #[cfg(feature = "tls")]
        let [ca, identity, password_file] =
            [&self.tls_ca, &self.tls_identity, &self.tls_password_file].map(Option::as_deref);
        Ok(ServerAccess {
            // Each of the flags asks for it.
            #[cfg(feature = "tls")]
            tls: match ClientTls::of_files(ca, identity, password_file)? {
                None if !self.tls => None,
                settings => Some(LiveTls::open(settings.unwrap_or_default()).await?),
            },
            sasl: match &self.sasl {
                Some((user, file)) => Some((user.clone(), password(file)?)),
                None => None,
            },
        })
    }
}

impl ServerAccess {
    async fn route(&self, server: &str, warns: bool) -> Result<Route, Failure> {
        let is_plain = self.sasl.is_none();
        #[cfg(feature = "tls")]
        let is_plain = is_plain && self.tls.is_none();
        if is_plain {
            return Ok(Route { address: server.to_owned(), target: None });
        }
        let failed = |source| Failure::System { action: "listen for connections of its own", source };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let target = Arc::new(Target {
            server: server.to_owned(),
            access: self.clone(),
            warns,
            warned: Once::new(),
            failure: Mutex::new(None),
        });
        let route = Route { address: address.to_string(), target: Some(Arc::clone(&target)) };
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => drop(tokio::spawn(Arc::clone(&target).relay(client))),
                    // Most often a lack of descriptors, which passes.
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        Ok(route)
    }
}

fn password(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(Failure::file("read the password in", file))?;
    Ok(text.strip_suffix('\n').map_or(&*text, |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
}

impl Target {
    async fn relay(self: Arc<Self>, mut client: TcpStream) {
        // Before the client's connection ends, so that who sees that end finds the reason.
        if let Err(error) = self.try_relay(&mut client).await {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            if self.warns {
                self.warned.call_once(|| warn(&format!("cannot use {}: {error}", self.server)));
            }
        }
    }

    /// Copies what both sides send. Fails if the server is not reached.
    async fn try_relay(&self, client: &mut TcpStream) -> io::Result<()> {
        let mut server = self.connect().await?;
        client.set_nodelay(true)?;
        if let Some((user, password)) = &self.access.sasl {
            if !sasl::shake_hands(client, &mut server, user, password).await? {
                return server.shutdown().await;
            }
        }
        // How either side ends is the kit's to judge, unless TLS says why: a server of TLS 1.3 refuses a certificate after the handshake.
        match copy_bidirectional(client, &mut server).await {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error),
            _ => Ok(()),
        }
    }

    async fn connect(&self) -> io::Result<Box<dyn ServerStream>> {
        let server = TcpStream::connect(&self.server).await?;
        server.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.access.tls {
            let host = self.server.rsplit_once(':').map_or(&*self.server, |(host, _)| host);
            return Ok(Box::new(tls.connect(Some(host.trim_matches(['[', ']'])), server).await?));
        }
        Ok(Box::new(server))
    }
}

/// Reads a frame, and returns it without its length. One that is longer than `longest` is invalid data.
pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin), longest: usize) -> io::Result<Vec<u8>> {
    let len = stream.read_u32().await? as usize;
    if len > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {len} bytes")));
    }
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}
