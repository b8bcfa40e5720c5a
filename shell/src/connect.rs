//! How a server is reached: its address, the timeouts, the credentials, TLS.

use std::env;
use std::fs;
#[cfg(feature = "tls")]
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "tls")]
use zoolet_client::ConnectionError;
#[cfg(feature = "tls")]
use zoolet_client::tls::{ClientTls, LiveTls};
use zoolet_client::{Client, ConnectOptions, Error, Sessions};
#[cfg(feature = "tls")]
use zoolet_proto::ConnectStringParts;

use crate::address::chroot;
use crate::clusters::{NamedCluster, named_cluster};
use crate::dial::Dial;
use crate::failure::{ShellError, ShellResult};
use crate::shell::{Connected, OtherServers};

/// The variable with what a file of credentials has.
const AUTH_VARIABLE: &str = "ZOOLET_AUTH";

/// How long a server may take, unless it is said.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The flags of every command that say how a server is reached.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArguments {
    /// The servers, and optionally the znode that is seen as `/`: HOST:PORT,HOST:PORT/CHROOT; or @NAME, a cluster of the file
    /// zoolet/clusters in the folder for configuration
    #[arg(
        long,
        short = 'S',
        global = true,
        value_name = "ADDRESS",
        env = "ZOOKEEPER",
        hide_env_values = true,
        default_value = "127.0.0.1:2181"
    )]
    pub server: String,
    /// How long to wait for a server, and for each answer
    #[arg(long, global = true, value_name = "TIME", default_value = "10s", value_parser = interval)]
    pub(crate) timeout: Duration,
    /// A file with credentials, one in a line: digest:USER:PASSWORD or sasl:USER:PASSWORD; without it, the variable ZOOLET_AUTH
    #[arg(long, global = true, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Refuse every command that writes, and accept a server that is cut off from its ensemble
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    tls: TlsArguments,
}

/// Those of TLS.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Default, clap::Args)]
struct TlsArguments {
    /// Reach the server by TLS; without --tls-ca its certificate must be of an authority that the system trusts
    #[arg(long, global = true)]
    tls: bool,
    /// The authorities of the server's certificate: PEM, PKCS12 or JKS; implies --tls
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// A certificate and its key, for a server that asks for one: PEM, PKCS12 or JKS; implies --tls
    #[arg(long, global = true, value_name = "FILE")]
    tls_identity: Option<PathBuf>,
    /// The file with the password of --tls-ca and --tls-identity
    #[arg(long, global = true, value_name = "FILE")]
    tls_password_file: Option<PathBuf>,
}

/// Parses `500ms`, `2s` or `1h 30m`, but not zero.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration >= Duration::from_millis(1) => Ok(duration),
        _ => Err("must be at least a millisecond, with a unit, such as 500ms, 2s or 1h".to_owned()),
    }
}

impl ConnectArguments {
    /// As without flags, for servers that a relay reaches: with what the file of clusters says of them, but for TLS, which the relay
    /// speaks.
    pub(crate) fn relayed(address: &str, cluster: &NamedCluster) -> Self {
        Self {
            server: address.to_owned(),
            timeout: DEFAULT_TIMEOUT,
            auth_file: cluster.file("auth-file", &None),
            read_only: cluster.is_set("read-only"),
            #[cfg(feature = "tls")]
            tls: TlsArguments::default(),
        }
    }

    /// The same for another address. A name brings what its file says; flags that are given come first.
    pub(crate) fn at(&self, address: &str) -> ShellResult<Self> {
        let Some(cluster) = named_cluster(address)? else {
            return Ok(Self { server: address.to_owned(), ..self.clone() });
        };
        Ok(Self {
            timeout: self.timeout,
            auth_file: cluster.file("auth-file", &self.auth_file),
            read_only: self.read_only || cluster.is_set("read-only"),
            #[cfg(feature = "tls")]
            tls: self.tls.or_of(&cluster),
            server: cluster.address,
        })
    }

    /// The same for servers beside those of the flags: these may be a name whose stores alone need the password.
    pub(crate) fn elsewhere(&self, address: &str) -> ShellResult<Self> {
        let place = self.at(address)?;
        #[cfg(feature = "tls")]
        let place = match (&place.tls.tls_ca, &place.tls.tls_identity) {
            (None, None) => Self { tls: TlsArguments { tls_password_file: None, ..place.tls }, ..place },
            _ => place,
        };
        Ok(place)
    }

    /// Opens a session.
    pub(crate) async fn connect(&self, command: &str) -> ShellResult<Connected> {
        let opened = self.options()?.connect(&*self.server).await;
        let client = opened.map_err(|error| {
            #[cfg(feature = "tls")]
            let hint = self.tls.advice(&self.server, &error);
            #[cfg(not(feature = "tls"))]
            let hint = None;
            ShellError::request(command, &self.server, &error, hint)
        })?;
        let (server, dial) = (self.server.clone(), self.dial().await?);
        Ok(Connected { client, server, dial, read_only: self.read_only })
    }

    /// Opens one session after the other: at `here`, or at other servers by these flags, which have nothing that the file of
    /// clusters says of `here`.
    pub(crate) fn sessions(&self, here: &Self, servers: OtherServers<'_>) -> Result<Sessions, Error> {
        let invalid = |error: ShellError| Error::InvalidTarget(error.to_string());
        let place = match servers {
            OtherServers::Same => Ok(here.clone()),
            OtherServers::SameWithoutChroot => {
                let server = here.server.strip_suffix(chroot(&here.server)).unwrap_or_default().to_owned();
                Ok(Self { server, ..here.clone() })
            }
            OtherServers::Read(address) | OtherServers::Write(address) => self.elsewhere(address),
        };
        let place = place.map_err(invalid)?;
        if place.read_only && matches!(servers, OtherServers::Write(_)) {
            return Err(Error::InvalidTarget(format!("{servers} is only for reading")));
        }
        Sessions::open(place.options().map_err(invalid)?, place.server)
    }

    fn options(&self) -> ShellResult<ConnectOptions> {
        let options = Client::options()
            .connect_timeout(self.timeout)
            .request_timeout(self.timeout)
            .read_only(self.read_only);
        let options = match &self.auth_file {
            Some(file) => {
                let text = fs::read_to_string(file).map_err(|error| {
                    ShellError::local(&format!("read the credentials in {}", file.display()), &error)
                })?;
                with_credentials(options, &text, &file.display().to_string())?
            }
            None => match env::var(AUTH_VARIABLE) {
                Ok(text) => with_credentials(options, &text, AUTH_VARIABLE)?,
                Err(_) => options,
            },
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.settings(&self.server)? {
            return Ok(options.tls(tls));
        }
        Ok(options)
    }

    /// How four-letter words reach the servers.
    pub(crate) async fn dial(&self) -> ShellResult<Dial> {
        Ok(Dial {
            #[cfg(feature = "tls")]
            tls: match self.tls.settings(&self.server)? {
                Some(settings) => Some(LiveTls::open(settings).await?),
                None => None,
            },
        })
    }
}

#[cfg(feature = "tls")]
impl TlsArguments {
    /// With what the file of clusters says where no flag is given.
    fn or_of(&self, cluster: &NamedCluster) -> Self {
        Self {
            tls: self.tls || cluster.is_set("tls"),
            tls_ca: cluster.file("tls-ca", &self.tls_ca),
            tls_identity: cluster.file("tls-identity", &self.tls_identity),
            tls_password_file: cluster.file("tls-password-file", &self.tls_password_file),
        }
    }

    /// What to do with these flags if no server was reached.
    fn advice(&self, server: &str, error: &Error) -> Option<&'static str> {
        let Error::Unreachable { hosts, .. } = error else { return None };
        let is_used = self.settings(server).is_ok_and(|tls| tls.is_some());
        hosts.iter().find_map(|host| advice_on(host, is_used))
    }

    /// The settings of TLS for a server, if it is to be used: each of the flags asks for it.
    ///
    /// # Errors
    /// A file cannot be opened, or no store needs the password. What is in the files is for the client to judge.
    fn settings(&self, server: &str) -> ShellResult<Option<ClientTls>> {
        let files = [&self.tls_ca, &self.tls_identity, &self.tls_password_file].map(Option::as_deref);
        for file in files.into_iter().flatten() {
            let opened = fs::File::open(file);
            opened.map_err(|error| ShellError::local(&format!("read {}", file.display()), &error))?;
        }
        let [ca, identity, password] = files;
        let scheme = ConnectStringParts::split(server).scheme;
        let is_asked = self.tls || scheme.is_some_and(|scheme| scheme.ends_with("+tls"));
        Ok(ClientTls::of_files(ca, identity, password)?.or_else(|| is_asked.then(ClientTls::new)))
    }
}

/// What to do with the flags of TLS about a failed connection. The client has only words for most reasons.
#[cfg(feature = "tls")]
fn advice_on(failed: &ConnectionError, is_tls_used: bool) -> Option<&'static str> {
    let says = |part: &str| failed.reason().contains(part);
    let is_ended = matches!(failed.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
    Some(if !is_tls_used && (is_ended || says("may expect TLS")) {
        "name a server that runs by --server or ZOOKEEPER; a port for TLS needs --tls"
    } else if says("may expect plaintext") || is_ended && failed.reason().starts_with("TLS: ") {
        "name a server that runs by --server or ZOOKEEPER; a port for plaintext takes none of the flags of TLS"
    } else if says("not of a trusted authority") || says("BadSignature") {
        "give its authority by --tls-ca if you trust it"
    } else if says("requires a certificate of the client") {
        "give a certificate and its key by --tls-identity"
    } else if says("the certificate of the client") {
        "give another certificate and its key by --tls-identity"
    } else {
        return None;
    })
}

/// Adds the credentials of a text, one in a line. A message names the line, and nothing that is in it.
fn with_credentials(mut options: ConnectOptions, text: &str, place: &str) -> ShellResult<ConnectOptions> {
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || {
            let form =
                "must be digest:USER:PASSWORD, sasl:USER:PASSWORD, or another scheme and its credentials";
            ShellError::usage(format!("{place}, line {}: {form}", at + 1))
        };
        let (scheme, credentials) = line.split_once(':').ok_or_else(wrong)?;
        options = match scheme {
            "sasl" => {
                let (user, password) = credentials.split_once(':').ok_or_else(wrong)?;
                options.sasl_digest_md5(user, password)
            }
            scheme => options.auth(scheme, credentials.to_owned()),
        };
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_credentials_names_the_line_and_no_secret() {
        let error =
            with_credentials(Client::options(), "# mine\ndigest:bob:pw\nhunter2", "auth").unwrap_err();
        assert_eq!(
            error.to_string(),
            "auth, line 3: must be digest:USER:PASSWORD, sasl:USER:PASSWORD, or another scheme and its credentials"
        );
        let options =
            with_credentials(Client::options(), "digest:bob:hunter2\nsasl:bob:hunter2\n", "auth").unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
