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

/// Listens before `server`, and returns the address.
pub fn before(server: &str, rule: impl FnMut(&Asked, &[u8]) -> Answer + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (server, rule): (_, Rule) = (server.to_owned(), Arc::new(Mutex::new(rule)));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (rule, server) = (Arc::clone(&rule), TcpStream::connect(&server).unwrap());
            thread::spawn(move || pass(&client, &server, &rule));
        }
    });
    address
}

fn pass(client: &TcpStream, server: &TcpStream, rule: &Rule) {
    let asked = Mutex::new(VecDeque::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            up(client, server, &asked);
            let _ = server.shutdown(Shutdown::Both);
        });
        down(client, server, &asked, rule);
        let _ = client.shutdown(Shutdown::Both);
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

fn down(client: &TcpStream, server: &TcpStream, asked: &Mutex<VecDeque<Asked>>, rule: &Rule) {
    let mut is_first = true;
    while let Some(payload) = read(server) {
        let header: ReplyHeader = match std::mem::replace(&mut is_first, false) {
            false => jute::parse(&payload).unwrap(),
            true => ReplyHeader::ok(Xid::EVENT, zoolet_proto::Zxid(0)),
        };
        if header.xid == Xid::EVENT {
            if !write(client, &payload) {
                return;
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
                return;
            }
            Answer::Cut => return,
        };
        if !write(client, &payload) {
            return;
        }
    }
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
