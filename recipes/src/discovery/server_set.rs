//! [`ServerSetFormat`]: the members of finagle's and Aurora's ServerSets.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::format::{FormatError, InstanceFormat};
use super::instance::Instance;

const PREFIX: &str = "member_";

/// The members of a ServerSet, as finagle and Aurora write them in JSON.
///
/// The address and port of an instance are the `serviceEndpoint`; a [`ServerSetMember`] as the payload has the rest. What is read has
/// the whole member as its payload, and is enabled if its status is `ALIVE`.
///
/// Readers of ServerSets take `member_` and ten digits for a member. Here the digits are not a number from the server, which
/// would be lost with the reply: they follow from the id and from all that is written. They begin above 1,000,000,000, where
/// such numbers do not get. Finagle reads a member once, so an update belongs to another znode
/// ([`OtherNode`](super::DiscoveryError::OtherNode)): register the new one and close the old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerSetFormat;

/// A member of a ServerSet, as its JSON has it; the payload of an [`Instance`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerSetMember {
    /// Where the service is.
    pub service_endpoint: ServerSetEndpoint,
    /// Other endpoints by name.
    #[serde(default)]
    pub additional_endpoints: BTreeMap<String, ServerSetEndpoint>,
    /// `ALIVE`, as far as finagle writes it.
    pub status: String,
    /// The number of the shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<i32>,
}

/// An endpoint of a [`ServerSetMember`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerSetEndpoint {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl ServerSetEndpoint {
    /// An endpoint.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl ServerSetMember {
    /// A member that is alive.
    pub fn new(service_endpoint: ServerSetEndpoint) -> Self {
        let (additional_endpoints, shard) = (BTreeMap::new(), None);
        Self { service_endpoint, additional_endpoints, status: "ALIVE".into(), shard }
    }

    fn of(instance: &Instance) -> Result<Self, FormatError> {
        let endpoint = ServerSetEndpoint::new(&*instance.address, instance.port.ok_or("no port")?);
        let payload: Option<Self> = instance.payload_as()?;
        let mut member =
            Self { service_endpoint: endpoint.clone(), ..payload.unwrap_or(Self::new(endpoint)) };
        if !instance.enabled {
            member.status = "STOPPED".into();
        }
        Ok(member)
    }
}

impl InstanceFormat for ServerSetFormat {
    fn node_name(&self, instance: &Instance) -> String {
        let mut hash = Sha256::new();
        hash.update(&instance.id);
        hash.update(self.encode(instance).unwrap_or_default());
        let digits = hash.finalize().iter().take(8).fold(0, |digits, byte| digits << 8 | u64::from(*byte));
        format!("{PREFIX}{}", 1_000_000_000 + digits % 1_000_000_000)
    }

    fn encode(&self, instance: &Instance) -> Result<Bytes, FormatError> {
        Ok(serde_json::to_vec(&ServerSetMember::of(instance)?)?.into())
    }

    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Option<Instance>, FormatError> {
        // Others, such as the weights in `vector_`, are not members.
        if !node.starts_with(PREFIX) {
            return Ok(None);
        }
        let member: ServerSetMember = serde_json::from_slice(data)?;
        let ServerSetEndpoint { host, port } = &member.service_endpoint;
        let mut instance = Instance::new(service, node, host).port(*port);
        instance.enabled = member.status == "ALIVE";
        // As it is: fields that are not known here are kept.
        Ok(Some(instance.with_raw_payload(Some(serde_json::from_slice(data)?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"serviceEndpoint":{"host":"h","port":80},"additionalEndpoints":{"http":{"host":"h","port":80}},"status":"ALIVE","shard":0}"#;

    fn full() -> Instance {
        let endpoint = ServerSetEndpoint::new("h", 80);
        let mut member = ServerSetMember::new(endpoint.clone());
        member.additional_endpoints.insert("http".into(), endpoint);
        member.shard = Some(0);
        Instance::new("web", "web-1", "h").port(80).payload(&member).unwrap()
    }

    #[test]
    fn the_bytes_are_those_of_finagle() {
        assert_eq!(ServerSetFormat.encode(&full()).unwrap(), FULL);
        let plain = Instance::new("web", "web-1", "h").port(80);
        let expected =
            r#"{"serviceEndpoint":{"host":"h","port":80},"additionalEndpoints":{},"status":"ALIVE"}"#;
        assert_eq!(ServerSetFormat.encode(&plain).unwrap(), expected);
        assert!(ServerSetFormat.encode(&Instance::new("web", "web-1", "h")).is_err(), "a member has a port");
    }

    #[test]
    fn members_are_read_in_any_order_of_fields_and_others_are_not_members() {
        let text = r#"{"status":"ALIVE","later":1,"shard":0,"serviceEndpoint":{"port":80,"host":"h"},"additionalEndpoints":{}}"#;
        let read = ServerSetFormat.decode("web", "member_0000000007", text.as_bytes()).unwrap().unwrap();
        assert_eq!((read.address.as_str(), read.port, read.enabled), ("h", Some(80), true));
        assert_eq!((read.name.as_str(), read.id.as_str()), ("web", "member_0000000007"));
        assert_eq!(read.payload_json(), Some(text));
        assert_eq!(read.payload_as::<ServerSetMember>().unwrap().unwrap().shard, Some(0));
        let dead = text.replace("ALIVE", "DEAD");
        assert!(!ServerSetFormat.decode("web", "member_1", dead.as_bytes()).unwrap().unwrap().enabled);
        assert_eq!(ServerSetFormat.decode("web", "vector_0000000001", b"{\"vector\":[]}").unwrap(), None);
        assert!(ServerSetFormat.decode("web", "member_1", b"").is_err());
    }

    #[test]
    fn the_name_is_one_that_readers_take_for_a_member_and_changes_with_what_is_written() {
        let name = ServerSetFormat.node_name(&full());
        let digits = name.strip_prefix("member_").unwrap();
        assert!(digits.len() == 10 && digits.parse::<i32>().unwrap() >= 1_000_000_000, "{name}");
        assert_eq!(name, ServerSetFormat.node_name(&full()));
        assert_ne!(name, ServerSetFormat.node_name(&full().port(81)));
    }
}
