//! The files of the page, in the binary as they are.

use hyper::StatusCode;

use crate::http::HttpResponse;

const FILES: [(&str, &str, &str); 4] = [
    ("/", "text/html; charset=utf-8", include_str!("assets/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("assets/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("assets/page.js")),
    ("/page.svg", "image/svg+xml", include_str!("assets/page.svg")),
];

/// The file at a path.
pub(super) fn find(path: &str) -> Option<HttpResponse> {
    let (_, kind, text) = FILES.iter().find(|(at, ..)| *at == path)?;
    Some(HttpResponse::text(StatusCode::OK, kind, *text))
}
