//! `kill -9` of a server under the load of foreign clients: what it has acknowledged is there when it is started again.
//!
//! `tests/process/kill` runs this on `zoolet serve --data-dir` and `tests/process/kill --server apache` on Apache ZooKeeper, which
//! shows that the rules are right. With `--server memory` the server keeps nothing, and the test must fail.
//!
//! The kills come in campaigns, each with a new data directory. In a campaign clients in other languages stay connected through
//! proxies that record every message, while the server is killed at random: under load, or while it starts. All lives of the server
//! make one history. The [checker](zoolet::testing::Checker) judges it by the transactions in the log files:
//!
//! - every acknowledged write is there, under the zxid of its reply, and every read shows the state of its zxid;
//! - a write without a reply is there as a whole or not at all;
//! - no zxid is used twice or left out, and no client ever sees a lower one than any client before;
//! - sessions go on with their ephemerals; none is refused that its client did not close.
//!
//! A campaign ends with a clean stop, a start, and a client that reads the whole tree.

mod clients;
mod judge;
mod log_files;
mod proxy;
mod server;

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::sleep;
use zoolet::testing::History;
use zoolet::{Client, ErrorCode};
use zoolet_test_support::Dice;

use clients::ForeignClient;
use judge::Tally;
use log_files::KeptLogs;
use proxy::{Proxy, Upstream};
use server::{Server, Setup};

/// How many kills in all.
const TIMES: &str = "ZOOLET_KILL_TIMES";
/// Kills of one campaign.
const EACH: usize = 20;
/// How long a client may take until the server answers it again.
const LIMIT: Duration = Duration::from_secs(15);

#[test]
#[ignore = "needs clients in other languages: tests/process/kill"]
fn what_was_acknowledged_survives_kills_of_the_server() {
    let number =
        |variable: &str, default| env::var(variable).map_or(default, |text| text.parse().expect("a number"));
    let (mut left, mut seed) = (number(TIMES, EACH), number("ZOOLET_SEED", 1));
    let mut total = Tally::default();
    while left > 0 {
        let kills = left.min(EACH);
        zoolet_test_support::limit();
        let dir = directory(seed);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let judged = runtime.block_on(Campaign::run(seed, kills, &dir));
        let tally = judged.unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\nthe files are in {}", dir.display());
        });
        report(seed, kills, &tally);
        std::fs::remove_dir_all(&dir).expect("a directory that can be removed");
        total.add(&tally);
        (left, seed) = (left - kills, seed + 1);
    }
    total.assert_is_enough();
}

/// An empty directory, on the disk of the target folder. It stays if the campaign fails.
fn directory(seed: usize) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{seed}"));
    drop(std::fs::remove_dir_all(&dir));
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

#[allow(clippy::print_stderr, reason = "a run takes minutes")]
fn report(seed: usize, kills: usize, tally: &Tally) {
    let Tally { writes, reads, events, unanswered, resumed } = tally;
    eprintln!(
        "seed {seed}: {kills} kills, {writes} writes, {reads} reads, {events} events, {unanswered} requests lost, \
         {resumed} sessions resumed"
    );
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.events += other.events;
        self.unanswered += other.unanswered;
        self.resumed += other.resumed;
    }

    /// Fails if the clients did too little for the rules to mean anything.
    fn assert_is_enough(&self) {
        let Self { writes, reads, events, unanswered, resumed } = self;
        let enough = *writes > 1_000 && *reads > 100 && *events > 10 && *unanswered > 0 && *resumed > 4;
        assert!(
            enough,
            "{writes} writes, {reads} reads, {events} events, {unanswered} lost, {resumed} resumed"
        );
    }
}

/// Some kills of a server on one data directory.
struct Campaign {
    dice: Dice,
    setup: Setup,
    logs: KeptLogs,
    history: History,
    upstream: Upstream,
    clients: Vec<ForeignClient>,
}

impl Campaign {
    async fn run(seed: usize, kills: usize, dir: &Path) -> Result<Tally, String> {
        let mut dice = Dice::new(seed as u64);
        let setup = Setup::new(dir, &settings(&mut dice));
        let logs = KeptLogs::new(&setup.data, dir.join("kept")).map_err(|error| error.to_string())?;
        let (history, upstream, clients) = (History::new(), Upstream::default(), Vec::new());
        let mut campaign = Self { dice, setup, logs, history, upstream, clients };
        match campaign.kill_again_and_again(kills, dir).await {
            Ok(server) => campaign.end(server).await,
            Err(why) => Err(campaign.explain(why)),
        }
    }

    async fn kill_again_and_again(&mut self, kills: usize, dir: &Path) -> Result<Server, String> {
        let mut server = self.start().await?;
        self.start_clients(dir).await?;
        for kill in 1..=kills {
            let context = |why| format!("kill {kill}: {why}");
            self.live_for_a_while(&server).await.map_err(context)?;
            self.kill(server)?;
            server = self.restart().await.map_err(context)?;
        }
        self.all_work(&server).await?;
        Ok(server)
    }

    /// Adds what is wrong with the history so far. A server that has lost transactions is often noticed first by clients that it does
    /// not serve, as they have seen a higher zxid.
    fn explain(&self, why: String) -> String {
        let kept = self.logs.keep().map_err(|error| error.to_string());
        let judged = kept.and_then(|()| judge::judge(&self.history.entries(), &self.logs.transactions()?));
        match judged {
            Ok(_) => format!("{why}\nup to then no rule was broken"),
            Err(broken) => format!("{why}\nup to then: {broken}"),
        }
    }

    /// Starts the server and waits until it is ready.
    async fn start(&mut self) -> Result<Server, String> {
        self.clients.iter_mut().for_each(ForeignClient::mark);
        let server = self.setup.start();
        // Clients are not served meanwhile. They wait, as the server does not accept connections.
        let server = tokio::task::spawn_blocking(move || server.address().map(|address| (server, address)));
        let (server, address) = server.await.map_err(|error| error.to_string())??;
        self.upstream.set(Some(address));
        Ok(server)
    }

    async fn start_clients(&mut self, dir: &Path) -> Result<(), String> {
        for (name, command) in clients::commands() {
            let proxy = Proxy::start(self.upstream.clone(), self.history.clone()).await;
            let proxy = proxy.map_err(|error| error.to_string())?;
            let seed = self.dice.below(1 << 30);
            self.clients.push(ForeignClient::start(name, &command, proxy, seed, dir));
        }
        Ok(())
    }

    /// Starts the server after a kill. Now and then it is killed while it starts.
    async fn restart(&mut self) -> Result<Server, String> {
        while self.dice.chance(15) {
            let server = self.setup.start();
            sleep(Duration::from_millis(self.dice.below(60) as u64)).await;
            self.kill(server)?;
        }
        self.start().await
    }

    /// Waits until every client is served, and for a random time more.
    async fn live_for_a_while(&mut self, server: &Server) -> Result<(), String> {
        self.all_work(server).await?;
        sleep(Duration::from_millis(self.dice.below(600) as u64)).await;
        if server.has_ended() {
            return Err(format!("the server has ended by itself; its log:\n{}", server.log_text()));
        }
        Ok(())
    }

    async fn all_work(&self, server: &Server) -> Result<(), String> {
        let began = Instant::now();
        while let Some(idle) = self.clients.iter().find(|client| !client.works()) {
            if began.elapsed() > LIMIT {
                return Err(format!(
                    "{} is not served; it printed:\n{}\nthe log of the server:\n{}",
                    idle.name,
                    idle.log_tail(),
                    server.log_text()
                ));
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    fn kill(&self, server: Server) -> Result<(), String> {
        self.upstream.set(None);
        server.kill();
        self.logs.keep().map_err(|error| format!("the log files: {error}"))
    }

    /// Stops everything, looks at what is left, and judges.
    async fn end(mut self, server: Server) -> Result<Tally, String> {
        self.clients.drain(..).for_each(ForeignClient::kill);
        self.upstream.set(None);
        server.stop()?;
        self.logs.keep().map_err(|error| format!("the log files: {error}"))?;
        let server = self.setup.start();
        let address = server.address()?;
        let connect = self.history.tap(move || TcpStream::connect(address));
        let zk = Client::connect(connect).await.map_err(|error| error.to_string())?;
        read_all(zk).await.map_err(|error| format!("reading the tree: {error}"))?;
        server.stop()?;
        self.logs.keep().map_err(|error| format!("the log files: {error}"))?;
        self.setup.verify()?;
        judge::judge(&self.history.entries(), &self.logs.transactions()?)
    }
}

/// The settings of a campaign: small files and frequent snapshots, so that kills meet them.
fn settings(dice: &mut Dice) -> Vec<(&'static str, String)> {
    // In KiB, how a log file grows and when it is followed by another one.
    let (pre_alloc, log_limit) = dice.of(&[(64, -1), (1_024, -1), (64, 128)]);
    vec![
        ("tickTime", "1000".to_owned()),
        ("maxSessionTimeout", "60000".to_owned()),
        ("maxClientCnxns", "0".to_owned()),
        ("extendedTypesEnabled", "true".to_owned()),
        ("snapCount", dice.of(&[100, 500, 3_000]).to_string()),
        ("preAllocSize", pre_alloc.to_string()),
        ("txnLogSizeLimitInKb", log_limit.to_string()),
        ("snapshot.compression.method", dice.of(&["", "", "gz", "snappy"]).to_owned()),
        ("forceSync", dice.of(&["yes", "yes", "yes", "no"]).to_owned()),
        // Log files are kept by links at each kill; those of one life must not be purged before.
        ("autopurge.snapRetainCount", "100".to_owned()),
        ("autopurge.purgeInterval", "1".to_owned()),
    ]
}

/// Reads the whole tree. The history has what it reads, and the checker compares each listing and each znode.
async fn read_all(zk: Client) -> Result<(), zoolet::Error> {
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        match read_one(&zk, &path).await {
            Ok(children) => below.extend(children),
            // The server may delete a container or TTL znode that was listed.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    zk.close().await
}

/// Reads a znode and returns the paths of its children.
async fn read_one(zk: &Client, path: &str) -> Result<Vec<String>, zoolet::Error> {
    zk.get_data(path).await?;
    zk.get_acl(path).await?;
    let (names, _) = zk.get_children(path).await?;
    let above = if path == "/" { "" } else { path };
    Ok(names.iter().map(|name| format!("{above}/{name}")).collect())
}
