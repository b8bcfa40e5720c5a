//! Which servers are asked: those of the argument, else of the variable `ZOOKEEPER`, as all commands on servers take them.

use std::env;

use zoolet_proto::ConnectStringParts;
use zoolet_server::ServerBuilder;
#[cfg(feature = "shell")]
use zoolet_shell::NamedCluster;

use crate::failure::Failure;
use crate::relay::RelayArguments;
use crate::text::quoted;

/// Has the servers if no argument names any.
const VARIABLE: &str = "ZOOKEEPER";
const DEFAULT: &str = "127.0.0.1:2181";

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
        // Who authenticates is for the flags to say.
        let parts = ConnectStringParts::split(address);
        let (scheme, hosts) = (parts.scheme.unwrap_or("zk"), parts.addresses());
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
        Ok(Self {
            hosts,
            chroot: parts.chroot.trim_end_matches('/').to_owned(),
            #[cfg(feature = "tls")]
            is_tls: scheme == "zk+tls",
            #[cfg(feature = "shell")]
            cluster: NamedCluster::default(),
        })
    }
}

/// An argument has the port of each server, or is the name of a cluster.
pub(super) fn address(text: &str) -> Result<String, String> {
    let hosts = ConnectStringParts::split(text).hosts;
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
