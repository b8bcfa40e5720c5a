//! A server leaves nothing behind.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use zoolet::server::Server;
use zoolet::testing::TestServer;
use zoolet_proto::{Acl, Perms, Request, Xid};
use zoolet_test_support::*;

use crate::alone;
use crate::counts::{
    descriptors, handled_signals, max_descriptors, most_resident, resident, server_threads, threads,
};

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Lets others run until `met`. On the last of many tries it fails.
async fn soon(what: &str, met: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if met() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what}");
}

#[test]
fn a_shutdown_leaves_no_task_and_no_descriptor() {
    alone(false, async {
        let (tasks_before, open_before) = (tasks(), descriptors());
        let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").bind("127.0.0.1:0")).await;
        let mut clients = Vec::new();
        for n in 0..20 {
            clients.push(if n % 2 == 0 { zk.tcp_wire().await } else { zk.wire().await });
            clients.push(zk.raw_tcp().await);
        }
        // More than a runtime polls before it looks at this test again.
        let streams: Vec<_> = (0..200).map(|_| zk.stream()).collect();
        zk.serves_others().await;
        assert!(tasks() > tasks_before + 220);
        zk.shutdown().await;
        assert_eq!(tasks(), tasks_before);
        drop((clients, streams));
        assert_eq!(descriptors(), open_before);
    });
}

#[test]
fn a_drop_leaves_no_task_and_no_descriptor() {
    alone(false, async {
        let (tasks_before, open_before) = (tasks(), descriptors());
        let zk = Zk::start_tcp().await;
        let (one, two) = (zk.tcp_wire().await, zk.wire().await);
        drop(zk);
        soon("tasks are left", || tasks() == tasks_before).await;
        drop((one, two));
        assert_eq!(descriptors(), open_before);
    });
}

#[test]
fn a_server_adds_no_thread_and_handles_no_signal() {
    alone(false, async {
        let before = (threads(), handled_signals());
        let zk = Zk::start_tcp().await;
        let mut wire = zk.tcp_wire().await;
        assert!(wire.is_alive().await);
        assert!(zk.word("srvr").await.contains("Mode: standalone"));
        assert_eq!((threads(), handled_signals()), before);
        zk.shutdown().await;
        assert_eq!((threads(), handled_signals()), before);
    });
}

#[test]
fn a_server_on_its_own_thread_leaves_neither_that_nor_a_descriptor() {
    alone(false, async {
        let before = (server_threads(), descriptors());
        let server = Server::builder().bind("127.0.0.1:0").on_own_thread().start().await.expect("a server");
        assert_eq!(server_threads(), before.0.map(|threads| threads + 1));
        let mut wire = Wire::over(server.in_process()().into_inner().expect("a connection"));
        wire.hello(Hello::new()).await;
        server.shutdown().await;
        drop(wire);
        assert_eq!((server_threads(), descriptors()), before);
        // Neither does one whose start is given up.
        for _ in 0..20 {
            drop(at_once(Server::builder().bind("127.0.0.1:0").on_own_thread().start()).await);
        }
        soon("a thread is left", || (server_threads(), descriptors()) == before).await;
    });
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    alone(false, async {
        let (tasks_before, open_before) = (tasks(), descriptors());
        for wrong in ["no-port", "192.0.2.1:0"] {
            assert!(Server::builder().bind("127.0.0.1:0").bind(wrong).start().await.is_err(), "{wrong}");
        }
        soon("tasks are left", || tasks() == tasks_before).await;
        assert_eq!(descriptors(), open_before);
    });
}

#[test]
fn ten_thousand_starts_and_stops_leave_descriptors_and_memory_flat() {
    alone(false, async {
        let cycle = |n: usize| async move {
            let server = Server::builder().start().await.expect("a server");
            let mut wire = Wire::over(server.in_process()().into_inner().expect("a connection"));
            wire.hello(Hello::new()).await;
            // Every other one is only dropped, and some of those stop by themselves.
            if n % 2 == 0 {
                server.shutdown().await;
            }
        };
        let tasks_before = tasks();
        for n in 0..1_000 {
            cycle(n).await;
        }
        let (open, held) = (descriptors(), resident());
        for n in 0..9_000 {
            cycle(n).await;
        }
        soon("tasks are left", || tasks() == tasks_before).await;
        assert_eq!(descriptors(), open);
        let grown = resident().zip(held).map_or(0, |(now, before)| now.saturating_sub(before));
        assert!(grown < 4 << 20, "{grown} bytes more after 9,000 cycles");
    });
}

#[test]
fn a_hundred_starts_and_stops_with_a_port_leave_descriptors_flat() {
    alone(false, async {
        let before = descriptors();
        for _ in 0..100 {
            let zk = Zk::start_tcp().await;
            zk.tcp_wire().await;
            zk.shutdown().await;
        }
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_do_not_disturb_others() {
    alone(true, async {
        const IDLE: usize = 10_000;
        let zk = Zk::start().await;
        let mut other = zk.wire().await;
        let before = resident();
        let mut idle = Vec::with_capacity(IDLE);
        for _ in 0..IDLE {
            idle.push(shake_hands(&zk).await);
        }
        let each = resident().zip(before).map_or(0, |(now, before)| now.saturating_sub(before) / IDLE);
        assert!(each < 16 << 10, "{each} bytes for each idle session");
        for _ in 0..100 {
            assert_eq!(other.ask(create("/n-").sequential()).await.error, None);
        }
        tokio::time::sleep(secs(8)).await;
        other.ask(ping()).await;
        tokio::time::sleep(secs(8)).await;
        assert!(other.is_alive().await);
        assert!(zk.word("srvr").await.contains("Connections: 2\n"), "the idle ones have expired");
    });
}

/// A peer that sends these one after the other, reads all answers, and then neither sends nor closes anything.
struct Says(VecDeque<bytes::BytesMut>);

impl AsyncRead for Says {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(first) = self.0.front_mut() else { return Poll::Pending };
        buf.put_slice(&first.split_to(buf.remaining().min(first.len())));
        if first.is_empty() {
            self.0.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Says {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn connections_that_were_busy_once_and_only_ping_keep_no_more_than_others() {
    alone(true, async {
        const IDLE: usize = 1_000;
        const SETS: usize = 4;
        let zk = Zk::start().await;
        zk.create("/long", "").await;
        let (mut other, mut scribe) = (zk.wire().await, zk.raw());
        let mut sets = 0;
        let before = resident();
        for _ in 0..IDLE {
            let mut said = bytes::BytesMut::from(&*Hello::new().bytes());
            for _ in 0..SETS {
                scribe.encode(set_data("/long", "x".repeat(10_000)), &mut said);
                scribe.encode(get_data("/long"), &mut said);
            }
            let mut one_ping = bytes::BytesMut::new();
            Request::Ping.encode_frame(Xid::PING, &mut one_ping);
            let pings = std::iter::repeat_n(one_ping, 8);
            zk.serve_stream(Says([said].into_iter().chain(pings).collect()), [127, 0, 0, 1].into());
            sets += SETS;
            while other.ask(exists("/long")).await.stat().version < sets as i32 {
                tokio::task::yield_now().await;
            }
        }
        let each = resident().zip(before).map_or(0, |(now, before)| now.saturating_sub(before) / IDLE);
        assert!(each < 16 << 10, "{each} bytes for each session");
    });
}

/// A session without what a test's client keeps for itself.
async fn shake_hands(zk: &Zk) -> zoolet::server::InProcessStream {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = zk.stream();
    stream.write_all(&Hello::new().bytes()).await.expect("a connection that takes bytes");
    stream.read_exact(&mut [0; 41]).await.expect("a welcome");
    stream
}

#[test]
fn as_many_idle_sockets_as_possible_do_not_disturb_others() {
    alone(false, async {
        // Both ends are in this process.
        let many = max_descriptors().map_or(100, |max| (max - 100).min(20_000) / 2);
        let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").listen_backlog(4096)).await;
        let mut idle = Vec::with_capacity(many);
        for _ in 0..many {
            idle.push(zk.tcp().await);
        }
        let mut other = zk.tcp_wire().await;
        for _ in 0..100 {
            assert_eq!(other.ask(create("/n-").sequential()).await.error, None);
        }
        drop(idle);
        zk.shutdown().await;
    });
}

#[test]
fn memory_stays_bounded_whatever_is_asked_and_not_read() {
    alone(true, async {
        const SLACK: usize = 100 << 20;
        let zk = Zk::with(|settings| settings.outbox_limit(8 << 20)).await;
        zk.create("/big", &"x".repeat(1_000_000)).await;
        let mut other = zk.wire().await;
        let before = resident();

        // Three gigabytes of answers asked for in a hundred kilobytes.
        let mut pipelines = zk.wire().await;
        let mut asks = bytes::BytesMut::new();
        for _ in 0..3_000 {
            pipelines.encode(get_data("/big"), &mut asks);
        }
        let _ = pipelines.try_send_bytes(&asks[..60_000]).await;
        // Thirty in one request.
        let mut reads_many = zk.wire().await;
        reads_many.send(multi_read((0..30_000).map(|_| get_data("/big")))).await;
        // Thirty lists of 40,000 entries, that are a copy each.
        let entry = |n: u32| Acl::new(Perms::ALL, "ip", std::net::Ipv4Addr::from(n).to_string());
        let acl = Acl::open().into_iter().chain((0x0a00_0000..).map(entry).take(40_000)).collect();
        assert_eq!(zk.wire().await.ask(create("/listed").acl(acl)).await.error, None);
        let mut lists = zk.wire().await;
        asks.clear();
        for _ in 0..30 {
            lists.encode(get_acl("/listed"), &mut asks);
        }
        lists.send_bytes(&asks).await;
        // Lengths of which nothing follows.
        let mut promises = Vec::new();
        for _ in 0..200 {
            let mut wire = zk.raw();
            wire.send_bytes(&1_048_575i32.to_be_bytes()).await;
            promises.push(wire);
        }
        for _ in 0..100 {
            assert!(other.is_alive().await);
        }
        reads_many.rest().await;
        let grown = most_resident().zip(before).map_or(0, |(most, before)| most.saturating_sub(before));
        assert!(grown < SLACK, "{} MiB", grown >> 20);
    });
}

#[test]
fn lying_lengths_and_counts_reserve_nothing() {
    alone(true, async {
        let zk = Zk::start().await;
        let before = resident();
        for _ in 0..1_000 {
            let mut wire = zk.wire().await;
            wire.send_raw(
                1,
                OpCode::SetWatches.code(),
                &[[0; 8].as_slice(), &i32::MAX.to_be_bytes()].concat(),
            )
            .await;
            wire.expect(reply(1).error(ErrorCode::MarshallingError)).await;
            wire.send_raw(2, OpCode::SetData.code(), &[&[0, 0, 0, 2][..], b"/a", &[0x7f; 4]].concat()).await;
            wire.expect(reply(2).error(ErrorCode::MarshallingError)).await;
            wire.close_session().await;
        }
        let grown = resident().zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        assert!(grown < 10 << 20, "{grown} bytes");
    });
}

#[test]
fn connections_that_come_and_go_leave_nothing_in_the_server() {
    alone(true, async {
        let zk = Zk::with(|settings| settings.all_four_letter_words()).await;
        let before = kept(&zk).await;
        for n in 0..2_000 {
            let mut wire = zk.wire().await;
            wire.ask(get_data("/").watch()).await;
            wire.ask(add_watch("/a/b", RECURSIVE)).await;
            wire.ask(create("/e-").ephemeral().sequential()).await;
            if n % 2 == 0 {
                wire.close_session().await;
            }
        }
        tokio::time::sleep(secs(15)).await;
        assert_eq!(kept(&zk).await, before);
    });
}

/// What a server reports that it keeps.
async fn kept(zk: &Zk) -> Vec<String> {
    let counts =
        ["znode_count", "watch_count", "ephemerals_count", "global_sessions", "num_alive_connections"];
    let metrics = zk.word("mntr").await;
    let lines = metrics.lines().filter(|line| counts.iter().any(|count| line.contains(count)));
    let kept: Vec<_> = lines.map(str::to_owned).collect();
    assert_eq!(kept.len(), counts.len(), "{metrics}");
    kept
}

#[test]
fn a_test_server_leaves_no_thread_and_no_task_also_in_a_paused_runtime() {
    for paused in [false, true] {
        alone(paused, async move {
            let before = (tasks(), threads());
            let zk = TestServer::start().await;
            let client = zk.client().await;
            soon("a stall is not looked for", || !paused || threads() > before.1).await;
            client.close().await.expect("a server that runs");
            drop(zk);
            soon("a task or a thread is left", || (tasks(), threads()) == before).await;
        });
    }
}
