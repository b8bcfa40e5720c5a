//! Where a server listens.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use zoolet::server::Server;
use zoolet_test_support::*;

/// Whether this machine has IPv6 at all.
async fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok()
}

async fn is_served(addr: impl Into<SocketAddr>) -> bool {
    let stream = TcpStream::connect(addr.into()).await.expect("a listener");
    Wire::open(stream, Hello::new()).await.is_alive().await
}

#[tokio::test]
async fn by_ipv6_it_serves_where_there_is_ipv6_and_fails_to_start_elsewhere() {
    let start = Server::builder().bind("[::1]:0").start().await;
    assert_eq!(start.is_ok(), has_ipv6().await);
    if let Ok(server) = start {
        assert!(is_served(server.addrs()[0]).await);
    }
}

#[tokio::test]
async fn everywhere_is_by_ipv4_and_ipv6_or_by_what_there_is() {
    let zk = Zk::with(|settings| settings.bind("[::]:0")).await;
    let port = zk.addrs()[0].port();
    assert!(is_served(([127, 0, 0, 1], port)).await);
    if has_ipv6().await {
        assert!(is_served((Ipv6Addr::LOCALHOST, port)).await);
    }
}

#[tokio::test]
async fn of_several_addresses_none_takes_a_connection_before_all_are_bound() {
    let free = TcpListener::bind("127.0.0.1:0").await.and_then(|free| free.local_addr()).expect("a port");
    // The second is a name, which takes its time to be looked up.
    let mut start = pin!(Server::builder().bind(free.to_string()).bind("localhost:0").start());
    let mut met = false;
    let server = poll_fn(|cx| {
        let polled = start.as_mut().poll(cx);
        if polled.is_pending() {
            let refused = std::net::TcpStream::connect(free).expect_err("no listener yet");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            met = true;
        }
        match polled {
            // The name was there at once.
            Poll::Ready(_) if !met => panic!("not seen while it starts"),
            polled => polled,
        }
    });
    let server = server.await.expect("a server");
    for addr in server.addrs() {
        assert!(is_served(*addr).await);
    }
}
