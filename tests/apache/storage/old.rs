//! Directories of Apache ZooKeeper 3.4 to 3.7, written under load and left by a kill: we read them as the server does that wrote them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{Recovered, StorageOptions, read};
use zoolet_test_support::{Dice, limit};

use super::load::Load;
use super::operations::Limits;
use super::server::{Process, Settings, Stored, Version};
use super::state::State;
use super::theirs::copy;
use super::{Tally, begin, times};

/// The last release of each, and where its class path is.
const RELEASES: [(&str, &str); 4] = [
    ("3.4.14", "ZOOLET_APACHE_34"),
    ("3.5.10", "ZOOLET_APACHE_35"),
    ("3.6.4", "ZOOLET_APACHE_36"),
    ("3.7.2", "ZOOLET_APACHE_37"),
];

/// Servers since 3.5 make this znode whenever they load a tree without it.
const CONFIG: &str = "/zookeeper/config";

/// Bytes at the beginning of a log.
const HEADER: u64 = 16;

/// How a server is set up.
#[derive(Debug, Clone, Copy)]
enum Use {
    /// To write: sessions expire, and snapshots are frequent.
    Writing,
    /// To show what it has loaded: nothing happens by itself.
    Showing,
}

/// A server in a process of its own. Dropping it kills the process.
struct OldServer {
    child: Child,
    address: SocketAddr,
}

impl OldServer {
    /// Starts one on a directory; `None` if it refuses the directory.
    async fn start(class_path: &str, dir: &Path, purpose: Use) -> Option<Self> {
        limit();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let address = port.expect("a free port");
        let (tick, snap_count) = match purpose {
            Use::Writing => (100, 200),
            Use::Showing => (1_000_000_000, 100_000),
        };
        let file = dir.join("zoo.cfg");
        let config = format!(
            "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\ntickTime={tick}\nminSessionTimeout=1\n\
             maxSessionTimeout=1000000000\nmaxClientCnxns=0\nadmin.enableServer=false\n",
            dir.display(),
            address.port()
        );
        fs::write(&file, config).expect("a file");
        let mut child = Command::new("java")
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"])
            .args([
                // Of super:secret: who dumps the tree may read all of it.
                "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
                "-Dzookeeper.extendedTypesEnabled=true",
                "-Dzookeeper.forceSync=no",
                // 3.4 needs log4j otherwise.
                "-Dzookeeper.jmx.log4j.disable=true",
                "-Dzookeeper.preAllocSize=64",
                "-Dznode.container.checkIntervalMs=1000000000",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            ])
            .arg(format!("-Dzookeeper.snapCount={snap_count}"))
            .args(["-cp", class_path, "org.apache.zookeeper.server.ZooKeeperServerMain"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("java");
        while !serves(address).await {
            if child.try_wait().expect("a process").is_some() {
                return None;
            }
            sleep(Duration::from_millis(20)).await;
        }
        Some(Self { child, address })
    }
}

impl Drop for OldServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn serves(address: SocketAddr) -> bool {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    if stream.write_all(b"srvr").await.is_ok() {
        // 3.4 may forget a connection that comes while it starts.
        let _ = timeout(Duration::from_secs(1), stream.read_to_string(&mut answer)).await;
    }
    answer.contains("Mode: standalone")
}

/// What a server of this release shows of a copy of a directory, an error if it does not answer for a znode, or `None` if it refuses
/// the directory. Which znodes are containers or have a time to live no client sees: that is taken from `ours`.
async fn shown(
    class_path: &str,
    dir: &Path,
    ours: &Recovered,
    is_3_4: bool,
) -> Option<Result<State, String>> {
    let copied = tempfile::tempdir().expect("a directory");
    copy(dir, copied.path());
    let server = OldServer::start(class_path, copied.path(), Use::Showing).await?;
    let sessions = ours.sessions.iter().map(|(id, timeout)| (id.0, *timeout)).collect();
    let mut stored = Stored { sessions, ..Stored::default() };
    let mut left = vec!["/"];
    while let Some(path) = left.pop() {
        let node = ours.tree.get(path).expect("a znode");
        if !(is_3_4 && path == CONFIG) {
            stored.owners.insert(path.to_owned(), node.owner().code());
        }
        left.extend(node.children().map(|child| &**child));
    }
    Some(State::of_server(server.address, stored).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Apache ZooKeeper: tests/apache/run storage"]
async fn a_directory_of_3_4_to_3_7_that_was_killed_is_loaded_as_that_server_loads_it() {
    let (mut dice, mut newest) = (begin(), Process::new(Version::V39));
    for (release, variable) in RELEASES {
        let class_path = std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} is not set: use tests/apache/run storage"));
        let mut tally = Tally::default();
        let mut histories = 0;
        // What is refused shows little.
        while histories < times(1) || (tally.equal == 0 && histories < 5) {
            history(release, &class_path, &mut newest, &mut dice, &mut tally).await;
            histories += 1;
        }
        println!("{release}: {tally:#?}");
        assert!(tally.equal > 0 && tally.requests > 100, "{release}: {tally:?}");
    }
}

/// Kills a server three times under load, and compares what it left, until it does not load that as it is.
async fn history(release: &str, class_path: &str, newest: &mut Process, dice: &mut Dice, tally: &mut Tally) {
    let dir = tempfile::tempdir().expect("a directory");
    let is_3_4 = release.starts_with("3.4");
    let limits = Limits { create2_in_multi: false, odd_flags: !is_3_4, only_those_of_3_4: is_3_4 };
    for life in 0..3 {
        let server = OldServer::start(class_path, dir.path(), Use::Writing).await;
        let server = server.unwrap_or_else(|| panic!("{release} does not start in life {life}"));
        let load = Load::start(&[server.address], dice, limits, 400);
        let enough = 150 + dice.below(300);
        while load.answered() < enough && !load.is_done() {
            sleep(Duration::from_millis(5)).await;
        }
        drop(server);
        tally.requests += load.finish().await;

        let name = format!("{release}, killed in life {life}");
        let mut options = StorageOptions::new(dir.path());
        // It makes none at its first start.
        options.trust_empty_snapshot = is_3_4;
        let ours = read(&RealDisk, &options);
        let ours = ours.unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let mut state = State::of_recovered(&ours);
        if is_3_4 {
            state.znodes.remove(CONFIG);
            // It counts as a child of its parent.
            let parent = state.znodes.get_mut("/zookeeper").expect("a znode");
            *parent = parent
                .replace("cversion: -2,", "cversion: -1,")
                .replace("num_children: 2,", "num_children: 1,");
        }
        tally.count(&state, &ours.report);
        let Some(theirs) = shown(class_path, dir.path(), &ours, is_3_4).await else {
            // A log without a whole header, which a kill may leave, keeps it from starting.
            let in_header = ours.report.cut.as_ref().is_some_and(|cut| cut.offset < HEADER);
            assert!(in_header, "{name}: {release} does not start\n{:#?}", ours.report);
            tally.refused_by_apache += 1;
            return;
        };
        let differences =
            theirs.map_or_else(|unanswered| vec![unanswered], |theirs| state.differences(&theirs));
        if !differences.is_empty() {
            println!("{name}: in place of what {release} shows: {differences:#?}");
            newest_agrees(&name, newest, dir.path(), &state, is_3_4).await;
            tally.equal += 1;
            // The next snapshot would have what this server has lost.
            return;
        }
        tally.equal += 1;
    }
}

/// The old releases lose access control lists that are in the log, do not answer for their znodes, or have others in their place.
/// 3.9.5 does not.
async fn newest_agrees(name: &str, newest: &mut Process, dir: &Path, ours: &State, is_3_4: bool) {
    let settings = Settings::new().with("trustEmptySnapshot", is_3_4);
    let (theirs, _) =
        super::shown(newest, dir, &settings).await.unwrap_or_else(|refused| panic!("{name}: {refused}"));
    let differences = ours.differences(&theirs);
    assert!(differences.is_empty(), "{name}: {differences:#?}");
}
