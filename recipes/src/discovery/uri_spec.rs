//! [`UriSpec`]: how the URI of an instance is put together.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::instance::{Instance, ServiceType};

/// A rule for the URI of an instance, as Curator's `UriSpec`: text with variables in braces.
///
/// The variables are `scheme` (https if there is a port for TLS, otherwise http), `name`, `id`, `address`, `port`, `ssl-port`,
/// `registration-time-utc`, `service-type`, and `[` and `]` for braces. An unknown or absent one is empty.
///
/// ```
/// use zoolet_recipes::discovery::{Instance, UriSpec};
///
/// let web = Instance::new("web", "1", "h").port(80).uri_spec(UriSpec::parse("{scheme}://{address}:{port}/v1"));
/// assert_eq!(web.uri(), "http://h:80/v1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UriSpec {
    parts: Vec<UriPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UriPart {
    value: String,
    variable: bool,
}

impl Default for UriSpec {
    fn default() -> Self {
        Self::parse("{scheme}://{address}:{port}")
    }
}

impl UriSpec {
    /// Reads a rule. A brace that is not closed is text.
    pub fn parse(mut text: &str) -> Self {
        let mut parts = Vec::new();
        let mut push = |value: &str, variable| {
            if !value.is_empty() {
                parts.push(UriPart { value: value.to_owned(), variable });
            }
        };
        while let Some((before, rest)) = text.split_once('{') {
            let Some((variable, after)) = rest.split_once('}') else { break };
            push(before, false);
            push(variable.trim(), true);
            text = after;
        }
        push(text, false);
        Self { parts }
    }

    /// The URI of an instance.
    pub fn build(&self, instance: &Instance) -> String {
        let mut uri = String::new();
        for UriPart { value, variable } in &self.parts {
            match variable {
                true => uri.push_str(&value_of(value, instance)),
                false => uri.push_str(value),
            }
        }
        uri
    }
}

/// The value of a variable; empty if it is unknown or absent.
fn value_of<'i>(variable: &str, instance: &'i Instance) -> Cow<'i, str> {
    let number = |port: Option<u16>| port.map(|port| port.to_string()).unwrap_or_default().into();
    match variable {
        "scheme" if instance.ssl_port.is_some() => "https".into(),
        "scheme" => "http".into(),
        "name" => (&instance.name).into(),
        "id" => (&instance.id).into(),
        "address" => (&instance.address).into(),
        "port" => number(instance.port),
        "ssl-port" => number(instance.ssl_port),
        "registration-time-utc" => instance.registration_time_utc.to_string().into(),
        "service-type" => match instance.service_type {
            ServiceType::Dynamic => "dynamic".into(),
            ServiceType::Static => "static".into(),
            ServiceType::Permanent => "permanent".into(),
            ServiceType::DynamicSequential => "dynamic_sequential".into(),
        },
        "[" => "{".into(),
        "]" => "}".into(),
        _ => "".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_curator() {
        let mut web = Instance::new("web", "7", "h").port(80);
        web.registration_time_utc = 5;
        let spec = "{scheme}|{name}|{ id }|{address}|{port}|{ssl-port}|{registration-time-utc}|{service-type}|{[}{]}|{what}|{open";
        let uri = UriSpec::parse(spec).build(&web);
        assert_eq!(uri, "http|web|7|h|80||5|dynamic|{}||{open");
        assert_eq!(web.uri(), "http://h:80");
        assert_eq!(web.ssl_port(443).uri(), "https://h:80");
    }

    #[test]
    fn the_parts_are_those_that_curator_writes() {
        let spec = UriSpec::parse("{scheme}://{address}:{port}/{x}");
        let expected = r#"{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true},{"value":"/","variable":false},{"value":"x","variable":true}]}"#;
        assert_eq!(serde_json::to_string(&spec).unwrap(), expected);
    }
}
