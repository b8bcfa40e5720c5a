//! A proxy before a good server that answers as a hostile one.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{BufMut as _, BytesMut};
use zoolet_proto::{Incoming, OpCode, Reply, ReplyHeader, Request, Xid, frame, jute};

/// A request that is answered.
pub struct Asked {
    pub op: Option<OpCode>,
    pub path: String,
    xid: Xid,
}

/// What the client gets.
pub enum Answer {
    /// What the good server has said.
    Honest,
    /// This reply with the header of the good one, and without its error.
    Instead(Reply),
    /// The header changed, and the rest as it is.
    Header(fn(ReplyHeader) -> ReplyHeader),
    /// What the good server has said, with frames before it.
    After(Vec<u8>),
    /// Nothing, and nothing more.
    Silence,
    /// The end of the connection.
    Cut,
}

/// Decides about each reply, by its request and its bytes after the header.
type Rule = Arc<Mutex<dyn FnMut(&Asked, &[u8]) -> Answer + Send>>;

/// What is done to a connection beside its replies.
#[derive(Clone, Copy)]
pub struct Connections {
    /// What the client gets for an event.
    pub events: fn(Vec<u8>) -> Vec<Vec<u8>>,
    /// Whether the client is told that the server has ended the connection.
    pub end: bool,
}

/// Listens before `server`, and returns the address.
pub fn before(server: &str, rule: impl FnMut(&Asked, &[u8]) -> Answer + Send + 'static) -> String {
    before_with(server, rule, Connections { events: |event| vec![event], end: true })
}

/// The same, with more that is changed.
pub fn before_with(
    server: &str,
    rule: impl FnMut(&Asked, &[u8]) -> Answer + Send + 'static,
    connections: Connections,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (server, rule): (_, Rule) = (server.to_owned(), Arc::new(Mutex::new(rule)));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (rule, server) = (Arc::clone(&rule), TcpStream::connect(&server).unwrap());
            thread::spawn(move || pass(&client, &server, &rule, connections));
        }
    });
    address
}

fn pass(client: &TcpStream, server: &TcpStream, rule: &Rule, connections: Connections) {
    let asked = Mutex::new(VecDeque::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            up(client, server, &asked);
            let _ = server.shutdown(Shutdown::Both);
        });
        let is_cut = down(client, server, &asked, rule, connections.events);
        if is_cut || connections.end {
            let _ = client.shutdown(Shutdown::Both);
        }
    });
}

fn up(client: &TcpStream, server: &TcpStream, asked: &Mutex<VecDeque<Asked>>) {
    let mut is_first = true;
    while let Some(payload) = read(client) {
        if !std::mem::replace(&mut is_first, false) {
            let incoming = Incoming::parse(&payload).unwrap();
            let paths = incoming.body.as_ref().map(Request::paths);
            let path =
                paths.ok().and_then(|paths| paths.first().map(ToString::to_string)).unwrap_or_default();
            let op = OpCode::from_code(incoming.op);
            asked.lock().unwrap().push_back(Asked { op, path, xid: incoming.xid });
        }
        if !write(server, &payload) {
            return;
        }
    }
}

/// Returns whether it was not the server that has ended the connection.
fn down(
    client: &TcpStream,
    server: &TcpStream,
    asked: &Mutex<VecDeque<Asked>>,
    rule: &Rule,
    events: fn(Vec<u8>) -> Vec<Vec<u8>>,
) -> bool {
    let mut is_first = true;
    while let Some(payload) = read(server) {
        if std::mem::replace(&mut is_first, false) {
            // The answer to the handshake.
            if !write(client, &payload) {
                return true;
            }
            continue;
        }
        let header: ReplyHeader = jute::parse(&payload).unwrap();
        if header.xid == Xid::EVENT {
            if !events(payload).iter().all(|event| write(client, event)) {
                return true;
            }
            continue;
        }
        let of = asked.lock().unwrap().pop_front().unwrap();
        let answer = (rule.lock().unwrap())(&of, &payload[16..]);
        let payload = match answer {
            Answer::Honest => payload,
            Answer::Instead(reply) => {
                let mut bytes = BytesMut::new();
                reply.encode_frame(ReplyHeader::ok(of.xid, header.zxid), &mut bytes);
                bytes[frame::PREFIX..].to_vec()
            }
            Answer::Header(change) => {
                let mut bytes = BytesMut::new();
                Reply::Empty.encode_frame(change(header), &mut bytes);
                [&bytes[frame::PREFIX..], &payload[16..]].concat()
            }
            Answer::After(frames) => {
                // The client may leave in the middle of it.
                let _ = (&*client).write_all(&frames);
                payload
            }
            Answer::Silence => {
                while read(server).is_some() {}
                return false;
            }
            Answer::Cut => return true,
        };
        if !write(client, &payload) {
            return true;
        }
    }
    false
}

fn read(mut from: &TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut payload = vec![0; u32::from_be_bytes(length) as usize];
    from.read_exact(&mut payload).ok()?;
    Some(payload)
}

fn write(mut to: &TcpStream, payload: &[u8]) -> bool {
    let mut bytes = BytesMut::new();
    frame::put(&mut bytes, |out| out.put_slice(payload));
    to.write_all(&bytes).is_ok()
}
