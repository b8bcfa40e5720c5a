//! What members of an ensemble answer, as far as it decides what a client and a lock must be ready for.

mod cut_off;
mod cut_off_follower;
mod in_flight;
mod moved;

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::time::timeout;
use zoolet_proto::records::{CheckVersion, ConnectResponse, Op};
use zoolet_proto::{ReplyHeader, jute};
use zoolet_test_support::{ErrorCode, Hello, Outgoing, Request, Wire, secs};

use crate::ensemble::members::Ensemble;

/// Settings of ensembles that must stay stable on a busy machine.
const STABLE: &str = "tickTime=2000\n";

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    Answer,
    Refusal(ErrorCode),
    /// The end of the connection, without a word.
    Closed,
}

/// A connection before its handshake.
async fn dial(ensemble: &Ensemble, member: usize) -> Wire {
    Wire::over(TcpStream::connect(ensemble.address(member)).await.expect("a connection"))
}

/// A connection with a session.
async fn open(ensemble: &Ensemble, member: usize, hello: Hello) -> Wire {
    let mut wire = dial(ensemble, member).await;
    assert!(!wire.hello(hello).await.is_refusal());
    wire
}

/// Sends a request and returns how it was answered.
async fn ask(wire: &mut Wire, ask: impl Into<Outgoing>) -> Got {
    let mut bytes = BytesMut::new();
    wire.encode(ask.into(), &mut bytes);
    // One that is closed already may refuse to be written to.
    let _ = wire.try_send_bytes(&bytes).await;
    match payload(wire).await {
        Some(payload) => {
            let header: ReplyHeader = jute::parse(&payload).expect("a header");
            header.error_code().map_or(Got::Answer, Got::Refusal)
        }
        None => Got::Closed,
    }
}

/// Introduces itself; `None` if that is answered by nothing but the end of the connection.
async fn greet(wire: &mut Wire, hello: Hello) -> Option<Vec<u8>> {
    wire.send_bytes(&hello.bytes()).await;
    payload(wire).await
}

async fn payload(wire: &mut Wire) -> Option<Vec<u8>> {
    timeout(secs(30), wire.payload_or_end())
        .await
        .expect("an answer or an end")
        .map(|payload| payload.to_vec())
}

fn welcome(payload: &[u8]) -> ConnectResponse {
    jute::parse(payload).expect("a connect response")
}

/// A multi that changes nothing.
fn check(path: &str) -> Request {
    Request::Multi(vec![Op::Check(CheckVersion { path: path.into(), version: -1 })])
}
