//! [`InstanceFormat`]: how an instance is written, and [`CuratorFormat`].

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::instance::{Instance, ServiceType};
use super::uri_spec::UriSpec;

/// Why data is not an instance, or an instance cannot be written.
pub type FormatError = Box<dyn std::error::Error + Send + Sync>;

/// How instances are written: the name of the znode below that of the service, and its data.
pub trait InstanceFormat: fmt::Debug + Send + Sync + 'static {
    /// The name of the znode of an instance.
    fn node_name(&self, instance: &Instance) -> String;

    /// The data of its znode.
    ///
    /// # Errors
    /// What cannot be written.
    fn encode(&self, instance: &Instance) -> Result<Bytes, FormatError>;

    /// The instance in a znode of this name below that of `service`. `None` if a znode of this name is not an instance.
    ///
    /// # Errors
    /// Why the data is not an instance. Other instances are not affected.
    fn decode(&self, service: &str, node: &str, data: &[u8]) -> Result<Option<Instance>, FormatError>;
}

/// The JSON of Curator's x-discovery, byte for byte as its `JsonInstanceSerializer` writes it. Spring Cloud and Dubbo use it too.
///
/// The znode is named after the id. Fields that it does not know are ignored, and a payload is kept as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CuratorFormat {
    enabled: bool,
}

impl CuratorFormat {
    /// What Curator writes by default: without a field that says whether an instance is enabled. It cannot write a disabled
    /// instance, which would be enabled for every reader.
    pub fn compatible() -> Self {
        Self { enabled: false }
    }

    /// With a field `enabled`, as `new JsonInstanceSerializer(class, false)`. Readers in the other mode ignore it.
    pub fn with_enabled() -> Self {
        Self { enabled: true }
    }
}

/// The fields in the order of Curator.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CuratorInstance {
    name: String,
    id: String,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    payload: Option<Box<RawValue>>,
    #[serde(default, rename = "registrationTimeUTC")]
    registration_time_utc: i64,
    #[serde(default)]
    service_type: ServiceType,
    uri_spec: Option<UriSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

impl InstanceFormat for CuratorFormat {
    fn node_name(&self, instance: &Instance) -> String {
        instance.id.clone()
    }

    fn encode(&self, instance: &Instance) -> Result<Bytes, FormatError> {
        if !self.enabled && !instance.enabled {
            return Err("the compatible format cannot say that an instance is disabled; use `CuratorFormat::with_enabled`".into());
        }
        let fields = CuratorInstance {
            name: instance.name.clone(),
            id: instance.id.clone(),
            address: Some(instance.address.clone()),
            port: instance.port,
            ssl_port: instance.ssl_port,
            payload: instance.raw_payload(),
            registration_time_utc: instance.registration_time_utc,
            service_type: instance.service_type,
            uri_spec: instance.uri_spec.clone(),
            enabled: self.enabled.then_some(instance.enabled),
        };
        Ok(serde_json::to_vec(&fields)?.into())
    }

    fn decode(&self, _service: &str, _node: &str, data: &[u8]) -> Result<Option<Instance>, FormatError> {
        let fields: CuratorInstance = serde_json::from_slice(data)?;
        let mut instance = Instance::new(fields.name, fields.id, fields.address.unwrap_or_default());
        instance.port = fields.port;
        instance.ssl_port = fields.ssl_port;
        instance.registration_time_utc = fields.registration_time_utc;
        instance.service_type = fields.service_type;
        instance.uri_spec = fields.uri_spec;
        instance.enabled = fields.enabled.unwrap_or(true);
        Ok(Some(instance.with_raw_payload(fields.payload)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Pay {
        weight: i32,
        zone: String,
        m: std::collections::BTreeMap<String, String>,
    }

    fn pay() -> Pay {
        Pay { weight: 3, zone: "eu".into(), m: [("k".into(), "v".into())].into() }
    }

    /// What Curator 5.9 was seen to write, with what is the same here.
    fn written_by_curator() -> Vec<(CuratorFormat, Instance, &'static str)> {
        let (old, new) = (CuratorFormat::compatible(), CuratorFormat::with_enabled());
        let at = |time, mut instance: Instance| {
            instance.registration_time_utc = time;
            instance
        };
        let full =
            Instance::new("full", "id-1", "10.0.0.1").port(80).java_payload("Dump$Pay", &pay()).unwrap();
        let full = at(1_700_000_000_000, full);
        let spec = UriSpec::parse("{scheme}://{address}:{port}/{x}");
        let bare = at(1_700_000_000_000, Instance::new("bare", "id-2", "10.0.0.2"));
        let text = at(1, Instance::new("s", "id", "h/\u{e9}\"").payload("pay").unwrap());
        let map = Instance::new("s", "id", "h").java_payload("java.util.HashMap", &json!({"a": 1})).unwrap();
        let mut disabled = full.clone();
        disabled.enabled = false;
        vec![
            (
                old,
                full.ssl_port(443).uri_spec(spec),
                r#"{"name":"full","id":"id-1","address":"10.0.0.1","port":80,"sslPort":443,"payload":{"@class":"Dump$Pay","weight":3,"zone":"eu","m":{"k":"v"}},"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true},{"value":"/","variable":false},{"value":"x","variable":true}]}}"#,
            ),
            (
                old,
                bare,
                r#"{"name":"bare","id":"id-2","address":"10.0.0.2","port":null,"sslPort":null,"payload":null,"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null}"#,
            ),
            (
                old,
                text,
                r#"{"name":"s","id":"id","address":"h/é\"","port":null,"sslPort":null,"payload":"pay","registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null}"#,
            ),
            (
                old,
                at(1, map),
                r#"{"name":"s","id":"id","address":"h","port":null,"sslPort":null,"payload":{"@class":"java.util.HashMap","a":1},"registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null}"#,
            ),
            (
                new,
                disabled,
                r#"{"name":"full","id":"id-1","address":"10.0.0.1","port":80,"sslPort":null,"payload":{"@class":"Dump$Pay","weight":3,"zone":"eu","m":{"k":"v"}},"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":null,"enabled":false}"#,
            ),
        ]
    }

    #[test]
    fn the_bytes_are_those_of_curator_in_both_modes() {
        for (format, instance, bytes) in written_by_curator() {
            assert_eq!(format.encode(&instance).unwrap(), bytes);
            assert_eq!(format.decode("", "", bytes.as_bytes()).unwrap(), Some(instance));
        }
    }

    #[test]
    fn payload_and_class_are_read_whatever_the_class() {
        let (format, _, bytes) = written_by_curator().swap_remove(0);
        let read = format.decode("full", "id-1", bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(read.payload_class().as_deref(), Some("Dump$Pay"));
        assert_eq!(read.payload_as::<Pay>().unwrap(), Some(pay()));
        assert!(read.payload_as::<Vec<u8>>().is_err());
        assert_eq!(Instance::new("s", "id", "h").payload(&()).unwrap().payload_json(), None);
        assert!(Instance::new("s", "id", "h").java_payload("C", "text").is_err());
        let empty = Instance::new("s", "id", "h").java_payload("C", &json!({})).unwrap();
        assert_eq!(empty.payload_json(), Some(r#"{"@class":"C"}"#));
    }

    #[test]
    fn unknown_fields_are_ignored_absent_ones_have_defaults_and_the_rest_is_an_error() {
        let format = CuratorFormat::default();
        let read = |text: &str| format.decode("s", "i", text.as_bytes());
        let least = read(r#"{"name":"s","id":"i","later":[1,{}]}"#).unwrap().unwrap();
        assert_eq!(least, Instance::new("s", "i", ""));
        assert!(!read(r#"{"name":"s","id":"i","enabled":false}"#).unwrap().unwrap().enabled);
        for wrong in
            ["", "{}", "[]", "null", r#"{"name":"s","id":"i","port":70000}"#, r#"{"name":"s","id":"i"} x"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_disabled_instance_is_not_written_where_everybody_would_take_it_for_enabled() {
        let mut instance = Instance::new("s", "id", "h");
        instance.enabled = false;
        assert!(CuratorFormat::compatible().encode(&instance).is_err());
    }
}
