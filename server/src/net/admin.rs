//! The four-letter words: what operators ask with `echo srvr | nc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncReadExt};
use zoolet_proto::FourLetterWord as Word;
use zoolet_proto::SessionId;
use zoolet_server_core::{ConnId, Core};

use crate::engine::Engine;
use crate::machine::READ_ONLY;
use crate::net::java::{Date, Endpoint, decimal};
use crate::net::registry::Peer;
use crate::net::stats::{ConnStats, short_name};
use crate::server::Shared;

/// What the server says it is: the release whose behaviour it has, and whose work it is. In the form that clients parse.
const VERSION: &str = concat!("3.9.5-zoolet-", env!("CARGO_PKG_VERSION"), ", built on 2026-11-20 00:00 UTC");

/// What the state says of itself, taken between two inputs.
struct Facts {
    mode: &'static str,
    zxid: i64,
    znodes: usize,
    data_size: usize,
    ephemerals: usize,
    sessions: usize,
    watches: usize,
}

impl Shared {
    /// The text that answers `word`, which `asker` has sent; `behind` is what follows it. Of a simulated ensemble it is that of
    /// the endpoint that was asked, as far as endpoints differ.
    pub(crate) async fn answer(&self, asker: &Peer, word: Word, behind: impl AsyncRead + Unpin) -> String {
        asker.outbox.with_stats(ConnStats::asked_by_word);
        self.stats.received.fetch_add(1, Relaxed);
        self.stats.handled.fetch_add(1, Relaxed);
        let text = self.text(word, asker.endpoint, behind).await;
        self.stats.sent.fetch_add(1, Relaxed);
        text
    }

    async fn text(&self, word: Word, at: usize, behind: impl AsyncRead + Unpin) -> String {
        // As with `readonlymode.enabled`: clients look for a server that takes writes with it.
        let read_only_mode = self.endpoints > 1 && word == Word::Isro;
        if !self.net.words.allow(word) && !read_only_mode {
            return format!("{} is not executed because it is not in the whitelist.\n", word.name());
        }
        match word {
            Word::Ruok => "imok".to_owned(),
            Word::Isro => self.isro(at).await,
            Word::Gtmk => self.stats.trace_mask.load(Relaxed).to_string(),
            Word::Stmk => self.set_trace_mask(behind).await,
            Word::Srvr => self.srvr(at, String::new()).await,
            Word::Stat => self.srvr(at, self.clients(at)).await,
            Word::Conf => self.conf().await,
            Word::Cons => self.cons(at).await,
            Word::Envi => envi(),
            Word::Mntr => self.mntr(at).await,
            Word::Dump => self.dump().await,
            Word::Wchs => self.ask(at, wchs).await,
            Word::Wchc => self.ask(at, wchc).await,
            Word::Wchp => self.ask(at, wchp).await,
            // Nothing is on disk.
            Word::Dirs => "datadir_size: 0\nlogdir_size: 0\n".to_owned(),
            Word::Crst => {
                let peers = self.peers_at(at);
                peers.iter().for_each(|(_, peer)| peer.outbox.with_stats(|stats| stats.reset()));
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

    /// `stmk`, the one word that takes something: eight bytes. Says nothing if they do not come.
    async fn set_trace_mask(&self, mut behind: impl AsyncRead + Unpin) -> String {
        let Ok(mask) = behind.read_i64().await else { return String::new() };
        self.stats.trace_mask.store(mask, Relaxed);
        mask.to_string()
    }

    async fn ask(&self, at: usize, question: fn(&Core) -> String) -> String {
        let answer = self.inbox.act(move |engine, _| question(engine.machine.view(at))).await;
        answer.unwrap_or_else(not_serving)
    }

    async fn isro(&self, at: usize) -> String {
        let mode = self.inbox.act(move |engine, _| engine.machine.mode(at)).await;
        mode.map_or("null", |mode| if mode == READ_ONLY { "ro" } else { "rw" }).to_owned()
    }

    async fn facts(&self, at: usize) -> Option<Facts> {
        let facts = move |engine: &mut Engine, _| {
            let core = engine.machine.view(at);
            Facts {
                mode: engine.machine.mode(at),
                zxid: core.tree().last_zxid().0,
                // A real server finds the root under two names and counts both.
                znodes: core.tree().len() + 1,
                data_size: core.tree().data_size(),
                ephemerals: core.tree().ephemerals_count(),
                sessions: core.sessions().len(),
                watches: core.watches().count_by_table(),
            }
        };
        self.inbox.act(facts).await
    }

    fn peers_at(&self, endpoint: usize) -> Vec<(ConnId, Arc<Peer>)> {
        self.registry.all().into_iter().filter(|(_, peer)| peer.endpoint == endpoint).collect()
    }

    /// The clients of `stat`, a short line each.
    fn clients(&self, at: usize) -> String {
        let mut text = "Clients:\n".to_owned();
        for (_, peer) in self.peers_at(at) {
            let _ = writeln!(text, "{})", brief(&peer));
        }
        text.push('\n');
        text
    }

    async fn srvr(&self, at: usize, clients: String) -> String {
        let Some(facts) = self.facts(at).await else { return not_serving() };
        let latency = &self.stats.latency;
        let (received, sent) = self.packets();
        let read_only =
            if facts.mode == READ_ONLY { "READ-ONLY mode; serving only read-only clients\n" } else { "" };
        let mut text = format!("Zookeeper version: {VERSION}\n{read_only}{clients}");
        let _ = write!(
            text,
            "Latency min/avg/max: {}/{}/{}\nReceived: {received}\nSent: {sent}\nConnections: {}\nOutstanding: {}\n\
             Zxid: {:#x}\nMode: {}\nNode count: {}\n",
            latency.min(),
            decimal(latency.avg()),
            latency.max(),
            self.peers_at(at).len(),
            self.stats.outstanding(),
            facts.zxid,
            facts.mode,
            facts.znodes,
        );
        text
    }

    async fn conf(&self) -> String {
        let question = |core: &Core| {
            let config = core.config();
            (config.tick_time, config.min_timeout(), config.max_timeout())
        };
        let Some((tick, min, max)) = self.inbox.ask(question).await else { return not_serving() };
        let port = self.client_port.map_or(-1, i32::from);
        format!(
            "clientPort={port}\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n\
             tickTime={tick}\nmaxClientCnxns={}\nminSessionTimeout={min}\nmaxSessionTimeout={max}\n\
             clientPortListenBacklog={}\nserverId=0\n",
            self.net.max_per_ip, self.net.backlog,
        )
    }

    async fn cons(&self, at: usize) -> String {
        let peers = self.peers_at(at);
        let ids: Vec<ConnId> = peers.iter().map(|(id, _)| *id).collect();
        let question = move |engine: &mut Engine, _| -> Vec<Option<(SessionId, i32)>> {
            let core = engine.machine.view(at);
            let session = |id| core.session_of(id).and_then(|session| core.sessions().get(session));
            ids.into_iter().map(|id| session(id).map(|session| (session.id, session.timeout))).collect()
        };
        let Some(sessions) = self.inbox.act(question).await else { return not_serving() };
        let mut text = String::new();
        for ((_, peer), session) in peers.iter().zip(sessions) {
            text.push_str(&brief(peer));
            if let Some((id, timeout)) = session {
                text.push_str(&in_session(peer, id, timeout));
            }
            text.push_str(")\n");
        }
        text.push('\n');
        text
    }

    async fn mntr(&self, at: usize) -> String {
        let Some(facts) = self.facts(at).await else { return not_serving() };
        let stats = &self.stats;
        let (received, sent) = self.packets();
        let mut text = format!("zk_version\t{VERSION}\nzk_server_state\t{}\n", facts.mode);
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "zk_{name}\t{value}");
        };
        line("avg_latency", &decimal(stats.latency.avg()));
        line("max_latency", &stats.latency.max());
        line("min_latency", &stats.latency.min());
        line("packets_received", &received);
        line("packets_sent", &sent);
        line("bytes_received_count", &stats.bytes_received.load(Relaxed));
        line("num_alive_connections", &self.peers_at(at).len());
        line("connection_request_count", &stats.connects.load(Relaxed));
        line("connection_rejected", &stats.rejected.load(Relaxed));
        line("outstanding_requests", &stats.outstanding());
        line("znode_count", &facts.znodes);
        line("watch_count", &facts.watches);
        line("ephemerals_count", &facts.ephemerals);
        line("approximate_data_size", &facts.data_size);
        line("global_sessions", &facts.sessions);
        line("local_sessions", &0);
        line("stale_sessions_expired", &stats.expired.load(Relaxed));
        line("uptime", &self.uptime());
        if let Some((open, max)) = descriptors() {
            line("open_file_descriptor_count", &open);
            line("max_file_descriptor_count", &max);
        }
        text
    }

    async fn dump(&self) -> String {
        let peers = self.registry.all();
        let question = move |core: &Core| dump(core, &peers);
        self.inbox.ask(question).await.unwrap_or_else(not_serving)
    }
}

fn not_serving() -> String {
    "This ZooKeeper instance is not currently serving requests\n".to_owned()
}

/// What `stat` and `cons` both say of a connection, without the closing bracket.
fn brief(peer: &Peer) -> String {
    let stats = peer.outbox.with_stats(|stats| *stats);
    let queued = stats.received.saturating_sub(stats.handled);
    let reading = u8::from(!stats.word);
    format!(
        " {}[{reading}](queued={queued},recved={},sent={}",
        Endpoint(peer.addr),
        stats.received,
        stats.sent
    )
}

/// What `cons` says besides of a connection with a session.
fn in_session(peer: &Peer, id: SessionId, timeout: i32) -> String {
    let stats = peer.outbox.with_stats(|stats| *stats);
    let mut text = format!(
        ",sid={id},lop={},est={},to={timeout}",
        stats.last_op.map_or("NA", short_name),
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
        stats.last_latency,
        stats.min_latency,
        stats.avg_latency(),
        stats.max_latency,
    );
    text
}

fn dump(core: &Core, peers: &[(ConnId, Arc<Peer>)]) -> String {
    let mut text = "SessionTracker dump:\nSession ".to_owned();
    let sessions = core.sessions().iter().map(|session| (session.deadline.0, session.id.to_string()));
    expiring(&mut text, sessions);
    let owners = core.tree().owners();
    let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", owners.len());
    for owner in owners {
        let _ = writeln!(text, "{owner}:");
        core.tree().ephemerals(owner).for_each(|path| _ = writeln!(text, "\t{path}"));
    }
    text.push_str("Connections dump:\nConnections ");
    expiring(&mut text, peers.iter().map(|(id, peer)| expiring_connection(core, *id, peer)));
    text
}

/// Things by when they expire, as `ExpiryQueue.dump` prints them.
fn expiring(text: &mut String, things: impl Iterator<Item = (i64, String)>) {
    let mut buckets: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    things.for_each(|(deadline, thing)| buckets.entry(deadline).or_default().push(thing));
    let all: usize = buckets.values().map(Vec::len).sum();
    let _ = writeln!(text, "Sets ({})/({all}):", buckets.len());
    for (deadline, things) in buckets {
        let _ = writeln!(text, "{} expire at {}:", things.len(), Date(deadline));
        things.iter().for_each(|thing| _ = writeln!(text, "\t{thing}"));
    }
}

/// When a real server would close a connection for its silence. Here only one without a session is: the others go
/// with their sessions.
fn expiring_connection(core: &Core, id: ConnId, peer: &Peer) -> (i64, String) {
    let session = core.session_of(id).and_then(|session| core.sessions().get(session));
    let interval = core.config().sessionless_timeout.max(1);
    let timeout = session.map_or(interval, |session| session.timeout.into());
    let heard = peer.outbox.with_stats(|stats| stats.last_response).unwrap_or(peer.established);
    let deadline = heard.plus(timeout).next_multiple_of(interval).0;
    let session = session.map(|session| session.id).unwrap_or_default();
    (deadline, format!("ip: {} sessionId: {session}", Endpoint(peer.addr)))
}

fn wchs(core: &Core) -> String {
    let watches: Vec<_> = core.watches().data_watches().collect();
    let paths: BTreeSet<_> = watches.iter().map(|(path, _)| path).collect();
    let conns: BTreeSet<_> = watches.iter().map(|(_, conn)| conn).collect();
    let (paths, conns, all) = (paths.len(), conns.len(), watches.len());
    format!("{conns} connections watching {paths} paths\nTotal watches:{all}\n")
}

fn wchc(core: &Core) -> String {
    let watches = core.watches().data_watches();
    grouped(watches.map(|(path, conn)| (session_name(core, conn), path.to_owned())))
}

fn wchp(core: &Core) -> String {
    let watches = core.watches().data_watches();
    grouped(watches.map(|(path, conn)| (path.to_owned(), session_name(core, conn))))
}

fn session_name(core: &Core, conn: ConnId) -> String {
    core.session_of(conn).unwrap_or_default().to_string()
}

/// Each heading with what belongs below it, and an empty line at the end.
fn grouped(pairs: impl Iterator<Item = (String, String)>) -> String {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    pairs.for_each(|(heading, below)| _ = groups.entry(heading).or_default().insert(below));
    let mut text = String::new();
    for (heading, below) in groups {
        let _ = writeln!(text, "{heading}");
        below.iter().for_each(|line| _ = writeln!(text, "\t{line}"));
    }
    text.push('\n');
    text
}

/// The environment, under the names that it has in Java as far as there is such a thing here.
fn envi() -> String {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let kernel = |name: &str| {
        let told = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        told.map(|text| text.trim().to_owned()).unwrap_or_default()
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
    let directory = std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    format!(
        "Environment:\nzookeeper.version={VERSION}\nhost.name={host}\nos.name={os}\nos.arch={arch}\nos.version={}\n\
         user.name={}\nuser.home={}\nuser.dir={directory}\n",
        kernel("osrelease"),
        var("USER"),
        var("HOME"),
    )
}

/// How many descriptors this process has open, and how many it may have; where the system tells.
fn descriptors() -> Option<(usize, u64)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let max = line.split_whitespace().nth(3)?.parse().ok()?;
    Some((open, max))
}
