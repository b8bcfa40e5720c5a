//! Who may ask, and what browsers are told about the answers.

use serde_json::json;
use zoolet_test_support::{create, get_data};

use super::{Scene, base64};

const FILES: [&str; 4] = ["/", "/page.css", "/page.js", "/page.svg"];

#[tokio::test]
async fn every_answer_has_a_strict_policy() {
    let scene = Scene::start().await;
    for path in FILES.iter().chain(&["/api/server", "/api/nothing", "/api/znode?path=/none"]) {
        let got = scene.get(path).await;
        let policy = got.header("content-security-policy").unwrap_or_else(|| panic!("{path}: {}", got.head));
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.split("; ").any(|rule| rule == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(got.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(got.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(got.header("access-control-allow-origin"), None, "{path}");
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_outside_and_makes_no_markup_of_text() {
    let scene = Scene::start().await;
    for path in FILES {
        let text = scene.get(path).await.body.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", "@import", "url("] {
            assert!(!text.contains(outside), "{path}: {outside}");
        }
        let sinks = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ];
        for sink in sinks {
            assert!(!text.contains(sink), "{path}: {sink}");
        }
    }
    let html = scene.get("/").await.body;
    assert!(!html.contains(" style=") && !html.contains("<style") && !html.contains(" onclick"), "inline");
}

#[tokio::test]
async fn a_name_that_another_site_could_get_is_refused() {
    let scene = Scene::start_with(|admin| admin.page_host("zk1.example.com")).await;
    let port = scene.admin.addr().port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        (format!("zk1.example.com:{port}"), 200),
        (format!("evil.example:{port}"), 403),
        (format!("127.0.0.1.evil.example:{port}"), 403),
        (format!("10.0.0.1:{port}"), 403),
    ] {
        for path in ["/", "/page.js", "/api/server", "/api/znode?path=/"] {
            let got = scene.send_as("GET", path, &format!("Host: {host}\r\n"), "").await;
            assert_eq!(got.status, status, "{path} at {host}");
            let is_named = got.body.contains(r#"under the name \"10.0.0.1\"; ask"#);
            assert_eq!(is_named, host.starts_with("10."), "as `page_host` takes it: {}", got.body);
        }
    }
}

#[tokio::test]
async fn other_sites_neither_read_nor_write_through_the_browser_of_an_operator() {
    let scene = Scene::writable().await;
    let mut client = scene.client().await;
    client.ask(create("/a")).await;
    let (host, body) =
        (scene.admin.addr(), json!({ "path": "/a", "data": base64("x"), "version": 0 }).to_string());
    let page = "X-Zoolet-Page: 1\r\n";
    for fields in [
        String::new(),
        format!("Origin: http://{host}\r\n"),
        format!("{page}Origin: http://evil.example\r\n"),
        format!("{page}Origin: http://127.0.0.1:1\r\n"),
        format!("{page}Origin: {host}\r\n"),
        format!("{page}Origin: null\r\n"),
        format!("{page}Sec-Fetch-Site: cross-site\r\n"),
        format!("{page}Sec-Fetch-Site: same-site\r\nOrigin: http://{host}\r\n"),
    ] {
        let got = scene.send("POST", "/api/set", &fields, &body).await;
        assert_eq!(got.status, 403, "{fields}");
        if fields.contains("Sec-Fetch-Site") {
            assert_eq!(got.body, "another site has asked for this\n", "{fields}");
        } else {
            assert_eq!(got.refusal(), (403, "Forbidden".to_owned()), "{fields}");
        }
    }
    assert_eq!(client.ask(get_data("/a")).await.stat().version, 0);
    let read = scene.send("GET", "/api/server", "Sec-Fetch-Site: cross-site\r\n", "").await;
    assert_eq!(read.status, 403);
    // To a browser the page of a proxy that ends TLS is one of HTTPS.
    for (version, scheme) in ["http", "https"].iter().enumerate() {
        let own = format!("{page}Origin: {scheme}://{host}\r\nSec-Fetch-Site: same-origin\r\n");
        let body = json!({ "path": "/a", "data": base64("x"), "version": version }).to_string();
        assert_eq!(scene.send("POST", "/api/set", &own, &body).await.status, 200, "{scheme}");
    }
    assert_eq!(client.ask(get_data("/a")).await.stat().version, 2);
}

#[tokio::test]
async fn a_server_without_the_page_has_none() {
    let scene = Scene::start_with(|admin| admin.page(false)).await;
    for path in FILES.iter().chain(&["/api/server"]) {
        assert_eq!(scene.get(path).await.status, 404, "{path}");
    }
}
