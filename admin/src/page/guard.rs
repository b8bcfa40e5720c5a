//! What a browser may do with the page, and who may write through it.

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

use super::answer::{ApiError, ApiResult};
use crate::http::{AskedHost, HttpRequest, HttpResponse, without_port};

/// A write has this field. A form or an image of another site cannot add it.
const WRITE_HEADER: HeaderName = HeaderName::from_static("x-zoolet-page");

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

/// Refuses what asks for another host, which is stricter than what the server refuses for all its paths.
///
/// # Errors
/// `Forbidden`.
pub(super) fn host(request: &HttpRequest) -> ApiResult<()> {
    if request.host == AskedHost::Own {
        return Ok(());
    }
    let host = without_port(request.header(&HOST).unwrap_or_default());
    Err(ApiError::forbidden(format!(
        "the page is not served under the name {:?}; ask for it by its address, or allow the name in the settings of the admin \
         server",
        host.chars().take(100).collect::<String>()
    )))
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
