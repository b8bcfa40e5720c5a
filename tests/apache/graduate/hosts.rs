//! Three hosts that are folders of this machine, each with an address of its own on the loopback interface.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::ensemble::members::JARS;

pub const HOSTS: [&str; 3] = ["zk1", "zk2", "zk3"];

/// The seconds that commands may take: they fail with status 124 after that.
const LIMIT: &str = "30";

/// The folder in which the commands run, and the hosts beside it.
pub struct Hosts {
    dir: tempfile::TempDir,
    addresses: [Ipv4Addr; 3],
    /// The address of the host on which the commands run.
    pub here: Ipv4Addr,
}

impl Hosts {
    /// Hosts with a ZooKeeper that is unpacked and not set up.
    pub fn new(rng: &mut StdRng) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let network = loop {
            let network = [rng.random_range(1..255), rng.random_range(1..255)];
            // That of another run would be in use.
            let of = move |last| Ipv4Addr::new(127, network[0], network[1], last);
            if (1..=3).all(|last| TcpListener::bind((of(last), 2181)).is_ok()) {
                break of;
            }
        };
        let addresses = [1, 2, 3].map(&network);
        let mut names = String::new();
        for (name, address) in HOSTS.iter().zip(addresses) {
            let home = dir.path().join(name).join("zookeeper");
            fs::create_dir_all(home.join("bin")).expect("a directory");
            fs::create_dir_all(home.join("conf")).expect("a directory");
            fs::copy(scripts().join("zkServer.sh"), home.join("bin/zkServer.sh")).expect("a script");
            names += &format!("{address} {name}\n");
        }
        fs::write(dir.path().join("hosts"), names).expect("a file");
        fs::create_dir(dir.path().join("here")).expect("a directory");
        Self { dir, addresses, here: network(4) }
    }

    /// The folder in which the commands run.
    pub fn here(&self) -> PathBuf {
        self.dir.path().join("here")
    }

    pub fn addresses(&self) -> [String; 3] {
        self.addresses.map(|address| format!("{address}:2181"))
    }

    /// Runs commands, each of which must succeed. Returns what they print.
    ///
    /// # Panics
    /// If one fails, or they do not come to an end.
    pub fn run(&self, commands: &str) -> String {
        println!("{}", commands.trim_end());
        self.try_run(commands).unwrap_or_else(|error| panic!("{commands}\n{error}\n{}", self.logs()))
    }

    /// The same; an error is what they print.
    pub fn try_run(&self, commands: &str) -> Result<String, String> {
        let zoolet = PathBuf::from(std::env::var("ZOOLET").expect("ZOOLET: the binary"));
        let path = std::env::var("PATH").expect("PATH");
        let path = format!("{}:{}:{path}", scripts().display(), zoolet.parent().expect("a folder").display());
        let done = Command::new("timeout")
            .args([LIMIT, "bash", "-euo", "pipefail", "-c", commands])
            .current_dir(self.here())
            .env("PATH", path)
            .env("HOSTS", self.dir.path())
            .env("JARS", std::env::var(JARS).expect(JARS))
            .env("OWNER", std::process::id().to_string())
            .output()
            .expect("timeout");
        let print = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, complained) = (print(&done.stdout), print(&done.stderr));
        if done.status.success() { Ok(printed) } else { Err(format!("{printed}{complained}{}", done.status)) }
    }

    /// What a member is, or `None` while it serves nobody.
    pub fn mode(&self, host: &str) -> Option<String> {
        let printed = self.try_run(&format!("ssh {host} 'zookeeper/bin/zkServer.sh status'")).ok()?;
        printed.trim().strip_prefix("Mode: ").map(str::to_owned)
    }

    /// What the members logged.
    pub fn logs(&self) -> String {
        let log = |name: &&str| {
            let text = fs::read_to_string(self.dir.path().join(format!("{name}.log")));
            format!("--- {name}\n{}", text.unwrap_or_default())
        };
        HOSTS.iter().map(log).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in HOSTS {
            let _ = self.try_run(&format!("ssh {host} 'zookeeper/bin/zkServer.sh stop'"));
        }
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apache/graduate/bin")
}
