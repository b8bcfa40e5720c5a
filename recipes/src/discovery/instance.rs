//! [`Instance`]: one instance of a service.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::DiscoveryError;
use super::uri_spec::UriSpec;

/// One instance of a service, as Curator's `ServiceInstance`.
///
/// ```
/// use zoolet_recipes::discovery::Instance;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Zone {
///     zone: String,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let web = Instance::new("web", "web-1", "10.0.0.7").port(80).payload(&Zone { zone: "eu".into() })?;
/// assert_eq!(web.payload_json(), Some(r#"{"zone":"eu"}"#));
/// assert_eq!(web.payload_as::<Zone>()?.map(|payload| payload.zone), Some("eu".into()));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Instance {
    /// The name of the service.
    pub name: String,
    /// What tells it from other instances of the service: one component of a path.
    pub id: String,
    /// The host name or address.
    pub address: String,
    /// The port.
    pub port: Option<u16>,
    /// The port for TLS.
    pub ssl_port: Option<u16>,
    /// When it was registered, in milliseconds since 1970. 0 until then.
    pub registration_time_utc: i64,
    /// What kind of znode it is registered by.
    pub service_type: ServiceType,
    /// How its URI is put together.
    pub uri_spec: Option<UriSpec>,
    /// Whether it is to be used. Formats that have no place for it read `true`.
    pub enabled: bool,
    payload: Option<Payload>,
}

/// How an instance is registered, in the words of Curator. What this crate registers is ephemeral, whatever it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ServiceType {
    /// By an ephemeral znode.
    #[default]
    Dynamic,
    /// By a persistent znode, which is deleted when it is unregistered.
    Static,
    /// By a persistent znode.
    Permanent,
    /// By an ephemeral znode to whose name the server appends a number.
    DynamicSequential,
}

impl Instance {
    /// An instance that is enabled, without ports and payload.
    pub fn new(name: impl Into<String>, id: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            id: id.into(),
            address: address.into(),
            port: None,
            ssl_port: None,
            registration_time_utc: 0,
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
            payload: None,
        }
    }

    /// The same with a port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The same with a port for TLS.
    pub fn ssl_port(mut self, port: u16) -> Self {
        self.ssl_port = Some(port);
        self
    }

    /// The same with a rule for its URI.
    pub fn uri_spec(mut self, spec: UriSpec) -> Self {
        self.uri_spec = Some(spec);
        self
    }

    /// The same with a payload: whatever serde writes as JSON. A struct keeps the order of its fields.
    ///
    /// Java reads a string, a number or null as such. Of an object it expects to know the class: see
    /// [`java_payload`](Instance::java_payload). Without that, readers in Java whose payload class is `Object` or `Map` get a map, and
    /// others fail.
    ///
    /// # Errors
    /// [`DiscoveryError::Encode`].
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Result<Self, DiscoveryError> {
        self.payload = Payload::new(payload)?;
        Ok(self)
    }

    /// As [`payload`](Instance::payload), for an object that Java reads as `class`, such as `com.example.Weight`. The name is
    /// the object's first field, `"@class"`. A class that a reader in Java does not have fails its query for the whole service.
    ///
    /// # Errors
    /// [`DiscoveryError::Encode`], also if the payload is not an object.
    pub fn java_payload<T: Serialize + ?Sized>(
        mut self,
        class: &str,
        payload: &T,
    ) -> Result<Self, DiscoveryError> {
        self.payload = Some(Payload::with_class(class, payload)?);
        Ok(self)
    }

    /// The payload as it is written, in JSON.
    pub fn payload_json(&self) -> Option<&str> {
        self.payload.as_ref().map(|payload| payload.0.get())
    }

    /// The payload as a value that serde reads; fields that it does not know, such as `"@class"`, are ignored by default.
    ///
    /// # Errors
    /// [`DiscoveryError::Decode`].
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<Option<T>, DiscoveryError> {
        let payload = self.payload_json().map(serde_json::from_str);
        payload.transpose().map_err(DiscoveryError::decode)
    }

    /// The Java class that the payload names.
    pub fn payload_class(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Class {
            #[serde(rename = "@class")]
            class: String,
        }
        serde_json::from_str::<Class>(self.payload_json()?).ok().map(|named| named.class)
    }

    /// The URI by its [`uri_spec`](Instance::uri_spec), or by `{scheme}://{address}:{port}`.
    pub fn uri(&self) -> String {
        self.uri_spec.as_ref().unwrap_or(&UriSpec::default()).build(self)
    }

    pub(super) fn raw_payload(&self) -> Option<Box<RawValue>> {
        self.payload.as_ref().map(|payload| payload.0.clone())
    }

    pub(super) fn with_raw_payload(self, payload: Option<Box<RawValue>>) -> Self {
        Self { payload: payload.map(Payload), ..self }
    }
}

/// JSON as it is written.
#[derive(Clone)]
struct Payload(Box<RawValue>);

impl Payload {
    /// `None` for null.
    fn new<T: Serialize + ?Sized>(payload: &T) -> Result<Option<Self>, DiscoveryError> {
        let raw = serde_json::value::to_raw_value(payload).map_err(DiscoveryError::encode)?;
        Ok(if raw.get() == "null" { None } else { Some(Self(raw)) })
    }

    fn with_class<T: Serialize + ?Sized>(class: &str, payload: &T) -> Result<Self, DiscoveryError> {
        let plain = serde_json::to_string(payload).map_err(DiscoveryError::encode)?;
        let class = serde_json::to_string(class).map_err(DiscoveryError::encode)?;
        let Some(fields) = plain.strip_prefix('{') else {
            return Err(DiscoveryError::encode("a payload with a class must be an object"));
        };
        let comma = if fields == "}" { "" } else { "," };
        let raw = RawValue::from_string(format!("{{\"@class\":{class}{comma}{fields}"));
        raw.map(Self).map_err(DiscoveryError::encode)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may be secret.
        write!(f, "{} bytes", self.0.get().len())
    }
}
