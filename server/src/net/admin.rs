//! The four-letter words: what operators send with `echo srvr | nc`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncReadExt};
use zoolet_proto::{FourLetterWord as Word, OpCode, SessionId};
use zoolet_server_core::{ConnId, Core, ServerMode};

use crate::durable::DirectorySizes;
use crate::engine::Engine;
use crate::net::flow::limits::LISTED;
use crate::net::java_format::{BuildDate, Endpoint, decimal};
use crate::net::registry::Peer;
use crate::net::stats::{ConnStats, whole_millis};
use crate::shared::Shared;

/// The release whose behaviour the server has, its own, and when it was built, in the form that clients parse. The date is that
/// of `SOURCE_DATE_EPOCH` at the time of the build, or the epoch itself: the same source gives the same binary.
fn version() -> String {
    let built = option_env!("SOURCE_DATE_EPOCH").and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    format!("3.9.5-zoolet-{}, built on {}", env!("CARGO_PKG_VERSION"), BuildDate(built))
}

/// The directories of a server without any, in `conf`.
const IN_MEMORY: &str = "(in memory)";

/// What is printed of the state, read between two inputs.
struct ServerSummary {
    mode: ServerMode,
    zxid: i64,
    znodes: usize,
    data_size: usize,
    ephemerals: usize,
    sessions: usize,
    watches: usize,
}

/// What is shown of a connection: itself, what was counted, and its session with that session's timeout.
type ListedConnection = (Arc<Peer>, ConnStats, Option<(SessionId, i32)>);

impl Shared {
    /// The text that answers `word`, which `asker` has sent; `rest` is what follows it. If the state machine has several
    /// replicas, it is that of the replica that serves the connection, as far as replicas differ.
    pub(crate) async fn answer(&self, asker: &Peer, word: Word, rest: impl AsyncRead + Unpin) -> String {
        asker.received.fetch_add(1, Relaxed);
        asker.word.store(true, Relaxed);
        self.stats.received.fetch_add(1, Relaxed);
        self.stats.handled.fetch_add(1, Relaxed);
        let text = self.text(word, asker.replica, rest).await;
        if let (Some(log), false) = (&self.log, word == Word::Ruok) {
            // It may show what no client may know before it is durable, or ever if the log has failed.
            if !log.queue.all_durable().await {
                return String::new();
            }
        }
        self.stats.sent.fetch_add(1, Relaxed);
        text
    }

    async fn text(&self, word: Word, at: usize, rest: impl AsyncRead + Unpin) -> String {
        // As with `readonlymode.enabled`: clients use it to find a server that takes writes.
        let read_only_mode = self.replicas > 1 && word == Word::Isro;
        let listed = word == Word::Srvr || self.net.words.contains(&word);
        if !listed && !read_only_mode {
            return format!("{} is not executed because it is not in the whitelist.\n", word.name());
        }
        // The memory that a long list takes while its text is made is taken once.
        let is_list =
            [Word::Stat, Word::Cons, Word::Dump, Word::Wchs, Word::Wchc, Word::Wchp].contains(&word);
        let _turn = if is_list { Some(self.listing.lock().await) } else { None };
        match word {
            Word::Ruok => "imok".to_owned(),
            Word::Isro => self.isro(at),
            Word::Gtmk => self.stats.trace_mask.load(Relaxed).to_string(),
            Word::Stmk => self.set_trace_mask(rest).await,
            Word::Srvr => self.srvr(at, String::new()),
            Word::Stat => self.srvr(at, self.clients(at).await),
            Word::Conf => self.conf().await,
            Word::Cons => self.cons(at).await,
            Word::Envi => envi(),
            Word::Mntr => self.mntr(at),
            Word::Dump => self.dump().await.unwrap_or_else(not_serving),
            Word::Wchs => self.wchs(at).await.unwrap_or_else(not_serving),
            Word::Wchc => self.wchc(at).await.unwrap_or_else(not_serving),
            Word::Wchp => self.wchp(at).await.unwrap_or_else(not_serving),
            Word::Dirs => {
                let dirs = self.dirs().await;
                format!("datadir_size: {}\nlogdir_size: {}\n", dirs.data_size, dirs.log_size)
            }
            Word::Crst => {
                let ids: Vec<ConnId> = self.peers_at(at).iter().map(|(id, _)| *id).collect();
                self.turns.act(|engine, _| ids.into_iter().for_each(|id| engine.bus.reset_stats(id)));
                "Connection stats reset.\n".to_owned()
            }
            Word::Srst => {
                self.stats.reset();
                "Server stats reset.\n".to_owned()
            }
            // No digest of the tree is kept.
            Word::Hash | Word::TelnetClose => String::new(),
        }
    }

    /// `stmk`, the only word with an argument: eight bytes. Answers nothing if they do not arrive.
    async fn set_trace_mask(&self, mut rest: impl AsyncRead + Unpin) -> String {
        let Ok(mask) = rest.read_i64().await else { return String::new() };
        self.stats.trace_mask.store(mask, Relaxed);
        mask.to_string()
    }

    fn isro(&self, at: usize) -> String {
        let mode = self.turns.act(move |engine, _| engine.bus.machine().mode(at));
        mode.map_or("null", |mode| if mode == ServerMode::ReadOnly { "ro" } else { "rw" }).to_owned()
    }

    fn summary(&self, at: usize) -> Option<ServerSummary> {
        let summary = move |engine: &mut Engine, _| {
            let machine = engine.bus.machine();
            let core = machine.replica(at);
            ServerSummary {
                mode: machine.mode(at),
                zxid: core.tree().last_zxid().0,
                // A real server has the root under two names and counts both.
                znodes: core.tree().len() + 1,
                data_size: core.tree().data_size(),
                ephemerals: core.tree().ephemerals_count(),
                sessions: core.sessions().len(),
                watches: core.watches().count_by_table(),
            }
        };
        self.turns.act(summary)
    }

    fn peers_at(&self, replica: usize) -> Vec<(ConnId, Arc<Peer>)> {
        self.registry.all().into_iter().filter(|(_, peer)| peer.replica == replica).collect()
    }

    /// The clients of `stat`, one line each.
    async fn clients(&self, at: usize) -> String {
        let mut text = "Clients:\n".to_owned();
        for (peer, stats, _) in self.connections(at).await.unwrap_or_default() {
            let _ = writeln!(text, "{})", brief(&peer, &stats));
        }
        text.push('\n');
        text
    }

    fn srvr(&self, at: usize, clients: String) -> String {
        let Some(summary) = self.summary(at) else { return not_serving() };
        let latency = self.stats.latency();
        let (received, sent) = self.packets();
        let read_only = summary.mode == ServerMode::ReadOnly;
        let read_only = if read_only { "READ-ONLY mode; serving only read-only clients\n" } else { "" };
        let mut text = format!("Zookeeper version: {}\n{read_only}{clients}", version());
        let _ = write!(
            text,
            "Latency min/avg/max: {}/{}/{}\nReceived: {received}\nSent: {sent}\nConnections: {}\nOutstanding: {}\n\
             Zxid: {:#x}\nMode: {}\nNode count: {}\n",
            whole_millis(latency.min),
            decimal(latency.avg_millis()),
            whole_millis(latency.max),
            self.peers_at(at).len(),
            self.stats.outstanding(),
            summary.zxid,
            summary.mode,
            summary.znodes,
        );
        text
    }

    async fn conf(&self) -> String {
        let question = |core: &Core| {
            let config = core.config();
            (config.tick_time, config.min_timeout(), config.max_timeout())
        };
        let Some((tick, min, max)) = self.turns.read(question) else { return not_serving() };
        let port = self.client_port.map_or(-1, i32::from);
        let DirectorySizes { data, log, data_size, log_size } = self.dirs().await;
        format!(
            "clientPort={port}\nsecureClientPort=-1\ndataDir={data}\ndataDirSize={data_size}\n\
             dataLogDir={log}\ndataLogSize={log_size}\ntickTime={tick}\nmaxClientCnxns={}\nminSessionTimeout={min}\nmaxSessionTimeout={max}\n\
             clientPortListenBacklog={}\nserverId=0\n",
            self.net.max_per_ip, self.net.backlog,
        )
    }

    /// What the data directory takes. A server in memory has none, and says so: tools that split the lines of `conf` fail on an empty
    /// value.
    async fn dirs(&self) -> DirectorySizes {
        match &self.log {
            Some(log) => log.dirs().await,
            None => DirectorySizes {
                data: IN_MEMORY.to_owned(),
                log: IN_MEMORY.to_owned(),
                ..DirectorySizes::default()
            },
        }
    }

    /// Every connection of a replica, with its counters, its session and that session's timeout.
    async fn connections(&self, at: usize) -> Option<Vec<ListedConnection>> {
        let mut peers = self.peers_at(at).into_iter();
        let mut connections = Vec::with_capacity(peers.len());
        while peers.len() > 0 {
            let slice: Vec<_> = peers.by_ref().take(LISTED).collect();
            let question = move |engine: &mut Engine, _| -> Vec<_> {
                let core = engine.bus.machine().replica(at);
                let session = |id| core.session_of(id).and_then(|session| core.sessions().get(session));
                let connection = |(id, peer)| {
                    let session = session(id).map(|session| (session.id, session.timeout));
                    (peer, engine.bus.conn_stats(id), session)
                };
                slice.into_iter().map(connection).collect()
            };
            connections.extend(self.act_later(question).await?);
        }
        Some(connections)
    }

    async fn cons(&self, at: usize) -> String {
        let Some(connections) = self.connections(at).await else { return not_serving() };
        let mut text = String::new();
        for (peer, stats, session) in connections {
            text.push_str(&brief(&peer, &stats));
            if let Some((id, timeout)) = session {
                text.push_str(&in_session(&peer, &stats, id, timeout));
            }
            text.push_str(")\n");
        }
        text.push('\n');
        text
    }

    fn mntr(&self, at: usize) -> String {
        let Some(summary) = self.summary(at) else { return not_serving() };
        let (stats, latency) = (&self.stats, self.stats.latency());
        let (received, sent) = self.packets();
        let mut text = format!("zk_version\t{}\nzk_server_state\t{}\n", version(), summary.mode);
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "zk_{name}\t{value}");
        };
        line("avg_latency", &decimal(latency.avg_millis()));
        line("max_latency", &whole_millis(latency.max));
        line("min_latency", &whole_millis(latency.min));
        line("packets_received", &received);
        line("packets_sent", &sent);
        line("bytes_received_count", &stats.bytes_received.load(Relaxed));
        line("num_alive_connections", &self.peers_at(at).len());
        line("connection_request_count", &stats.connects.load(Relaxed));
        line("connection_rejected", &stats.rejected.load(Relaxed));
        line("outstanding_requests", &stats.outstanding());
        line("znode_count", &summary.znodes);
        line("watch_count", &summary.watches);
        line("ephemerals_count", &summary.ephemerals);
        line("approximate_data_size", &summary.data_size);
        line("global_sessions", &summary.sessions);
        line("local_sessions", &0);
        line("stale_sessions_expired", &stats.expired.load(Relaxed));
        line("uptime", &(self.now().0 - stats.started.0));
        if let Some((open, max)) = descriptors() {
            line("open_file_descriptor_count", &open);
            line("max_file_descriptor_count", &max);
        }
        text
    }
}

fn not_serving() -> String {
    "This ZooKeeper instance is not currently serving requests\n".to_owned()
}

/// What `stat` and `cons` both print of a connection, without the closing bracket.
fn brief(peer: &Peer, stats: &ConnStats) -> String {
    let (received, word) = (peer.received.load(Relaxed), peer.word.load(Relaxed));
    let queued = received.saturating_sub(stats.handled() + u64::from(word));
    let reading = u8::from(!word);
    format!(" {}[{reading}](queued={queued},recved={received},sent={}", Endpoint(peer.addr), stats.sent)
}

/// What `cons` prints besides of a connection with a session.
fn in_session(peer: &Peer, stats: &ConnStats, id: SessionId, timeout: i32) -> String {
    let mut text = format!(
        ",sid={id},lop={},est={},to={timeout}",
        stats.last_op.and_then(OpCode::from_code).map_or("NA", OpCode::short_name),
        peer.established.0,
    );
    if let Some(xid) = stats.last_xid {
        let _ = write!(text, ",lcxid={:#x}", xid.0);
    }
    let _ = write!(
        text,
        ",lzxid={:#x},lresp={},llat={},minlat={},avglat={},maxlat={}",
        stats.last_zxid.map_or(-1, |zxid| zxid.0),
        stats.last_response.map_or(0, |at| at.0),
        whole_millis(stats.last_latency),
        whole_millis(stats.latency.min),
        whole_millis(stats.latency.avg()),
        whole_millis(stats.latency.max),
    );
    text
}

/// The environment, with the lines of a real server: clients look for them. There is no Java, and they say so.
fn envi() -> String {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let kernel = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let host = Some(kernel("hostname")).filter(|name| !name.is_empty()).unwrap_or_else(|| var("HOSTNAME"));
    let os = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        other => other,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        other => other,
    };
    let total = memory("MemTotal");
    let directory = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    format!(
        "Environment:\nzookeeper.version={}\nhost.name={host}\njava.version=none\njava.vendor=zoolet\njava.home=\n\
         java.class.path=\njava.library.path=\njava.io.tmpdir={}\njava.compiler=<NA>\n\
         os.name={os}\nos.arch={arch}\nos.version={}\nuser.name={}\nuser.home={}\nuser.dir={directory}\n\
         os.memory.free={}MB\nos.memory.max={total}MB\nos.memory.total={total}MB\n",
        version(),
        std::env::temp_dir().display(),
        kernel("osrelease"),
        var("USER"),
        var("HOME"),
        memory("MemAvailable"),
    )
}

/// A figure of the machine's memory in megabytes; 0 if the system does not report it.
fn memory(name: &str) -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return 0 };
    let line = text.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}

/// How many descriptors this process has open, and how many it may have, if the system reports that.
fn descriptors() -> Option<(usize, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let max = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((open, max))
}
