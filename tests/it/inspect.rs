//! The page of a test server, in a browser that looks at a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use zoolet::testing::TestServer;

/// The body of an answer of the page at `address`.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test]
async fn a_test_opens_the_page_of_its_server_on_a_free_port() {
    let zk = TestServer::builder().znode("/config", "v1").start().await.unwrap();
    let page = zk.open_page().await.unwrap();
    let address = page.addr().to_string();
    let asked = tokio::task::spawn_blocking(move || get(&address, "/api/children?path=/"));
    assert!(asked.await.unwrap().contains(r#"["config",0,false]"#));
    page.shutdown().await;
}

#[tokio::test]
#[ignore = "fails: tests/it/inspect.rs runs it"]
async fn a_test_that_fails() {
    let zk = TestServer::start().await;
    let client = zk.client().await;
    client.create("/left/behind", "by the failure").parents().await.unwrap();
    panic!("as if there were a bug");
}

#[test]
fn a_failed_test_waits_with_its_page_open_if_it_is_asked_to() {
    let run = |inspect| {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--ignored", "--exact", "inspect::a_test_that_fails"]).env("ZOOLET_INSPECT", inspect);
        test.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let failed = run("0").wait_with_output().unwrap();
    assert!(!failed.status.success() && !String::from_utf8_lossy(&failed.stderr).contains("press Enter"));
    let mut test = run("1");
    let mut lines = BufReader::new(test.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("press Enter")).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(get(address, "/").contains("<title>Zoolet</title>"));
    assert!(get(address, "/api/znode?path=/left/behind").contains(r#""length":14"#));
    assert!(get(address, "/api/server").contains(r#""writable":false"#));
    writeln!(test.stdin.take().unwrap()).unwrap();
    assert!(!test.wait().unwrap().success(), "it still fails");
}
