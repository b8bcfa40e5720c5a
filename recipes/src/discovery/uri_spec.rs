//! [`UriSpec`]: how the URI of an instance is put together.

use std::fmt::Write as _;

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
            match (variable, value.as_str()) {
                (false, text) => uri.push_str(text),
                (true, variable) => push_variable(&mut uri, variable, instance),
            }
        }
        uri
    }
}

fn push_variable(uri: &mut String, variable: &str, instance: &Instance) {
    let number = |uri: &mut String, port: Option<u16>| {
        if let Some(port) = port {
            // A String takes everything.
            let _ = write!(uri, "{port}");
        }
    };
    match variable {
        "scheme" => uri.push_str(if instance.ssl_port.is_some() { "https" } else { "http" }),
        "name" => uri.push_str(&instance.name),
        "id" => uri.push_str(&instance.id),
        "address" => uri.push_str(&instance.address),
        "port" => number(uri, instance.port),
        "ssl-port" => number(uri, instance.ssl_port),
        "registration-time-utc" => _ = write!(uri, "{}", instance.registration_time_utc),
        "service-type" => uri.push_str(match instance.service_type {
            ServiceType::Dynamic => "dynamic",
            ServiceType::Static => "static",
            ServiceType::Permanent => "permanent",
            ServiceType::DynamicSequential => "dynamic_sequential",
        }),
        "[" => uri.push('{'),
        "]" => uri.push('}'),
        _ => {}
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
