//! The server embedded in a program: starting, stopping, several at once, any stream.

use std::time::Duration;

use tokio::io::{AsyncReadExt, BufStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use zoolet::server::{Server, StartError};
use zoolet::{Client, Lock, SessionState};
use zoolet_test_support::*;

#[tokio::test(start_paused = true)]
async fn ten_servers_in_one_process_are_independent() {
    let mut servers = Vec::new();
    for n in 0..10 {
        let zk = Zk::start().await;
        zk.create(&format!("/only-{n}"), "").await;
        servers.push(zk);
    }
    for (n, zk) in servers.iter().enumerate() {
        assert_eq!(zk.children("/").await, [format!("only-{n}"), "zookeeper".to_owned()]);
    }
}

#[tokio::test]
async fn the_first_connection_that_is_accepted_is_answered() {
    // A port that is free, and is tried from before the server starts.
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = free.local_addr().expect("an address");
    drop(free);
    let racing = tokio::spawn(async move {
        loop {
            if let Ok(stream) = TcpStream::connect(addr).await {
                let mut wire = Wire::over(stream);
                return wire.hello(Hello::new()).await;
            }
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!racing.is_finished());
    let zk = Zk::with(|settings| settings.bind(addr.to_string())).await;
    assert!(!racing.await.expect("a client").is_refusal());
    zk.shutdown().await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let zk = Zk::start_tcp().await;
    let addr = zk.addrs()[0].to_string();
    let Err(error) = Server::builder().bind(&addr).start().await else { panic!("two servers on {addr}") };
    assert!(matches!(&error, StartError::Bind { addr: named, .. } if *named == addr));
    assert!(error.to_string().contains(&addr), "{error}");
    zk.serves_others().await;
}

#[tokio::test]
async fn a_server_starts_again_on_its_port_at_once() {
    let mut zk = Zk::start_tcp().await;
    let addr = zk.addrs()[0];
    for _ in 0..10 {
        let mut wire = zk.tcp_wire().await;
        assert!(wire.is_alive().await);
        zk.shutdown().await;
        wire.expect_closed().await;
        zk = Zk::with(|settings| settings.bind(addr.to_string())).await;
    }
    assert!(zk.tcp_wire().await.is_alive().await);
}

#[tokio::test]
async fn a_client_of_a_server_that_starts_again_empty_is_told_that_its_session_has_expired() {
    let timeout = Duration::from_secs(4);
    let start = async |addr: &str| {
        let settings = Server::builder().tick_time(Duration::from_millis(500)).bind(addr);
        settings.start().await.expect("a server")
    };
    let mut server = start("127.0.0.1:0").await;
    let addr = server.connect_string();
    let mut token = None;
    for _ in 0..3 {
        let client = Client::options().session_timeout(timeout).connect(addr.as_str()).await;
        let client = client.expect("a session");
        let guard = Lock::new(&client, "/lock").acquire().await.expect("the lock");
        assert!(Some(guard.token()) > token, "{} after {token:?}", guard.token());
        token = Some(guard.token());
        server.shutdown().await;
        server = start(&addr).await;
        let told = tokio::time::timeout(timeout + Duration::from_secs(1), client.ended()).await;
        assert_eq!(told.expect("told in time"), SessionState::Expired);
    }
}

#[tokio::test]
async fn a_later_server_begins_above_all_that_an_earlier_one_gave() {
    let mut before = (0, 0);
    for _ in 0..100 {
        let server = Server::builder().start().await.expect("a server");
        assert!(server.initial_zxid().0 >= before.0);
        let mut wire = Wire::over(server.in_process()().into_inner().expect("a connection"));
        let session = wire.hello(Hello::new()).await.session.0;
        let zxid = wire.ask(create("/a")).await.zxid;
        assert!(zxid > before.0 && session > before.1, "{zxid} and {session:#x} after {before:?}");
        before = (zxid, session);
    }
}

#[tokio::test]
async fn after_a_shutdown_the_port_is_free_and_connections_are_refused() {
    let zk = Zk::start_tcp().await;
    let (addr, connect) = (zk.addrs()[0], zk.in_process());
    zk.shutdown().await;
    let error = connect().into_inner().expect_err("no connection to a stopped server");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(TcpStream::connect(addr).await.is_err());
    drop(TcpListener::bind(addr).await.expect("a free port"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_server_stops_without_being_asked() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let connect = zk.in_process();
    drop(zk);
    wire.expect_closed().await;
    assert!(connect().into_inner().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_not_awaited_completes() {
    let zk = Zk::start().await;
    let (mut one, connect) = (zk.wire().await, zk.in_process());
    drop(zk.shutdown());
    one.expect_closed().await;
    assert!(connect().into_inner().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_peer_however_it_behaves() {
    let zk = Zk::start().await;
    zk.create("/big", &"x".repeat(500_000)).await;
    let _says_nothing = zk.raw();
    let mut stops_half_way = zk.raw();
    stops_half_way.send_bytes(&[0, 0, 0]).await;
    let _idle = zk.wire().await;
    let mut does_not_read = zk.wire().await;
    for _ in 0..5 {
        does_not_read.send(get_data("/big")).await;
    }
    let mut does_not_close = zk.wire().await;
    does_not_close.ask(close_session()).await;
    let mut asks_a_word = zk.raw();
    asks_a_word.send_bytes(b"srvr").await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    zk.shutdown().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_under_load_ends_every_connection() {
    let zk = Zk::start_tcp().await;
    let mut clients = Vec::new();
    for n in 0..8 {
        let mut wire = if n % 2 == 0 { zk.tcp_wire().await } else { zk.wire().await };
        clients.push(tokio::spawn(async move {
            let mut answers = 0;
            while wire.is_alive().await {
                answers += 1;
            }
            answers
        }));
    }
    let mut wire = zk.wire().await;
    for _ in 0..200 {
        wire.ask(create("/n-").sequential()).await;
    }
    zk.shutdown().await;
    for client in clients {
        assert!(client.await.expect("a client that sees the end") > 0);
    }
}

#[test]
fn a_runtime_that_ends_first_takes_the_server_with_it() {
    let start = || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let zk = runtime.block_on(async {
            let zk = Zk::start_tcp().await;
            assert!(zk.tcp_wire().await.is_alive().await);
            zk
        });
        drop(runtime);
        zk
    };
    drop(start());
    let zk = start();
    let connect = zk.in_process();
    tokio::runtime::Runtime::new().expect("another runtime").block_on(async {
        if let Ok(mut stream) = connect().into_inner() {
            assert_eq!(stream.read(&mut [0]).await.expect("an end"), 0);
        }
        zk.shutdown().await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_buffers_what_is_written_is_flushed() {
    let zk = Zk::start().await;
    let (ours, theirs) = duplex(1 << 16);
    zk.serve_stream(BufStream::new(theirs), [127, 0, 0, 1].into());
    let mut wire = Wire::open(ours, Hello::new()).await;
    assert_eq!(wire.ask(create("/a")).await.path(), "/a");
    wire.close_session().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_take_and_give_a_byte_at_a_time() {
    let zk = Zk::start().await;
    let (ours, theirs) = duplex(1);
    zk.serve_stream(theirs, [127, 0, 0, 1].into());
    let mut wire = Wire::open(ours, Hello::new()).await;
    let data = "x".repeat(5_000);
    wire.ask(create("/a").data(&data)).await;
    assert_eq!(wire.ask(get_data("/a")).await.text(), data);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_served_with_the_address_it_is_given() {
    let zk = Zk::start().await;
    for (said, shown) in
        [("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3"), ("2001:db8::1", "2001:db8:0:0:0:0:0:1")]
    {
        let (ours, theirs) = duplex(1 << 10);
        zk.serve_stream(theirs, said.parse().expect("an address"));
        let mut wire = Wire::open(ours, Hello::new()).await;
        let Reply::WhoAmI(ids) = wire.ask(who_am_i()).await.reply else { panic!("no identities") };
        assert_eq!((ids[0].scheme.as_str(), ids[0].user.as_str()), ("ip", shown));
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_errors_that_name_them() {
    let settings = Server::builder().min_session_timeout(secs(9)).max_session_timeout(secs(3));
    let Err(error) = settings.start().await else { panic!("a server that can open no session") };
    assert!(error.to_string().starts_with("min_session_timeout = 9000"), "{error}");
    let Err(error) = Server::builder().tick_time(Duration::ZERO).start().await else { panic!("no tick") };
    assert!(error.to_string().starts_with("tick_time = 0"), "{error}");
    for bind in ["127.0.0.1", "", ":2181", "localhost:", "localhost:70000"] {
        let error = Server::builder().bind(bind).start().await.expect_err(bind);
        let expected = format!(
            "bind = {bind}: must be an address and a port, such as 127.0.0.1:2181, or port 0 for any free one"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn times_as_long_as_can_be_said_are_as_good_as_never() {
    let zk = Zk::with(|settings| {
        settings
            .max_session_timeout(Duration::MAX)
            .sessionless_timeout(Duration::MAX)
            .container_check_interval(Duration::MAX)
    })
    .await;
    let silent = zk.raw();
    let mut wire = zk.connect(Hello::new().timeout_ms(i32::MAX)).await;
    tokio::time::sleep(secs(24 * 3600)).await;
    assert!(wire.is_alive().await);
    drop(silent);
}
