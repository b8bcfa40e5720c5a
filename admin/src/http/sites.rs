//! What other sites make the browser of an operator ask for: by a name of their own that leads here (DNS rebinding), or by ours.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::request::HttpClient;
use super::response::HttpResponse;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The names of a server.
#[derive(Debug)]
pub(super) struct AllowedHosts {
    names: Vec<Host>,
    /// Where it listens. If that is everywhere, it is asked by any address, but by no other name. If it is the loopback, only this machine
    /// reaches it; from elsewhere a scraper may have any name for it.
    bound: IpAddr,
}

/// By whose name a request asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedHost {
    /// A name or an address of this server, or of the loopback.
    Own,
    /// Another address, perhaps of something that forwards to this server. It cannot be rebound.
    Address,
    /// Another name, or none, as in HTTP/1.0.
    Other,
}

impl AllowedHosts {
    /// Those of a server that listens on `addr`, which has turned out to be `local`, and the configured ones.
    pub(super) fn new(addr: &str, local: SocketAddr, configured: &[String]) -> Self {
        let names = std::iter::once(addr).chain(configured.iter().map(String::as_str));
        Self { names: names.filter_map(Host::of).collect(), bound: local.ip().to_canonical() }
    }

    pub(super) fn asked(&self, headers: &HeaderMap) -> AskedHost {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(Host::of);
        let Some(host) = host else { return AskedHost::Other };
        let is_own = match &host {
            Host::Address(ip) => ip.is_loopback() || self.bound.is_unspecified() || self.bound == *ip,
            Host::Name(name) => name == "localhost",
        };
        match host {
            _ if is_own || self.names.contains(&host) => AskedHost::Own,
            Host::Address(_) => AskedHost::Address,
            Host::Name(_) => AskedHost::Other,
        }
    }

    /// The answer to what another site has asked for, as far as that can be known of any path.
    pub(super) fn refusal(&self, parts: &Parts, client: &HttpClient) -> Option<HttpResponse> {
        let reason = if is_of_another_site(parts) {
            "another site has asked for this\n"
        } else if self.bound.is_loopback()
            // The certificate has the name.
            && !client.is_secure
            // No browser leaves it out.
            && parts.headers.contains_key(HOST)
            && self.asked(&parts.headers) == AskedHost::Other
        {
            "this server has another name; ask by its address or as localhost, or allow the name in its settings\n"
        } else {
            return None;
        };
        Some(HttpResponse::text(StatusCode::FORBIDDEN, "text/plain", reason))
    }
}

/// Whether a browser says so; programs say nothing. A link that leads to the page is followed.
fn is_of_another_site(parts: &Parts) -> bool {
    let field = |name| parts.headers.get(name).map(|value| value.as_bytes());
    let is_link = parts.method == Method::GET
        && parts.uri.path() == "/"
        && field(FETCH_MODE) == Some(b"navigate".as_slice());
    !is_link && !matches!(field(FETCH_SITE), None | Some(b"same-origin" | b"none"))
}

/// A host, in the form in which it is compared.
#[derive(Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Host {
    /// That of `host:port` or `host`, if there is one. The dot of the root of all names is of no meaning.
    fn of(text: &str) -> Option<Self> {
        let host = without_port(text);
        let host = host.strip_suffix('.').unwrap_or(host);
        match address(host) {
            Some(ip) => Some(Self::Address(ip)),
            None => (!host.is_empty()).then(|| Self::Name(host.to_ascii_lowercase())),
        }
    }
}

/// The host of `host:port`, `[::1]:port` or `host`.
pub(crate) fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        // An address whose colons are not in brackets has no port.
        Some((host, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => text,
    }
}

/// The address that a host is, rather than a name; in brackets or bare.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok().map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn asked(hosts: &AllowedHosts, host: &str) -> AskedHost {
        hosts.asked(&HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).expect("a value"))]))
    }

    fn hosts(addr: &str, configured: &[String]) -> AllowedHosts {
        let local = addr.parse().unwrap_or(SocketAddr::from(([10, 1, 2, 3], 8080)));
        AllowedHosts::new(addr, local, configured)
    }

    #[test]
    fn only_names_that_nobody_else_can_get_are_those_of_the_server() {
        let bound = hosts("10.1.2.3:8080", &["zk1.example.com".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.9.9.9",
            "[::1]:8080",
            "10.1.2.3:8080",
            "ZK1.example.com:80",
        ] {
            assert_eq!(asked(&bound, host), AskedHost::Own, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            ":80",
        ] {
            assert_eq!(asked(&bound, host), AskedHost::Other, "{host}");
        }
        for host in ["10.1.2.4:8080", "[::2]"] {
            assert_eq!(asked(&bound, host), AskedHost::Address, "{host}");
        }
        assert_eq!(bound.asked(&HeaderMap::new()), AskedHost::Other);
        let everywhere = hosts("0.0.0.0:8080", &[]);
        for host in ["192.168.1.5:8080", "[fe80::1]:8080"] {
            assert_eq!(asked(&everywhere, host), AskedHost::Own, "{host}");
        }
        assert_eq!(asked(&everywhere, "zk1.example.com"), AskedHost::Other);
        assert_eq!(asked(&hosts("[::]:8080", &[]), "192.168.1.5"), AskedHost::Own);
        let configured = ["ZK1.example.com:8080", "zk2.example.com.", "2001:db8::5:80"].map(str::to_owned);
        let configured = hosts("127.0.0.1:8080", &configured);
        for host in ["zk1.example.com", "zk1.example.com.:80", "zk2.example.com:80", "[2001:db8::5:80]:80"] {
            assert_eq!(asked(&configured, host), AskedHost::Own, "{host}");
        }
        for host in [".", "zk1.example.com..", "[2001:db8::5]"] {
            assert_ne!(asked(&configured, host), AskedHost::Own, "{host}");
        }
        // Bound by a name, to the address that it has.
        for host in ["zk1.example.com:8080", "10.1.2.3:8080"] {
            assert_eq!(asked(&hosts("zk1.example.com:8080", &[]), host), AskedHost::Own, "{host}");
        }
    }
}
