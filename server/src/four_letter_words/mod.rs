//! The four-letter words: what operators send with `echo srvr | nc`.

pub(crate) mod java_format;
mod listings;

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncReadExt};
use zoolet_proto::{FourLetterWord as Word, OpCode};
use zoolet_server_core::ServerMode;

use crate::durable::DirectorySizes;
use crate::four_letter_words::java_format::{decimal, endpoint};
use crate::metrics::mntr;
use crate::net::registry::Peer;
use crate::observer::{ObservedConnection, environment};
use crate::shared::{BoxedFuture, Shared};

/// The answer of a server that has stopped.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

impl Shared {
    /// The text that answers `word`, which `asker` has sent; `rest` is what follows it. If the state machine has several
    /// replicas, it is that of the replica that serves the connection, as far as replicas differ.
    pub(crate) fn answer<'a>(
        &'a self,
        asker: &'a Peer,
        word: Word,
        rest: &'a mut (dyn AsyncRead + Unpin + Send),
    ) -> BoxedFuture<'a, String> {
        asker.state.received.fetch_add(1, Relaxed);
        asker.state.word.store(true, Relaxed);
        self.stats.received.fetch_add(1, Relaxed);
        self.stats.handled.fetch_add(1, Relaxed);
        Box::pin(async move {
            let text = self.text(word, asker.replica, rest).await.unwrap_or_else(|| NOT_SERVING.to_owned());
            // It may show what no client may know before it is durable, or ever if the log has failed.
            if word != Word::Ruok && !self.is_durable().await {
                return String::new();
            }
            self.stats.sent.fetch_add(1, Relaxed);
            text
        })
    }

    /// `None` once the server has stopped.
    async fn text(&self, word: Word, at: usize, rest: &mut (dyn AsyncRead + Unpin + Send)) -> Option<String> {
        // As with `readonlymode.enabled`: clients use it to find a server that takes writes.
        let read_only_mode = self.replicas > 1 && word == Word::Isro;
        let listed = word == Word::Srvr || self.net.words.contains(&word);
        if !listed && !read_only_mode {
            return Some(format!("{} is not executed because it is not in the whitelist.\n", word.name()));
        }
        // The memory that a long list takes while its text is made is taken once.
        let is_list =
            [Word::Stat, Word::Cons, Word::Dump, Word::Wchs, Word::Wchc, Word::Wchp].contains(&word);
        let _permit = if is_list { Some(self.listing.lock().await) } else { None };
        let text = match word {
            Word::Ruok => "imok".to_owned(),
            Word::Isro => self.isro(at),
            Word::Gtmk => self.stats.trace_mask.load(Relaxed).to_string(),
            Word::Stmk => self.set_trace_mask(rest).await,
            Word::Srvr => self.srvr(at, String::new())?,
            Word::Stat => self.srvr(at, self.clients(at).await)?,
            Word::Conf => self.conf().await?,
            Word::Cons => self.cons(at).await?,
            Word::Envi => envi(),
            Word::Mntr => self.mntr(at)?,
            Word::Dump => self.dump().await?,
            Word::Wchs => self.wchs(at).await?,
            Word::Wchc => self.wchc(at).await?,
            Word::Wchp => self.wchp(at).await?,
            Word::Dirs => {
                let dirs = self.dirs().await;
                format!("datadir_size: {}\nlogdir_size: {}\n", dirs.data_size, dirs.log_size)
            }
            Word::Crst => {
                self.reset_connections(at);
                "Connection stats reset.\n".to_owned()
            }
            Word::Srst => {
                self.reset_statistics();
                "Server stats reset.\n".to_owned()
            }
            // It lists the digests of some transactions that are past, which nobody keeps.
            Word::Hash | Word::TelnetClose => String::new(),
        };
        Some(text)
    }

    /// `stmk`, the only word with an argument: eight bytes. Answers nothing if they do not arrive.
    async fn set_trace_mask(&self, rest: &mut (dyn AsyncRead + Unpin + Send)) -> String {
        let Ok(mask) = rest.read_i64().await else { return String::new() };
        self.stats.trace_mask.store(mask, Relaxed);
        mask.to_string()
    }

    fn isro(&self, at: usize) -> String {
        let mode = self.turns.act(move |engine, _| engine.bus.machine().mode(at));
        mode.map_or("null", |mode| if mode == ServerMode::ReadOnly { "ro" } else { "rw" }).to_owned()
    }

    /// The clients of `stat`, one line each.
    async fn clients(&self, at: usize) -> String {
        let mut text = "Clients:\n".to_owned();
        for connection in self.connections(Some(at)).await.unwrap_or_default() {
            let _ = writeln!(text, "{})", brief(&connection));
        }
        text.push('\n');
        text
    }

    fn srvr(&self, at: usize, clients: String) -> Option<String> {
        let summary = self.summary(at)?;
        let read_only = summary.mode == ServerMode::ReadOnly;
        let read_only = if read_only { "READ-ONLY mode; serving only read-only clients\n" } else { "" };
        Some(format!(
            "Zookeeper version: {}\n{read_only}{clients}\
             Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
             Outstanding: {}\nZxid: {:#x}\nMode: {}\nNode count: {}\n",
            summary.version,
            summary.latency.min.trunc(),
            decimal(summary.latency.avg),
            summary.latency.max.trunc(),
            summary.received,
            summary.sent,
            summary.connections,
            summary.outstanding,
            summary.zxid.0,
            summary.mode,
            summary.znodes,
        ))
    }

    async fn conf(&self) -> Option<String> {
        let config = self.configuration().await?;
        let [port, secure] =
            [config.client_port, config.secure_client_port].map(|port| port.map_or(-1, i32::from));
        let DirectorySizes { data, log, data_size, log_size } = config.directories;
        Some(format!(
            "clientPort={port}\nsecureClientPort={secure}\ndataDir={data}\ndataDirSize={data_size}\n\
             dataLogDir={log}\ndataLogSize={log_size}\ntickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\nmaxSessionTimeout={}\n\
             clientPortListenBacklog={}\nserverId=0\n",
            config.tick_time,
            config.max_connections_per_ip,
            config.min_session_timeout,
            config.max_session_timeout,
            config.listen_backlog,
        ))
    }

    async fn cons(&self, at: usize) -> Option<String> {
        let mut text = String::new();
        for connection in self.connections(Some(at)).await? {
            text.push_str(&brief(&connection));
            text.push_str(&in_session(&connection));
            text.push_str(")\n");
        }
        text.push('\n');
        Some(text)
    }

    fn mntr(&self, at: usize) -> Option<String> {
        let summary = self.summary(at)?;
        let rest = mntr(&self.metrics(at));
        Some(format!("zk_version\t{}\nzk_server_state\t{}\n{rest}", summary.version, summary.mode))
    }
}

/// What `stat` and `cons` both print of a connection, without the closing bracket.
fn brief(connection: &ObservedConnection) -> String {
    let ObservedConnection { addr, is_read, outstanding, received, sent, .. } = connection;
    let reading = u8::from(*is_read);
    format!(" {}[{reading}](queued={outstanding},recved={received},sent={sent}", endpoint(*addr))
}

/// What `cons` prints besides of a connection with a session.
fn in_session(connection: &ObservedConnection) -> String {
    let Some((id, timeout)) = connection.session else { return String::new() };
    let mut text = format!(
        ",sid={id},lop={},est={},to={timeout}",
        connection.last_op.map_or("NA", OpCode::short_name),
        connection.established.0,
    );
    if let Some(xid) = connection.last_xid {
        let _ = write!(text, ",lcxid={:#x}", xid.0);
    }
    let latency = connection.latency;
    let _ = write!(
        text,
        ",lzxid={:#x},lresp={},llat={},minlat={},avglat={},maxlat={}",
        connection.last_zxid.map_or(-1, |zxid| zxid.0),
        connection.last_response.map_or(0, |at| at.0),
        connection.last_latency,
        latency.min.trunc(),
        latency.avg.trunc(),
        latency.max.trunc(),
    );
    text
}

/// The environment, one line for each key.
fn envi() -> String {
    let lines = environment::variables().into_iter().map(|(name, value)| format!("{name}={value}\n"));
    format!("Environment:\n{}", lines.collect::<String>())
}
