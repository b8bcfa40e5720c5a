//! What a health check asks: the four-letter word `srvr`, which every ZooKeeper answers from its state; if a server answers no
//! such words, a session with a ping.

use std::fmt;
use std::io;
use std::time::Instant;

use bytes::BytesMut;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout_at;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Request, SessionId, Xid, Zxid, jute};

use crate::relay;
use crate::text::quoted;

/// The longest answer that is read. A real one has a few hundred bytes.
const LONGEST: usize = 16 << 10;

/// The session timeout that is asked for. The session is closed at once.
const SESSION_TIMEOUT: i32 = 4_000;

/// A server that serves: what it says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Serving {
    /// By the lines of `srvr`.
    Status { mode: String, zxid: String, connections: Option<u64>, znodes: Option<u64>, version: String },
    /// It answers no four-letter words, and a ping.
    Ping { read_only: bool },
}

/// Why a server is not healthy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("cannot use it: {0}")]
    Unreached(String),
    #[error("the connection is lost: {0}")]
    Lost(io::Error),
    #[error("no answer in time, as of a port for TLS without --tls, or of a server under heavy load")]
    Timeout,
    #[error("it runs, and does not serve, as a server that starts or has no quorum")]
    NotServing,
    #[error(
        "it closes the connection without an answer, as a port for TLS does without --tls, or a server at its limit of connections"
    )]
    Silent,
    #[error("it is cut off from its ensemble, and serves only readers")]
    NoLeader,
    #[error("it does not answer as a ZooKeeper does: {0}")]
    Foreign(String),
}

/// Asks a server, once, until a deadline.
pub(super) async fn ask(address: &str, end: Instant) -> Result<Serving, Trouble> {
    let asking = async {
        let answer = word(address).await?;
        match Serving::of_srvr(&answer) {
            Some(serving) => Ok(serving),
            None if answer.contains("not currently serving requests") => Err(Trouble::NotServing),
            // Closed without an answer, or with the refusal of the word.
            None if answer.is_empty() || answer.contains("not executed because") => ping(address).await,
            None => Err(Trouble::Foreign(quoted(answer.lines().next().unwrap_or_default()))),
        }
    };
    timeout_at(end.into(), asking).await.unwrap_or(Err(Trouble::Timeout))
}

async fn word(address: &str) -> Result<String, Trouble> {
    let mut stream = TcpStream::connect(address).await.map_err(Trouble::Connect)?;
    stream.write_all(b"srvr").await.map_err(Trouble::Lost)?;
    let mut answer = Vec::new();
    match stream.take(LONGEST as u64).read_to_end(&mut answer).await {
        // A server that knows no such word resets the connection.
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(Trouble::Lost(error)),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// Opens a session, pings and closes it.
async fn ping(address: &str) -> Result<Serving, Trouble> {
    let mut stream = TcpStream::connect(address).await.map_err(Trouble::Connect)?;
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: SESSION_TIMEOUT,
        session: SessionId(0),
        password: Some(vec![0; 16].into()),
        read_only: Some(true),
    };
    let mut out = BytesMut::new();
    connect.encode_frame(&mut out);
    stream.write_all(&out).await.map_err(Trouble::Lost)?;
    let response = read_frame(&mut stream).await?;
    let response: ConnectResponse =
        jute::parse(&response).map_err(|_| Trouble::Foreign("no connect response".to_owned()))?;
    if response.session == SessionId(0) {
        return Err(Trouble::NotServing);
    }
    out.clear();
    Request::Ping.encode_frame(Xid::PING, &mut out);
    Request::CloseSession.encode_frame(Xid(1), &mut out);
    stream.write_all(&out).await.map_err(Trouble::Lost)?;
    // The header of a reply begins with the xid of its request.
    match read_frame(&mut stream).await?.first_chunk() {
        Some(xid) if i32::from_be_bytes(*xid) == Xid::PING.0 => {}
        _ => return Err(Trouble::Foreign("no reply to a ping".to_owned())),
    }
    // Its end shows that the session is closed; whether it does is not asked for.
    let _ = read_frame(&mut stream).await;
    Ok(Serving::Ping { read_only: response.read_only == Some(true) })
}

async fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>, Trouble> {
    relay::read_frame(stream, LONGEST).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Trouble::Silent,
        io::ErrorKind::InvalidData => Trouble::Foreign(error.to_string()),
        _ => Trouble::Lost(error),
    })
}

impl Serving {
    /// From the answer to `srvr`; `None` if it is not one.
    fn of_srvr(answer: &str) -> Option<Self> {
        let line = |name: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.map(str::trim)
        };
        let version = line("Zookeeper version")?;
        let version = version.split([',', '-', ' ']).next().unwrap_or(version);
        Some(Self::Status {
            mode: quoted(line("Mode")?),
            zxid: quoted(line("Zxid")?),
            connections: line("Connections").and_then(|count| count.parse().ok()),
            znodes: line("Node count").and_then(|count| count.parse().ok()),
            version: quoted(version),
        })
    }

    /// Whether its ensemble has a leader: without one, no member serves but readers. A server that stands alone leads itself.
    pub(super) fn has_leader(&self) -> bool {
        match self {
            Self::Status { mode, .. } => mode != "read-only",
            Self::Ping { read_only } => !read_only,
        }
    }

    /// The fields of its object.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Status { mode, zxid, connections, znodes, version } => json!({
                "asked": "srvr", "mode": mode, "zxid": zxid, "connections": connections, "znodes": znodes,
                "version": version
            }),
            Self::Ping { read_only } => {
                json!({"asked": "ping", "mode": if *read_only { "read-only" } else { "read-write" }})
            }
        }
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: &Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
        match self {
            Self::Status { mode, zxid, connections, znodes, version } => write!(
                f,
                "{mode}, version {version}, zxid {zxid}, {} znodes, {} connections",
                count(znodes),
                count(connections)
            ),
            Self::Ping { read_only: true } => f.write_str("read-only; it answers no four-letter words"),
            Self::Ping { read_only: false } => {
                f.write_str("a session and a ping; it answers no four-letter words")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_lines_of_apache_and_ours() {
        let apache = "Zookeeper version: 3.9.5-a1b2c3, built on 2026-01-01 10:00 UTC\nLatency min/avg/max: 0/0.0/0\n\
                      Received: 2\nSent: 1\nConnections: 1\nOutstanding: 0\nZxid: 0x100000004\nMode: follower\nNode count: 5\n";
        let expected = Serving::Status {
            mode: "follower".to_owned(),
            zxid: "0x100000004".to_owned(),
            connections: Some(1),
            znodes: Some(5),
            version: "3.9.5".to_owned(),
        };
        assert_eq!(Serving::of_srvr(apache), Some(expected));
        assert_eq!(Serving::of_srvr("Zookeeper version: 3.9.5\nMode: standalone\n"), None, "without a zxid");
        assert_eq!(Serving::of_srvr("HTTP/1.1 400 Bad Request\n"), None);
    }
}
