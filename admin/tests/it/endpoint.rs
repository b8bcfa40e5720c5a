//! `/metrics`, with the answers of Apache ZooKeeper 3.9.5.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_admin::MetricsServer;
use zoolet_test_support::{Zk, create};

use crate::scrape::Scrape;

/// The head and the body of an answer.
async fn ask(server: &MetricsServer, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.addr()).await.expect("a port");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_ascii_lowercase(), body.to_owned())
}

async fn start(server: &Zk) -> MetricsServer {
    MetricsServer::builder(&**server).bind("127.0.0.1:0").start().await.expect("a free port")
}

#[tokio::test]
async fn methods_and_paths_are_answered_as_apache_does() {
    let zk = Zk::start().await;
    let metrics = start(&zk).await;
    for (method, path, status) in [
        ("GET", "/metrics", "200 ok"),
        ("HEAD", "/metrics", "200 ok"),
        ("POST", "/metrics", "200 ok"),
        ("OPTIONS", "/metrics", "200 ok"),
        ("PUT", "/metrics", "405 method not allowed"),
        ("DELETE", "/metrics", "405 method not allowed"),
        ("TRACE", "/metrics", "403 forbidden"),
        ("GET", "/", "404 not found"),
        ("GET", "/metrics/x", "404 not found"),
    ] {
        let (head, body) = ask(&metrics, method, path).await;
        assert!(head.starts_with(&format!("http/1.1 {status}\r\n")), "{method} {path}: {head}");
        let has_text = body.starts_with("# HELP ") && body.ends_with('\n');
        assert_eq!(
            has_text,
            status.starts_with("200") && ["GET", "POST"].contains(&method),
            "{method} {path}"
        );
        if has_text || method == "HEAD" {
            assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        }
    }
    metrics.shutdown().await;
}

#[tokio::test]
async fn a_scrape_names_the_samples_that_it_wants() {
    let zk = Zk::start().await;
    let metrics = start(&zk).await;
    let samples = async |query: &str| {
        let (_, body) = ask(&metrics, "GET", &format!("/metrics?{query}")).await;
        Scrape::parse(&body).samples.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(
        samples("name[]=znode_count&name%5B%5D=fsynctime_sum&x=1").await,
        ["fsynctime_sum", "znode_count"]
    );
    assert_eq!(samples("name[]=").await, [""; 0]);
    assert!(samples("x=1").await.len() > 200);
}

#[tokio::test]
async fn the_endpoint_makes_its_server_measure_and_is_empty_once_that_has_stopped() {
    let zk = Zk::start().await;
    assert!(!zk.metrics().is_measured);
    let metrics = start(&zk).await;
    zk.wire().await.ask(create("/a")).await;
    let (_, body) = ask(&metrics, "GET", "/metrics").await;
    let scrape = Scrape::parse(&body);
    assert_eq!(scrape.samples["write_per_namespace_count{key=\"a\",}"], 1.0);
    // The session and the znode.
    assert_eq!(scrape.samples["updatelatency_count"], 2.0);
    assert_eq!(scrape.families.contains_key("process_resident_memory_bytes"), cfg!(target_os = "linux"));
    zk.shutdown().await;
    let (head, _) = ask(&metrics, "GET", "/metrics").await;
    assert!(head.starts_with("http/1.1 503 "), "{head}");
}
