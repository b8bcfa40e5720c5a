//! A server at the other end of a socket, and our connections to it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::frames::duo::Got;

/// Longer than any answer takes; only a request that is never answered has to wait for it.
const LIMIT: Duration = Duration::from_secs(5);

pub struct Socket {
    address: String,
    conns: Vec<TcpStream>,
}

impl Socket {
    pub fn new(address: &str) -> Self {
        Self { address: address.into(), conns: Vec::new() }
    }

    pub fn open(&mut self) -> usize {
        let conn = TcpStream::connect(&self.address).expect("the server takes connections");
        conn.set_nodelay(true).expect("a socket option");
        conn.set_read_timeout(Some(LIMIT)).expect("a socket option");
        self.conns.push(conn);
        self.conns.len() - 1
    }

    pub fn write(&mut self, conn: usize, bytes: &[u8]) {
        // It may have closed the connection; reading shows that.
        let _ = self.conns[conn].write_all(bytes);
    }

    pub fn read(&mut self, conn: usize) -> Got {
        let mut prefix = [0; 4];
        let mut stream = &self.conns[conn];
        let frame = stream.read_exact(&mut prefix).and_then(|()| {
            let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
            stream.read_exact(&mut frame).map(|()| frame)
        });
        match frame {
            Ok(frame) => Got::Frame(frame),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                Got::Silence
            }
            Err(_) => Got::Closed,
        }
    }

    pub fn shut(&mut self, conn: usize) {
        let _ = self.conns[conn].shutdown(Shutdown::Both);
    }
}
