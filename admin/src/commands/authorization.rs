//! Who may take and restore snapshots.
//!
//! The field `Authorization` has a scheme and, after a blank, credentials: `digest user:password`, `ip`, or `x509` with a client
//! certificate. The identity that they prove needs all five permissions on the root.
//!
//! A password in a header is readable on the way, as are the data: without HTTPS only this machine is answered, unless the builder says
//! otherwise, and whatever it says, no site whose name leads a browser to this server (DNS rebinding). Apache answers everybody.

use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use zoolet_server::Observer;
use zoolet_server_core::{AdminAccess, Origin};

use super::NOT_SERVING;
use crate::http::{AskedHost, HttpRequest};

/// A refusal: its status and the text of the field `error`.
type Refusal = (StatusCode, &'static str);

const MISSING: Refusal = (StatusCode::UNAUTHORIZED, "Auth info is missing for the command");
const NOT_AUTHENTICATED: Refusal = (StatusCode::UNAUTHORIZED, "Not authenticated");
const NOT_AUTHORIZED: Refusal = (StatusCode::FORBIDDEN, "Not authorized");
const NOT_SECURE: Refusal = (
    StatusCode::FORBIDDEN,
    "Snapshots are sent and restored by HTTPS or from this machine only, as passwords and data could be read on the way",
);
const OTHER_NAME: Refusal = (
    StatusCode::FORBIDDEN,
    "Without HTTPS, snapshots are sent and restored by an address, as localhost or by a name of the settings only, as another name may be that of a site",
);

/// # Errors
/// Why the request is refused.
pub(super) fn check(observer: &Observer, request: &HttpRequest, allow_plain: bool) -> Result<(), Refusal> {
    let client = &request.client;
    // Before the credentials are looked at, so that nobody learns anything of them.
    if !client.is_secure {
        if !allow_plain && !client.addr.ip().is_loopback() {
            return Err(NOT_SECURE);
        }
        if request.host == AskedHost::Other {
            return Err(OTHER_NAME);
        }
    }
    let value = request.headers.get(AUTHORIZATION).ok_or(MISSING)?;
    let value = value.to_str().map_err(|_| NOT_AUTHENTICATED)?;
    let (scheme, credentials) = words(value).ok_or(NOT_AUTHENTICATED)?;
    let origin =
        Origin { peer: client.addr.ip(), in_process: false, certificate: client.certificate.clone() };
    match observer.admin_access(&origin, scheme, credentials) {
        Some(AdminAccess::Granted) => Ok(()),
        Some(AdminAccess::NotAuthenticated) => Err(NOT_AUTHENTICATED),
        Some(AdminAccess::NotAuthorized) => Err(NOT_AUTHORIZED),
        None => Err((StatusCode::OK, NOT_SERVING)),
    }
}

/// One word or two, as Java splits at each blank: empty words at the end do not count.
fn words(value: &str) -> Option<(&str, Option<&str>)> {
    let value = value.trim_start().trim_end_matches(' ');
    let mut words = value.split(' ');
    let (scheme, credentials) = (words.next()?, words.next());
    (words.next().is_none() && !scheme.is_empty()).then_some((scheme, credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_one_or_two_words() {
        for (value, expected) in [
            ("digest u:p", Some(("digest", Some("u:p")))),
            ("  digest u:p", Some(("digest", Some("u:p")))),
            ("digest u:p  ", Some(("digest", Some("u:p")))),
            ("ip", Some(("ip", None))),
            ("digest ", Some(("digest", None))),
            ("digest  u:p", None),
            ("a b c", None),
            ("", None),
            (" ", None),
        ] {
            assert_eq!(words(value), expected, "{value:?}");
        }
    }
}
