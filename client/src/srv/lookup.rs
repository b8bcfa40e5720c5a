//! The lookup of SRV records: a question to the name servers of the system, by UDP, and by TCP if the answer is too long.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use resolv_conf::Config;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE, header_buffer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::spawn_blocking;
use zoolet_clock::Clock;

use super::SrvRecord;

const RESOLV_CONF: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;
/// Most name servers that are asked, as in the C library.
const MAX_SERVERS: usize = 3;
/// Most bytes of an answer by UDP, which has at most 512 without EDNS.
const MAX_DATAGRAM: usize = 4096;

/// The name servers of the system, which may change, and how to ask them.
fn of_system() -> io::Result<(Vec<SocketAddr>, Config)> {
    let unread = |error| io::Error::other(format!("{RESOLV_CONF}: {error}"));
    let text = std::fs::read(RESOLV_CONF).map_err(|error| unread(error.to_string()))?;
    let config = Config::parse(text).map_err(|error| unread(error.to_string()))?;
    let servers = config.get_nameservers_or_local().into_iter().take(MAX_SERVERS);
    Ok((servers.map(|server| SocketAddr::new(server.into(), DNS_PORT)).collect(), config))
}

/// Whether DNS can have such a name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let parsed = Name::new(name).map_err(|error| error.to_string())?;
    if parsed.get_labels().is_empty() { Err("it names no SRV records".to_owned()) } else { Ok(()) }
}

/// The SRV records of a name; at least one. Asks `servers`, or those of the system if there are none.
///
/// # Errors
/// `NotFound` if it has none, otherwise what the last name server has answered.
pub(super) async fn look_up(
    name: Arc<str>,
    servers: Vec<SocketAddr>,
    clock: Clock,
) -> io::Result<Vec<SrvRecord>> {
    let (servers, config) = match servers.is_empty() {
        true => spawn_blocking(of_system).await??,
        false => (servers, Config::new()),
    };
    let timeout = Duration::from_secs(u64::from(config.timeout.clamp(1, 30)));
    let query = SrvQuery::new(&name)?;
    let mut last = io::Error::other("there is no name server to ask");
    for _ in 0..config.attempts.clamp(1, 5) {
        for &server in &servers {
            let answer = clock.timeout(timeout, query.ask(server)).await;
            match answer.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"))) {
                Ok(records) => return Ok(records),
                // The answer of all.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(error) => last = io::Error::new(error.kind(), format!("name server {server}: {error}")),
            }
        }
    }
    Err(last)
}

/// A question as it is sent.
struct SrvQuery {
    id: u16,
    bytes: Vec<u8>,
}

impl SrvQuery {
    fn new(name: &str) -> io::Result<Self> {
        // With the port of the socket, what a stranger who forges an answer has to guess.
        let id = rand::rng().random();
        let name = Name::new(name).map_err(malformed)?;
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let (kind, class) = (QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(name, kind, class, false));
        Ok(Self { id, bytes: packet.build_bytes_vec().map_err(malformed)? })
    }

    async fn ask(&self, server: SocketAddr) -> io::Result<Vec<SrvRecord>> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(server).await?;
        socket.send(&self.bytes).await?;
        let mut answer = vec![0; MAX_DATAGRAM];
        loop {
            let length = socket.recv(&mut answer).await?;
            let answer = &answer[..length];
            if !self.is_answered_by(answer) {
                continue;
            }
            if header_buffer::has_flags(answer, PacketFlag::TRUNCATION).map_err(malformed)? {
                return self.ask_by_tcp(server).await;
            }
            return self.records_in(answer);
        }
    }

    async fn ask_by_tcp(&self, server: SocketAddr) -> io::Result<Vec<SrvRecord>> {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(self.bytes.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), &self.bytes[..]].concat()).await?;
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        match self.is_answered_by(&answer) {
            true => self.records_in(&answer),
            false => Err(malformed("the answer to another question")),
        }
    }

    /// Whether this is an answer with the id of the question; another datagram is ignored.
    fn is_answered_by(&self, answer: &[u8]) -> bool {
        header_buffer::id(answer).is_ok_and(|id| id == self.id)
            && header_buffer::has_flags(answer, PacketFlag::RESPONSE).unwrap_or(false)
    }

    fn records_in(&self, answer: &[u8]) -> io::Result<Vec<SrvRecord>> {
        let packet = Packet::parse(answer).map_err(malformed)?;
        match packet.rcode() {
            RCODE::NoError => {}
            RCODE::NameError => return Err(io::Error::new(io::ErrorKind::NotFound, "no such name")),
            code => return Err(io::Error::other(format!("{code:?}"))),
        }
        let records = packet.answers.iter().filter_map(|record| match &record.rdata {
            RData::SRV(srv) => Some(SrvRecord {
                priority: srv.priority,
                weight: srv.weight,
                port: srv.port,
                target: srv.target.to_string(),
            }),
            _ => None,
        });
        // A target that is the root says that there is no such service.
        let records: Vec<_> = records.filter(|record| !record.target.is_empty()).collect();
        match records.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no SRV records")),
            false => Ok(records),
        }
    }
}

fn malformed(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
