//! Who may ask: no other site through the browser of an operator, and no site that has got the name of one by DNS rebinding.

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

use super::answer::{ApiError, ApiResult};
use crate::http::{HttpRequest, HttpResponse, address, host_of};

/// A write has this field. A form or an image of another site cannot add it.
const WRITE_HEADER: HeaderName = HeaderName::from_static("x-zoolet-page");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Scripts, styles and the icon are those of this server, and nothing else is loaded, framed or sent anywhere. `trusted-types`
/// without a policy: no text becomes markup, not even by mistake.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Adds the fields that keep a browser from doing more with an answer than to show it.
pub(super) fn protected(response: HttpResponse) -> HttpResponse {
    [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ]
    .into_iter()
    .fold(response, |response, (name, value)| response.with_header(name, HeaderValue::from_static(value)))
}

/// The names by which a browser may ask for the page.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    names: Vec<String>,
    /// Whether it listens on all addresses: then any of them, but no other name.
    any_address: bool,
}

impl AllowedHosts {
    /// Those of a server that listens on `addr`, and the configured ones.
    pub(super) fn new(addr: &str, configured: &[String]) -> Self {
        let bound = host_of(addr);
        let any_address = address(bound).is_some_and(|ip| ip.is_unspecified());
        let names = std::iter::once(bound).chain(configured.iter().map(String::as_str));
        Self { names: names.map(str::to_ascii_lowercase).collect(), any_address }
    }

    /// # Errors
    /// If the request asks for another host.
    pub(super) fn check(&self, request: &HttpRequest) -> ApiResult<()> {
        // Requests of HTTP/1.0 may have none. No browser sends them.
        let host = request.header(&HOST).unwrap_or_default();
        if self.allows(host) {
            return Ok(());
        }
        Err(ApiError::forbidden(format!(
            "the page is not served under the name {:?}; ask for it by its address, or allow the name in the settings of the admin \
             server",
            host.chars().take(100).collect::<String>()
        )))
    }

    fn allows(&self, host: &str) -> bool {
        let name = host_of(host);
        match address(name) {
            // An address cannot be rebound.
            Some(ip) if ip.is_loopback() || self.any_address => true,
            Some(_) => self.names.iter().any(|allowed| address(allowed) == address(name)),
            None => {
                let name = name.to_ascii_lowercase();
                name == "localhost" || !name.is_empty() && self.names.contains(&name)
            }
        }
    }
}

/// Refuses what a browser says another site has asked for.
///
/// # Errors
/// `Forbidden`.
pub(super) fn same_site(request: &HttpRequest) -> ApiResult<()> {
    match request.headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(ApiError::forbidden("another site has asked for this")),
    }
}

/// Refuses a write that is not of the page itself.
///
/// # Errors
/// `Forbidden`.
pub(super) fn write(request: &HttpRequest) -> ApiResult<()> {
    if !request.headers.contains_key(WRITE_HEADER) {
        return Err(ApiError::forbidden("a write needs the header field X-Zoolet-Page"));
    }
    let Some(origin) = request.headers.get(ORIGIN) else { return Ok(()) };
    let parts = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    // A proxy may end TLS, so what comes by HTTP may be of a page that came by HTTPS; the reverse is somebody on the way.
    let is_own = parts.is_some_and(|(scheme, authority)| {
        (scheme == "https" || !request.client.is_secure) && Some(authority) == request.header(&HOST)
    });
    if is_own {
        return Ok(());
    }
    Err(ApiError::forbidden("another site has asked for this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_else_can_get_are_served() {
        let bound = AllowedHosts::new("10.1.2.3:8080", &["zk1.example.com".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "10.1.2.3:8080",
            "ZK1.example.com:80",
        ] {
            assert!(bound.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "10.1.2.4:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::2]",
            ":80",
        ] {
            assert!(!bound.allows(host), "{host}");
        }
        let everywhere = AllowedHosts::new("0.0.0.0:8080", &[]);
        assert!(everywhere.allows("192.168.1.5:8080") && everywhere.allows("[fe80::1]:8080"));
        assert!(!everywhere.allows("zk1.example.com"));
        assert!(AllowedHosts::new("[::]:8080", &[]).allows("192.168.1.5"));
        assert!(AllowedHosts::new("zk1.example.com:8080", &[]).allows("zk1.example.com:8080"));
    }
}
