//! What a server shows and a directory holds, in a form that can be compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zoolet_proto::{Acl, SessionId, Stat};
use zoolet_server_core::Tree;
use zoolet_storage::Recovered;
use zoolet_test_support::{Hello, Wire, auth, get_acl, get_children, get_data, password_of};

use crate::storage::server::Stored;

/// The last zxid, every znode as text, and the sessions with their timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub zxid: i64,
    pub znodes: BTreeMap<String, String>,
    pub sessions: BTreeMap<i64, i32>,
}

impl State {
    /// What a server shows on the wire, completed by what only it knows. Every session is resumed, so none may be in use.
    ///
    /// # Errors
    /// If it does not answer for a znode: one without an access control list.
    pub async fn of_server(address: SocketAddr, stored: Stored) -> Result<Self, String> {
        let zxid = zxid_of(address).await;
        for (id, timeout) in &stored.sessions {
            let id = SessionId(*id);
            let hello = Hello::new().session(id).password(&password_of(id)).timeout_ms(*timeout);
            let wire = Wire::open(connect(address).await, hello).await;
            assert_eq!((wire.welcome.session, wire.welcome.timeout), (id, *timeout));
        }
        Ok(Self { zxid, znodes: znodes(address, &stored.owners).await?, sessions: stored.sessions })
    }

    /// What a directory of ours held.
    pub fn of_recovered(recovered: &Recovered) -> Self {
        Self::of_tree(&recovered.tree, recovered.sessions.iter().copied())
    }

    /// A tree of ours, and ids and timeouts of its sessions.
    pub fn of_tree(tree: &Tree, sessions: impl IntoIterator<Item = (SessionId, i32)>) -> Self {
        let (mut znodes, mut left) = (BTreeMap::new(), vec!["/"]);
        while let Some(path) = left.pop() {
            let node = tree.get(path).expect("a znode");
            let data = node.data().map(|data| &data[..]);
            znodes.insert(path.to_owned(), znode(data, node.acl(), &node.stat(), node.owner().code()));
            left.extend(node.children().map(|child| &**child));
        }
        let sessions = sessions.into_iter().map(|(id, timeout)| (id.0, timeout)).collect();
        Self { zxid: tree.last_zxid().0, znodes, sessions }
    }

    /// Without the statistics of quotas: they are counted anew at every start.
    pub fn without_statistics(mut self) -> Self {
        self.znodes.retain(|path, _| !path.ends_with("/zookeeper_stats"));
        self
    }

    /// What is different, one line each; empty if nothing is.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.zxid != other.zxid {
            lines.push(format!("zxid {:x} and {:x}", self.zxid, other.zxid));
        }
        differences(&self.znodes, &other.znodes, &mut lines);
        let sessions = |state: &Self| {
            let lines =
                state.sessions.iter().map(|(id, timeout)| (format!("session {id:x}"), timeout.to_string()));
            lines.collect()
        };
        differences(&sessions(self), &sessions(other), &mut lines);
        lines
    }
}

fn differences(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>, lines: &mut Vec<String>) {
    for (key, value) in one {
        match other.get(key) {
            None => lines.push(format!("{key}: {value}\n  missing in the other")),
            Some(there) if there != value => lines.push(format!("{key}: {value}\n  and {there}")),
            Some(_) => {}
        }
    }
    let missing = other.iter().filter(|(key, _)| !one.contains_key(*key));
    lines.extend(missing.map(|(key, value)| format!("{key}: missing\n  and {value}")));
}

/// A znode as text. `owner` is the one that is stored: clients do not see that of containers and TTL znodes.
pub fn znode(data: Option<&[u8]>, acl: &[Acl], stat: &Stat, owner: i64) -> String {
    let mut line = match data {
        None => "null".to_owned(),
        Some(data) => {
            let mut hex = "0x".to_owned();
            data.iter().for_each(|byte| _ = write!(hex, "{byte:02x}"));
            hex
        }
    };
    for Acl { perms, scheme, id } in acl {
        let _ = write!(line, " {}:{scheme}:{id}", perms.0);
    }
    let _ = write!(line, " {stat:?} owner {owner:x}");
    line
}

/// The zxid that the word `srvr` tells, which no request has changed.
async fn zxid_of(address: SocketAddr) -> i64 {
    let mut stream = connect(address).await;
    stream.write_all(b"srvr").await.expect("a connection that takes bytes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    i64::from_str_radix(zxid.unwrap_or_else(|| panic!("no zxid: {answer}")), 16).expect("a zxid")
}

/// All znodes, read by the superuser level by level.
async fn znodes(
    address: SocketAddr,
    owners: &BTreeMap<String, i64>,
) -> Result<BTreeMap<String, String>, String> {
    let mut wire = Wire::open(connect(address).await, Hello::new()).await;
    wire.ask(auth("digest", "super:secret")).await;
    let (mut znodes, mut level) = (BTreeMap::new(), vec!["/".to_owned()]);
    while !level.is_empty() {
        let asks: Vec<_> =
            level.iter().flat_map(|path| [get_data(path), get_acl(path), get_children(path)]).collect();
        let frames = wire.pipeline(asks).await;
        let mut answers = frames.into_iter().map(|frame| frame.answer());
        let mut next = Vec::new();
        for path in level {
            let [data, acl, children] = std::array::from_fn(|_| answers.next().expect("an answer to each"));
            if let Some(error) = data.error.or(acl.error).or(children.error) {
                return Err(format!("{path}: {error}"));
            }
            let owner = owners.get(&path).unwrap_or_else(|| panic!("{path} is not stored"));
            let line = znode(data.data().as_deref(), &acl.acl(), &data.stat(), *owner);
            let parent = if path == "/" { "" } else { &path };
            next.extend(children.names().iter().map(|name| format!("{parent}/{name}")));
            znodes.insert(path, line);
        }
        level = next;
    }
    assert_eq!(znodes.len(), owners.len(), "as many on the wire as are stored");
    wire.close_session().await;
    Ok(znodes)
}

pub async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.expect("a server that accepts");
    stream.set_nodelay(true).expect("a socket option");
    stream
}
