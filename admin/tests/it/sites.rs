//! What other sites make the browser of an operator ask for.

use zoolet_admin::{AdminServer, MetricsServer};
use zoolet_server::Server;

use crate::common::{Pair, ask_as, ask_at};

/// Paths of the page, of its API, of the commands, and none.
const PATHS: [&str; 7] =
    ["/", "/page.css", "/api/server", "/commands", "/commands/mntr", "/commands/stat_reset", "/nothing"];

#[tokio::test]
async fn nothing_is_answered_that_another_site_has_asked_for() {
    let pair = Pair::start(Server::builder()).await;
    let metrics = MetricsServer::builder(&pair.server).bind("127.0.0.1:0").start().await.expect("a port");
    let admin = pair.admin.addr();
    let mut asked: Vec<_> = PATHS.iter().map(|path| (admin, *path)).collect();
    asked.push((metrics.addr(), "/metrics"));
    for (addr, path) in asked {
        for site in ["cross-site", "same-site", "same-origin", "none"] {
            let is_other = site.ends_with("-site");
            for mode in ["no-cors", "navigate"] {
                // A link to the page leads there.
                let is_refused = is_other && (path, mode) != ("/", "navigate");
                let fields = format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\n");
                let answer = ask_at(addr, "GET", path, &fields, b"").await;
                assert_eq!(answer.status == 403, is_refused, "{path}, {site}, {mode}: {}", answer.status);
            }
        }
    }
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(ask_at(admin, "POST", "/", link, b"").await.status, 403, "a form");
}

#[tokio::test]
async fn on_the_loopback_no_site_by_its_name_is_answered() {
    let pair =
        Pair::start_with(Server::builder(), |admin| admin.page_host("zk1.example.com").page(false)).await;
    let metrics = MetricsServer::builder(&pair.server).bind("127.0.0.1:0").host("zk1.example.com");
    let metrics = metrics.start().await.expect("a port");
    let everywhere = AdminServer::builder(&pair.server).bind("0.0.0.0:0").start().await.expect("a port");
    let port = everywhere.addr().port();
    for (host, is_served) in [
        ("localhost:8080", true),
        ("127.0.0.1", true),
        ("[::1]:8080", true),
        // That of this machine, where something forwards to the loopback.
        ("10.1.2.3:8080", true),
        ("zk1.example.com", true),
        ("evil.example:8080", false),
        ("localhost.evil.example", false),
        ("", false),
    ] {
        let status = if is_served { 200 } else { 403 };
        for (addr, path) in [
            (pair.admin.addr(), "/commands"),
            (pair.admin.addr(), "/commands/dump"),
            (metrics.addr(), "/metrics"),
        ] {
            assert_eq!(ask_as(addr, host, "GET", path, "", b"").await.status, status, "{path} of {host:?}");
        }
        // A scraper has some name for it.
        let addr = ([127, 0, 0, 1], port).into();
        assert_eq!(ask_as(addr, host, "GET", "/commands/mntr", "", b"").await.status, 200, "{host:?}");
    }
}
