//! The moves of `docs/graduate.md`, command by command: from an embedded server to three Apache ZooKeepers and back, while
//! clients stay connected.
//!
//! `tests/apache/run graduate` fetches Apache ZooKeeper and runs this. The hosts of the page are folders, and addresses of the
//! loopback interface: 127.0.0.0/8, which Linux has.

#![allow(clippy::print_stdout, reason = "reports the seed")]

mod counter;
mod document;
mod hosts;
mod scene;

use std::time::Duration;

use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use zoolet::{Client, Server, Stat};

use crate::ensemble::begin;
use document::{Step, sections};
use hosts::{HOSTS, Hosts};
use scene::Scene;

/// The headings of the page, in the order of its moves.
const PREPARE: &str = "Before the first move";
const OUT: &str = "To the ensemble";
const BACK: &str = "Back to the embedded server";

/// Follows the page.
struct Mover {
    hosts: Hosts,
    server: Option<Server>,
}

impl Mover {
    async fn new(rng: &mut StdRng) -> Self {
        let hosts = Hosts::new(rng);
        let mut mover = Self { hosts, server: None };
        mover.execute(START).await;
        mover
    }

    /// All servers that clients may ever find.
    fn connect_string(&self) -> String {
        format!("{}:2181,{}", self.hosts.here, self.hosts.addresses().join(","))
    }

    /// Does what stands below a heading.
    async fn follow(&mut self, heading: &str) {
        let sections = sections();
        let (_, steps) =
            sections.iter().find(|(found, _)| found == heading).unwrap_or_else(|| panic!("no {heading}"));
        assert!(!steps.is_empty(), "{heading}");
        for step in steps {
            match step {
                Step::Settings(text) => {
                    std::fs::write(self.hosts.here().join("zoo.cfg"), text).expect("a file")
                }
                Step::Shell(commands) => print!("{}", self.hosts.run(commands)),
                Step::Program(line) => self.execute(line).await,
            }
        }
    }

    async fn execute(&mut self, line: &str) {
        println!("{}", line.trim());
        match line.trim() {
            "server.shutdown().await;" => {
                let server = self.server.take().expect("a server that runs");
                timeout(LIMIT, server.shutdown()).await.expect("the server stops")
            }
            START => {
                let (app, dir) = (format!("{}:2181", self.hosts.here), self.hosts.here().join("coordinator"));
                let server = Server::builder().bind(app).extended_types(true).data_dir(dir).start().await;
                self.server = Some(server.expect("a server"));
            }
            other => panic!("nobody executes {other}"),
        }
    }

    /// A host with the data joins an ensemble of the others.
    async fn join_with_data(&self, host: &str) {
        self.hosts.run(&[copy_to(host), start(host)].join("\n"));
        self.wait_until("the member serves", || self.hosts.mode(host).is_some()).await;
    }

    async fn wait_for_leader(&self) {
        let leads = |host: &str| self.hosts.mode(host).as_deref() == Some("leader");
        self.wait_until("somebody leads", || HOSTS.iter().any(|host| leads(host))).await;
    }

    async fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds() {
            assert!(Instant::now() < end, "not so after {LIMIT:?}: {what}\n{}", self.hosts.logs());
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// No step takes so long, whatever else the machine does.
const LIMIT: Duration = Duration::from_secs(60);

/// Longer than an election takes.
const ELECTION: Duration = Duration::from_secs(4);

/// The line that starts the embedded server.
const START: &str = r#"let server = Server::builder().bind("app:2181").extended_types(true).data_dir("coordinator").start().await?;"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Apache ZooKeeper: tests/apache/run graduate"]
async fn an_embedded_server_becomes_an_ensemble_and_one_again_and_no_client_loses_anything() {
    let mut mover = Mover::new(&mut begin()).await;
    let mut scene = Scene::begin(&mover.connect_string()).await;
    mover.follow(PREPARE).await;
    for _ in 0..2 {
        let before = scene.shown().await;
        mover.follow(OUT).await;
        mover.wait_for_leader().await;
        scene.check(&before).await;
        scene.pass_on().await;

        let before = scene.shown().await;
        mover.follow(BACK).await;
        scene.check(&before).await;
        scene.pass_on().await;
    }
    scene.end().await;
}

/// What the page does with all hosts, and the tests below with one.
fn copy_to(host: &str) -> String {
    format!("scp -r coordinator/version-2 {host}:zookeeper/data/version-2")
}

fn start(host: &str) -> String {
    format!("ssh {host} 'zookeeper/bin/zkServer.sh start'")
}

fn stop(host: &str) -> String {
    format!("ssh {host} 'zookeeper/bin/zkServer.sh stop'")
}

/// Writes something through the embedded server.
async fn write_app(mover: &Mover) {
    let writing = async {
        let client = Client::connect(mover.connect_string()).await.expect("a session");
        client.create("/app", "data").await.expect("a znode");
        client.close().await.expect("a session");
    };
    timeout(LIMIT, writing).await.expect("the embedded server answers");
}

/// An embedded server has written `/app`, and was stopped; the hosts are prepared and empty.
async fn written_and_stopped() -> Mover {
    let mut mover = Mover::new(&mut begin()).await;
    write_app(&mover).await;
    mover.follow(PREPARE).await;
    mover.execute("server.shutdown().await;").await;
    mover
}

/// What the ensemble has at `/app`.
async fn app(mover: &Mover) -> Option<Stat> {
    app_at(&mover.hosts.addresses().join(",")).await
}

async fn app_at(servers: &str) -> Option<Stat> {
    let reading = async {
        let client = Client::connect(servers).await.expect("a session");
        client.sync("/").await.expect("an answer");
        let app = client.exists("/app").await.expect("an answer");
        client.close().await.expect("a session");
        app
    };
    timeout(LIMIT, reading).await.expect("the ensemble answers")
}

#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run graduate"]
async fn hosts_without_data_do_not_outvote_the_one_that_has_them() {
    let mover = written_and_stopped().await;
    mover.hosts.run(&[start("zk2"), start("zk3")].join("\n"));
    sleep(ELECTION).await;
    mover.hosts.run(&[copy_to("zk1"), start("zk1")].join("\n"));
    sleep(ELECTION).await;
    assert_eq!(HOSTS.map(|host| mover.hosts.mode(host)), [None, None, None], "nobody serves");

    // Even an empty member has made a directory.
    let remove = "ssh zk2 'rm -r zookeeper/data/version-2'".to_owned();
    mover.hosts.run(&[stop("zk2"), remove, copy_to("zk2"), start("zk2")].join("\n"));
    mover.wait_for_leader().await;
    assert!(app(&mover).await.is_some());
}

/// Why the settings of the page have a line about it.
#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run graduate"]
async fn without_the_setting_for_it_two_empty_hosts_take_the_data_away() {
    let mover = written_and_stopped().await;
    for host in HOSTS {
        mover.hosts.run(&format!("ssh {host} 'sed -i /autocreate/d zookeeper/conf/zoo.cfg'"));
    }
    mover.hosts.run(&[start("zk2"), start("zk3")].join("\n"));
    mover.wait_for_leader().await;
    mover.join_with_data("zk1").await;
    assert_eq!(app(&mover).await, None);
}

/// Why the way back takes the data of the hosts away.
#[tokio::test]
#[ignore = "needs Apache ZooKeeper: tests/apache/run graduate"]
async fn hosts_that_keep_their_data_do_not_know_what_was_written_since() {
    let mut mover = Mover::new(&mut begin()).await;
    mover.follow(PREPARE).await;
    mover.follow(OUT).await;
    mover.wait_for_leader().await;
    // A member has a log from its first transaction on, here that of the session.
    mover.wait_until("the member serves", || mover.hosts.mode("zk1").is_some()).await;
    let session = Client::connect(mover.hosts.addresses()[0].as_str());
    timeout(LIMIT, session)
        .await
        .expect("the member answers")
        .expect("a session")
        .close()
        .await
        .expect("a session");
    mover.hosts.run(&HOSTS.map(stop).join("\n"));
    // Not as on the page: the others keep theirs.
    mover.hosts.run("mkdir coordinator\nscp -r zk1:zookeeper/data/version-2 coordinator/version-2");
    mover.hosts.run("ssh zk1 'rm -r zookeeper/data/version-2'");
    mover.execute(START).await;
    write_app(&mover).await;
    mover.execute("server.shutdown().await;").await;
    mover.hosts.run(&[start("zk2"), start("zk3")].join("\n"));
    mover.wait_for_leader().await;
    mover.join_with_data("zk1").await;
    // It may go on showing what it has: truncating its log leaves its snapshot (`Learner.syncWithLeader`), and the members differ.
    for majority in &mover.hosts.addresses()[1..] {
        assert_eq!(app_at(majority).await, None);
    }
}
