//! Settings of the file and of flags reach the server: each has its effect on a client.

#![cfg(unix)]

use std::error::Error;
use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use zoolet_client::{Acl, Client, ErrorCode, EventType, Perms};

use crate::common::{Running, config};

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::test]
async fn settings_of_the_file_reach_the_server() -> Outcome {
    let file = config(
        "extendedTypesEnabled=true\n\
         enforceQuota=true\n\
         jute.maxbuffer=2000\n\
         znode.container.checkIntervalMs=10\n\
         zookeeper.znode.container.maxNeverUsedIntervalMs=1\n\
         superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
    );
    let name = file.path().display().to_string();
    let server = Running::start(&["--bind", "127.0.0.1:0", "--config", &name]);
    let zk = Client::connect(server.addrs[0].as_str()).await?;

    zk.create("/expires", "").ttl(Duration::from_millis(1)).await?;
    gone(&zk, "/expires").await?;
    zk.create("/unused", "").container().await?;
    gone(&zk, "/unused").await?;

    zk.create("/zookeeper/quota/small", "").await?;
    zk.create("/small", "").await?;
    zk.create(
        "/zookeeper/quota/small/zookeeper_limits",
        "count=-1,bytes=-1=;byteHardLimit=4;countHardLimit=-1",
    )
    .await?;
    zk.create("/zookeeper/quota/small/zookeeper_stats", "count=1,bytes=0").await?;
    let refused = zk.set_data("/small", "too much").await.expect_err("a hard limit");
    assert_eq!(refused.code(), Some(ErrorCode::QuotaExceeded));

    let nobody = vec![Acl::new(Perms::ALL, "digest", "nobody:nothing")];
    zk.create("/secret", "found").acl(nobody).await?;
    assert_eq!(zk.get_data("/secret").await.expect_err("an ACL").code(), Some(ErrorCode::NoAuth));
    zk.add_auth("digest", "super:secret").await?;
    assert_eq!(zk.get_data("/secret").await?.0, "found");

    zk.set_data("/secret", vec![b'x'; 1900]).await?;
    let refused = zk.set_data("/secret", vec![b'x'; 2000]).await.expect_err("a frame too long");
    assert_eq!(refused.code(), Some(ErrorCode::ConnectionLoss));
    Ok(())
}

#[tokio::test]
async fn settings_of_the_flags_reach_the_server() -> Outcome {
    let server = Running::start(&[
        "--bind",
        "127.0.0.1:0",
        "--skip-acl",
        "--max-cnxns=1",
        "--max-watches-per-connection=1",
        "--max-session-timeout=5s",
        "--tick-time=100ms",
    ]);
    let zk =
        Client::options().session_timeout(Duration::from_secs(30)).connect(server.addrs[0].as_str()).await?;
    assert_eq!(zk.session_timeout(), Duration::from_secs(5));
    assert!(closed(&server), "a second connection");

    let nobody = vec![Acl::new(Perms::ALL, "digest", "nobody:nothing")];
    zk.create("/secret", "found").acl(nobody).await?;
    assert_eq!(zk.get_data("/secret").await?.0, "found");

    let (_, _watch) = zk.exists("/one").watch().await?;
    let refused = zk.exists("/two").watch().await.expect_err("a second watch");
    assert_eq!(refused.code(), Some(ErrorCode::ThrottledOp));

    let refused = zk.create("/ttl", "").ttl(Duration::from_secs(1)).await.expect_err("no extended types");
    assert_eq!(refused.code(), Some(ErrorCode::Unimplemented));
    Ok(())
}

#[test]
fn a_connection_without_a_session_is_closed_at_its_deadline() {
    let server = Running::start(&["--bind", "127.0.0.1:0", "--sessionless-timeout", "10ms"]);
    assert!(closed(&server));
}

/// Waits until the server has deleted the znode.
async fn gone(zk: &Client, path: &str) -> Outcome {
    let (stat, watch) = zk.exists(path).watch().await?;
    if stat.is_some() {
        assert_eq!(watch.changed().await?.kind, EventType::NodeDeleted);
    }
    Ok(())
}

/// Opens a connection, sends nothing, and returns whether the server closes it without a word.
fn closed(server: &Running) -> bool {
    let mut stream = TcpStream::connect(server.addrs[0].as_str()).expect("a connection");
    matches!(stream.read(&mut [0]), Ok(0))
}
