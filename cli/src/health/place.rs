//! Which servers are asked: those of the argument, else of the variable `ZOOKEEPER`, as all commands on servers take them.

use std::env;

use zoolet_server::ServerBuilder;
#[cfg(feature = "shell")]
use zoolet_shell::NamedCluster;

use crate::failure::Failure;
use crate::relay::RelayArguments;
use crate::text::quoted;

/// Has the servers if no argument names any.
const VARIABLE: &str = "ZOOKEEPER";
const DEFAULT: &str = "127.0.0.1:2181";
/// The port of a server of the variable that is written without one.
const DEFAULT_PORT: &str = "2181";

/// Servers, and the znode that is `/` there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) hosts: Vec<String>,
    /// Empty, or with a slash at its start.
    pub(super) chroot: String,
    /// Whether the scheme asks for TLS.
    #[cfg(feature = "tls")]
    is_tls: bool,
    /// What the file of clusters says of a name; nothing if there is none.
    #[cfg(feature = "shell")]
    pub(super) cluster: NamedCluster,
}

impl Place {
    /// The servers of the argument, of the variable, or of this machine.
    pub(super) fn find(argument: Option<&str>) -> Result<Self, Failure> {
        let address = argument.map(str::to_owned).or_else(|| env::var(VARIABLE).ok());
        let address = address.as_deref().unwrap_or(DEFAULT);
        #[cfg(feature = "shell")]
        if let Some(cluster) = zoolet_shell::named_cluster(address)? {
            let place = Self::parse(&cluster.address)?;
            return Ok(Self { cluster, ..place });
        }
        Self::parse(address)
    }

    /// How each is reached: by the flags, and those that the file of clusters has for a name.
    pub(super) fn relay(&self, flags: RelayArguments) -> RelayArguments {
        #[cfg(all(feature = "shell", feature = "tls"))]
        let flags = flags.or_of_cluster(&self.cluster);
        #[cfg(feature = "tls")]
        let flags = flags.or_tls(self.is_tls);
        flags
    }

    fn parse(address: &str) -> Result<Self, Failure> {
        let (scheme, hosts, chroot) = parts(address);
        let hosts: Vec<_> =
            hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect();
        let is_known = scheme == "zk" || cfg!(feature = "tls") && scheme == "zk+tls";
        // A build without the shell knows no names of clusters.
        let is_name = address.starts_with('@');
        if is_name
            || !is_known
            || hosts.is_empty()
            || !hosts.iter().all(|host| ServerBuilder::is_address(host))
        {
            return Err(Failure::Servers { address: quoted(address) });
        }
        let chroot = chroot.trim_end_matches('/').to_owned();
        Ok(Self {
            hosts,
            chroot,
            #[cfg(feature = "tls")]
            is_tls: scheme == "zk+tls",
            #[cfg(feature = "shell")]
            cluster: NamedCluster::default(),
        })
    }
}

/// The scheme, the servers and the chroot. Who authenticates is for the flags to say.
fn parts(address: &str) -> (&str, &str, &str) {
    let (scheme, rest) = address.split_once("://").unwrap_or(("zk", address));
    let (hosts, chroot) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    (scheme, hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts), chroot)
}

fn with_port(host: &str) -> String {
    let name_ends = host.rfind(']').map_or(0, |at| at + 1);
    let has_port = host.get(name_ends..).is_some_and(|rest| rest.contains(':'));
    if has_port { host.to_owned() } else { format!("{host}:{DEFAULT_PORT}") }
}

/// An argument has the port of each server, or is the name of a cluster.
pub(super) fn address(text: &str) -> Result<String, String> {
    let hosts = parts(text).1;
    match text.starts_with('@') || hosts.split(',').all(|host| ServerBuilder::is_address(host.trim())) {
        true => Ok(text.to_owned()),
        false => Err("must be a host and a port, such as 127.0.0.1:2181, or several with commas".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_every_client_takes_them() {
        let place = Place::parse("zk1, zk2:7,[::1]/app/").unwrap();
        assert_eq!(place.hosts, ["zk1:2181", "zk2:7", "[::1]:2181"]);
        assert_eq!(place.chroot, "/app");
        let place = Place::parse("zk+tls://alice@zk1,zk2:7/app").unwrap();
        assert_eq!((&*place.hosts.join(","), &*place.chroot, place.is_tls), ("zk1:2181,zk2:7", "/app", true));
        assert!(!Place::parse("zk://zk1").unwrap().is_tls);
        for wrong in ["", "@prod", "/app", "zk1:port", "dns-srv://zk1", "https://zk1"] {
            Place::parse(wrong).unwrap_err();
        }
        assert!(address("zk1:1,zk2").is_err(), "an argument has its ports");
        address("zk1:1,zk2:2/app").unwrap();
    }
}
