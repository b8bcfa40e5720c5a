//! The four-letter words over TCP, byte for byte: their shapes are what monitoring parses.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_proto::records::{AddWatch, ConnectRequest, Create, Delete, Exists, GetChildren, RemoveWatches};
use zoolet_proto::{AclList, Request, SessionId, Xid, Zxid};
use zoolet_server::{Clock, FourLetterWord, Server, ServerBuilder};

async fn start(settings: ServerBuilder) -> Server {
    zoolet_test_support::limit();
    // 2025-12-31: before 2026 zxids begin at 0.
    let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_139_200));
    let settings = settings.clock(clock).bind("127.0.0.1:0");
    zoolet_test_support::stored(settings).start().await.expect("a free port")
}

async fn open() -> Server {
    start(Server::builder().all_four_letter_words()).await
}

/// Sends bytes on a fresh connection, and returns what comes until the server closes it.
async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.addrs()[0]).await.expect("a connection");
    stream.write_all(bytes).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer and the end");
    text
}

async fn ask(server: &Server, word: &str) -> String {
    raw(server, word.as_bytes()).await
}

/// What stands behind `key` in the line that starts with it.
fn value<'t>(text: &'t str, key: &str) -> &'t str {
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key} in {text}"));
    line[key.len()..].trim_start_matches([':', '=', ' ', '\t'])
}

/// What stands before `separator` in each line.
fn keys<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    text.lines().map(|line| line.split_once(separator).map_or(line, |(key, _)| key)).collect()
}

/// A connection with a session, in raw frames.
struct Wire {
    stream: TcpStream,
    session: SessionId,
    xid: i32,
}

impl Wire {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.addrs()[0]).await.expect("a connection");
        let mut wire = Self { stream, session: SessionId(0), xid: 0 };
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: 10_000,
            session: SessionId(0),
            password: None,
            read_only: Some(false),
        };
        let mut out = BytesMut::new();
        hello.encode_frame(&mut out);
        wire.stream.write_all(&out).await.expect("sent");
        let welcome = wire.frame().await;
        wire.session = SessionId(i64::from_be_bytes(welcome[8..16].try_into().expect("eight bytes")));
        wire
    }

    /// Sends a request and waits for its reply.
    async fn ask(&mut self, request: Request) {
        self.xid += 1;
        let mut out = BytesMut::new();
        request.encode_frame(Xid(self.xid), &mut out);
        self.stream.write_all(&out).await.expect("sent");
        assert_eq!(self.frame().await[..4], self.xid.to_be_bytes());
    }

    async fn frame(&mut self) -> Vec<u8> {
        let len = self.stream.read_u32().await.expect("a frame");
        let mut frame = vec![0; len as usize];
        self.stream.read_exact(&mut frame).await.expect("a whole frame");
        frame
    }

    async fn create(&mut self, path: &str, flags: i32) {
        let acl = Some(AclList::OPEN);
        self.ask(Request::Create(Create { path: path.into(), data: None, acl, flags })).await;
    }

    fn addr(&self) -> String {
        self.stream.local_addr().expect("an address").to_string()
    }
}

#[tokio::test]
async fn only_srvr_is_answered_unless_more_is_allowed() {
    let server = start(Server::builder()).await;
    for word in FourLetterWord::ALL.iter().filter(|word| **word != FourLetterWord::Srvr) {
        let refused = format!("{} is not executed because it is not in the whitelist.\n", word.name());
        assert_eq!(raw(&server, &word.bytes()).await, refused);
    }
    assert!(ask(&server, "srvr").await.ends_with("Mode: standalone\nNode count: 5\n"));

    let server = start(Server::builder().four_letter_words([FourLetterWord::Ruok])).await;
    assert_eq!(ask(&server, "ruok").await, "imok");
    assert!(ask(&server, "srvr").await.starts_with("Zookeeper version: 3.9.5"));
    assert!(ask(&server, "stat").await.starts_with("stat is not executed"));
}

#[tokio::test]
async fn what_follows_a_word_does_not_matter_and_an_unknown_word_is_no_word() {
    let server = open().await;
    assert_eq!(ask(&server, "ruok\n").await, "imok");
    assert_eq!(ask(&server, "ruok and much more").await, "imok");
    assert_eq!(ask(&server, "what").await, "");
    assert_eq!(ask(&server, "RUOK").await, "");
    assert_eq!(raw(&server, b"\xff\xf4\xff\xfd").await, "");
}

#[tokio::test]
async fn some_answers_have_no_newline() {
    let server = open().await;
    assert_eq!(ask(&server, "isro").await, "rw");
    assert_eq!(ask(&server, "hash").await, "");
    assert_eq!(ask(&server, "crst").await, "Connection stats reset.\n");
    assert_eq!(ask(&server, "srst").await, "Server stats reset.\n");
    assert_eq!(ask(&server, "dirs").await, "datadir_size: 0\nlogdir_size: 0\n");
}

#[tokio::test]
async fn reset_statistics_begin_at_nothing() {
    let server = open().await;
    let _wire = Wire::connect(&server).await;
    let requests = |metrics: String| {
        let line = metrics.lines().find_map(|line| line.strip_prefix("zk_connection_request_count\t"));
        line.map(str::to_owned)
    };
    assert_eq!(requests(ask(&server, "mntr").await).as_deref(), Some("1"));
    ask(&server, "srst").await;
    assert_eq!(requests(ask(&server, "mntr").await).as_deref(), Some("0"));
}

/// Requests are counted on several threads while the counters are reset.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reset_under_load_leaves_no_request_outstanding() {
    let server = open().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut wire = Wire::connect(&server).await;
        clients.spawn(async move {
            for _ in 0..3_000 {
                wire.ask(Request::Exists(Exists { path: "/".into(), watch: false })).await;
            }
            wire
        });
    }
    let observer = server.observer();
    let mut wires = Vec::new();
    while wires.len() < 4 {
        let metrics = server.metrics();
        assert!(metrics.packets_received < 1 << 40 && metrics.outstanding_requests <= 4, "{metrics:?}");
        observer.reset_statistics().expect("a server that runs");
        while let Some(wire) = clients.try_join_next() {
            wires.push(wire.expect("a client"));
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(server.metrics().outstanding_requests, 0);
}

#[tokio::test]
async fn the_trace_mask_is_eight_bytes_behind_its_word() {
    let server = open().await;
    assert_eq!(ask(&server, "gtmk").await, "306");
    assert_eq!(raw(&server, b"stmk\0\0\0\0\0\0\0\x06").await, "6");
    assert_eq!(ask(&server, "gtmk").await, "6");
    assert_eq!(raw(&server, b"stmk\xff\xff\xff\xff\xff\xff\xff\xff").await, "-1");
    let mut stream = TcpStream::connect(server.addrs()[0]).await.expect("a connection");
    stream.write_all(b"stmk\0\0").await.expect("sent");
    stream.shutdown().await.expect("closed");
    assert_eq!(stream.read(&mut [0]).await.expect("the end"), 0);
    assert_eq!(ask(&server, "gtmk").await, "-1");
}

#[tokio::test]
async fn srvr_and_stat_have_the_lines_of_a_real_server_in_its_order() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    wire.create("/a", 0).await;
    let srvr = ask(&server, "srvr").await;
    let expected = [
        "Zookeeper version",
        "Latency min/avg/max",
        "Received",
        "Sent",
        "Connections",
        "Outstanding",
        "Zxid",
        "Mode",
        "Node count",
    ];
    assert_eq!(keys(&srvr, ": "), expected);
    // The handshake, the create and this word, which is not answered yet.
    assert_eq!((value(&srvr, "Received"), value(&srvr, "Sent")), ("3", "2"));
    assert_eq!(value(&srvr, "Zxid"), "0x2");
    assert_eq!(value(&srvr, "Node count"), "6");

    let stat = ask(&server, "stat").await;
    let (clients, rest) = stat.split_once("\n\n").expect("an empty line");
    let clients: Vec<_> = clients.lines().collect();
    assert!(clients[0].starts_with("Zookeeper version: "));
    assert_eq!(clients[1], "Clients:");
    assert_eq!(clients[2], format!(" /{}[1](queued=0,recved=2,sent=2)", wire.addr()));
    assert!(clients.last().is_some_and(|asking| asking.ends_with("[0](queued=0,recved=1,sent=0)")), "{stat}");
    assert_eq!(keys(rest, ": "), expected[1..]);
}

#[tokio::test]
async fn cons_tells_more_of_connections_with_a_session() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    let cons = ask(&server, "cons").await;
    assert!(cons.contains(",lop=SESS,") && cons.contains(",lcxid=0x0,lzxid=0x1,"), "{cons}");
    wire.create("/a", 0).await;
    let cons = ask(&server, "cons").await;
    assert!(cons.ends_with("[0](queued=0,recved=1,sent=0)\n\n"), "{cons}");
    let line = cons.lines().next().expect("a line");
    let start = format!(" /{}[1](queued=0,recved=2,sent=2,sid={},lop=CREA,est=", wire.addr(), wire.session);
    assert!(line.starts_with(&start), "{line}");
    for part in [",to=10000,lcxid=0x1,lzxid=0x2,lresp=", ",llat=", ",minlat=", ",avglat=", ",maxlat="] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let number = |key: &str| line.split_once(key)?.1.split(',').next()?.parse::<i64>().ok();
    assert!(number(",lresp=") >= number(",est=") && number(",est=") > Some(1_000_000_000_000), "{line}");
    wire.create("/a", 0).await;
    let refused = ask(&server, "cons").await;
    assert!(refused.contains("recved=3,sent=3,") && refused.contains(",lop=CREA,"), "{refused}");
    ask(&server, "crst").await;
    let cons = ask(&server, "cons").await;
    let line = cons.lines().next().expect("a line");
    assert!(line.contains("recved=0,sent=0,") && line.contains(",lop=NA,"), "{line}");
    assert!(line.contains(",lzxid=0xffffffffffffffff,lresp=0,") && !line.contains("lcxid"), "{line}");
}

#[tokio::test]
async fn conf_and_envi_are_lines_of_keys_and_values() {
    let server = open().await;
    let conf = ask(&server, "conf").await;
    let expected = "clientPort secureClientPort dataDir dataDirSize dataLogDir dataLogSize tickTime maxClientCnxns \
                    minSessionTimeout maxSessionTimeout clientPortListenBacklog serverId";
    assert_eq!(keys(&conf, "=").join(" "), expected);
    assert_eq!(value(&conf, "clientPort="), server.addrs()[0].port().to_string());
    assert_eq!((value(&conf, "tickTime"), value(&conf, "minSessionTimeout")), ("3000", "6000"));
    assert_eq!(value(&conf, "clientPortListenBacklog"), "1024");
    // Tools that split the lines fail on an empty value.
    assert_eq!((value(&conf, "dataDir="), value(&conf, "dataLogDir=")), ("(in memory)", "(in memory)"));
    assert!(
        conf.lines().all(|line| line.split_once('=').is_some_and(|(_, value)| !value.is_empty())),
        "{conf}"
    );

    let envi = ask(&server, "envi").await;
    let mut lines = envi.lines();
    assert_eq!(lines.next(), Some("Environment:"));
    assert!(lines.next().is_some_and(|line| line.starts_with("zookeeper.version=3.9.5-")));
    assert!(lines.all(|line| line.contains('=')));
    let expected = "Environment: zookeeper.version host.name java.version java.vendor java.home java.class.path \
                    java.library.path java.io.tmpdir java.compiler os.name os.arch os.version user.name user.home \
                    user.dir os.memory.free os.memory.max os.memory.total";
    assert_eq!(keys(&envi, "=").join(" "), expected);
}

#[tokio::test]
async fn mntr_has_what_dashboards_are_made_of() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    wire.create("/e", 1).await;
    wire.ask(Request::Exists(Exists { path: "/e".into(), watch: true })).await;
    let mntr = ask(&server, "mntr").await;
    assert!(mntr.starts_with("zk_version\t3.9.5-"), "{mntr}");
    assert_eq!(mntr.lines().nth(1), Some("zk_server_state\tstandalone"));
    assert!(mntr.lines().all(|line| line.starts_with("zk_") && line.matches('\t').count() == 1), "{mntr}");
    for (metric, expected) in [
        ("zk_outstanding_requests", "0"),
        ("zk_znode_count", "6"),
        ("zk_watch_count", "1"),
        ("zk_ephemerals_count", "1"),
        ("zk_global_sessions", "1"),
        ("zk_connection_rejected", "0"),
        ("zk_connection_request_count", "1"),
        ("zk_stale_sessions_expired", "0"),
    ] {
        assert_eq!(value(&mntr, metric), expected, "{metric}");
    }
    for metric in [
        "zk_avg_latency",
        "zk_max_latency",
        "zk_min_latency",
        "zk_packets_received",
        "zk_packets_sent",
        "zk_num_alive_connections",
        "zk_approximate_data_size",
        "zk_uptime",
    ] {
        assert!(value(&mntr, metric).parse::<f64>().is_ok(), "{metric}");
    }
}

#[tokio::test]
async fn dump_tells_what_expires_when() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    wire.create("/e", 1).await;
    let (session, addr) = (wire.session, wire.addr());
    let dump = ask(&server, "dump").await;
    let lines: Vec<_> = dump.lines().collect();
    let dated = |line: &str| {
        let (count, date) = line.split_once(" expire at ").expect("a date");
        assert!(count == "1" || count == "2", "{line}");
        assert!(date.len() == "Fri Nov 20 08:21:20 UTC 2026:".len() && date.contains(" UTC 20"), "{line}");
    };
    assert_eq!(lines[..2], ["SessionTracker dump:", "Session Sets (1)/(1):"]);
    dated(lines[2]);
    assert_eq!(lines[3], format!("\t{session}"));
    assert_eq!(lines[4..6], ["ephemeral nodes dump:", "Sessions with Ephemerals (1):"]);
    assert_eq!(lines[6..8], [format!("{session}:"), "\t/e".to_owned()]);
    assert_eq!(lines[8], "Connections dump:");
    assert!(lines[9].starts_with("Connections Sets (") && lines[9].ends_with(")/(2):"), "{dump}");
    dated(lines[10]);
    assert!(lines.contains(&format!("\tip: /{addr} sessionId: {session}").as_str()), "{dump}");
    assert!(lines.iter().any(|line| line.ends_with(" sessionId: 0x0")), "{dump}");
}

#[tokio::test]
async fn dump_shows_connections_that_are_never_closed_for_their_silence() {
    let server = start(Server::builder().all_four_letter_words().sessionless_timeout(Duration::MAX)).await;
    let wire = Wire::connect(&server).await;
    let dump = ask(&server, "dump").await;
    assert!(dump.contains(&format!("\tip: /{} sessionId: {}\n", wire.addr(), wire.session)), "{dump}");
    assert_eq!(ask(&server, "ruok").await, "imok");
}

#[tokio::test]
async fn watches_on_children_only_are_not_listed() {
    let server = open().await;
    assert_eq!(ask(&server, "wchs").await, "0 connections watching 0 paths\nTotal watches:0\n");
    assert_eq!(ask(&server, "wchc").await, "\n");
    let mut one = Wire::connect(&server).await;
    one.ask(Request::Exists(Exists { path: "/b".into(), watch: true })).await;
    one.ask(Request::GetChildren(GetChildren { path: "/".into(), watch: true })).await;
    let mut two = Wire::connect(&server).await;
    two.ask(Request::AddWatch(AddWatch { path: Some("/a".into()), mode: 0 })).await;
    two.ask(Request::AddWatch(AddWatch { path: Some("/b".into()), mode: 1 })).await;
    assert_eq!(ask(&server, "wchs").await, "2 connections watching 2 paths\nTotal watches:3\n");
    // There are four watches, and the persistent one is in both tables.
    assert_eq!(value(&ask(&server, "mntr").await, "zk_watch_count"), "5");
    let (one, two) = (one.session, two.session);
    assert_eq!(ask(&server, "wchc").await, format!("{one}\n\t/b\n{two}\n\t/a\n\t/b\n\n"));
    assert_eq!(ask(&server, "wchp").await, format!("/a\n\t{two}\n/b\n\t{one}\n\t{two}\n\n"));
}

#[tokio::test]
async fn what_is_gone_is_not_listed() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    wire.create("/e", 1).await;
    let watch = || Request::AddWatch(AddWatch { path: Some("/e".into()), mode: 0 });
    wire.ask(watch()).await;
    assert!(ask(&server, "dump").await.contains("Sessions with Ephemerals (1):"));
    wire.ask(Request::RemoveWatches(RemoveWatches { path: Some("/e".into()), kind: 3 })).await;
    wire.ask(Request::Delete(Delete { path: "/e".into(), version: -1 })).await;
    assert_eq!(ask(&server, "wchs").await, "0 connections watching 0 paths\nTotal watches:0\n");
    assert_eq!(ask(&server, "wchc").await, "\n");
    let dump = ask(&server, "dump").await;
    assert!(
        dump.contains("Session Sets (1)/(1):") && dump.contains("Sessions with Ephemerals (0):"),
        "{dump}"
    );
}

#[tokio::test]
async fn the_data_size_is_that_of_paths_and_data_in_utf_8() {
    let server = open().await;
    let mut wire = Wire::connect(&server).await;
    let size = async || {
        let mntr = ask(&server, "mntr").await;
        value(&mntr, "zk_approximate_data_size").parse::<usize>().expect("a number")
    };
    let before = size().await;
    let (path, data) = ("/\u{e9}\u{20ac}".to_owned(), Some("\u{e9}".into()));
    wire.ask(Request::Create(Create { path, data, acl: Some(AclList::OPEN), flags: 0 })).await;
    assert_eq!(size().await - before, 1 + 2 + 3 + 2);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_counts_until_its_peer_closes_too() {
    let server = open().await;
    let alive = async || {
        let mntr = ask(&server, "mntr").await;
        value(&mntr, "zk_num_alive_connections").parse::<usize>().expect("a number")
    };
    let mut wire = Wire::connect(&server).await;
    // An unknown opcode.
    wire.stream.write_all(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 3, 231]).await.expect("sent");
    let mut rest = Vec::new();
    wire.stream.read_to_end(&mut rest).await.expect("a reply and the end");
    assert_eq!(alive().await, 2, "it, and the connection of the word");
    drop(wire);
    while alive().await > 1 {}
}
