//! The limit of the machine: a bare tokio server that knows nothing and answers each request at once with a frame
//! as long as the real reply would be.

use std::io;
use std::io::Write as _;

use bytes::{Buf, BufMut, BytesMut};
use clap::ValueEnum;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use zoolet_proto::frame::{self, PREFIX};
use zoolet_proto::records::{ConnectResponse, PASSWORD_LEN};
use zoolet_proto::{OpCode, SessionId};

use crate::exchange::DATA_LEN;
use crate::wire::HEADER;

const STAT: usize = 68;
const READ_AHEAD: usize = 16 * 1024;
static ZEROS: [u8; 512] = [0; 512];

/// The kind of tokio runtime a server runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Flavor {
    /// One thread for everything.
    CurrentThread,
    /// A worker thread for each core.
    MultiThread,
}

impl Flavor {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CurrentThread => "current_thread",
            Self::MultiThread => "multi_thread",
        }
    }

    fn runtime(self) -> io::Result<Runtime> {
        match self {
            Self::CurrentThread => Builder::new_current_thread().enable_all().build(),
            Self::MultiThread => Builder::new_multi_thread().enable_all().build(),
        }
    }
}

/// Serves until the process is ended. Prints one line when it can be reached, as the other servers do.
pub(crate) fn run(flavor: Flavor, port: u16) -> io::Result<()> {
    flavor.runtime()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        writeln!(io::stdout(), "echo answers on {}", listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // An error here is a client that went away.
            tokio::spawn(async move { drop(serve(stream).await) });
        }
    })
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let (mut inbox, mut outbox) = (BytesMut::new(), BytesMut::new());
    let mut connected = false;
    let mut closing = false;
    while !closing {
        inbox.reserve(READ_AHEAD);
        if stream.read_buf(&mut inbox).await? == 0 {
            return Ok(());
        }
        while let Some(frame) = frame::split(&inbox, frame::DEFAULT_MAX_FRAME).map_err(io::Error::other)? {
            if connected {
                closing |= put_reply(frame, &mut outbox);
            } else {
                put_session(&mut outbox);
                connected = true;
            }
            let len = frame.len();
            inbox.advance(PREFIX + len);
        }
        stream.write_all(&outbox).await?;
        outbox.clear();
    }
    Ok(())
}

/// Appends a reply; whether it was the last.
fn put_reply(frame: &[u8], out: &mut BytesMut) -> bool {
    let (Some((xid, rest)), Some(op)) = (frame.split_first_chunk::<4>(), int(frame, 4)) else { return true };
    let op = OpCode::from_code(op);
    let body = match op {
        Some(OpCode::GetData) => 4 + DATA_LEN + STAT,
        Some(OpCode::SetData | OpCode::Exists) => STAT,
        // The path: its length stands behind the opcode.
        Some(OpCode::Create) => 4 + int(rest, 4).and_then(|len| usize::try_from(len).ok()).unwrap_or(0),
        _ => 0,
    };
    let len = (HEADER + body).min(ZEROS.len());
    out.reserve(PREFIX + len);
    out.put_u32(len as u32);
    out.put_slice(xid);
    out.put_slice(&ZEROS[..len - xid.len()]);
    op == Some(OpCode::CloseSession)
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

fn put_session(out: &mut BytesMut) {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session: SessionId(1),
        password: bytes::Bytes::from_static(&[0; PASSWORD_LEN]),
        read_only: Some(false),
    };
    response.encode_frame(out);
}
