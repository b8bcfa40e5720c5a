//! A client as one writes it in an afternoon, and how ours is set up beside it.

use std::time::Duration;
use zoolet::testing::FixtureExt as _;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;
use zoolet::Client;
use zoolet::testing::fixture::RecordedEvent;
use zoolet_test_support::*;

/// How long ours and the naive one are given for what they should get done.
pub const LONG: Duration = secs(60);

/// What `future` gives within that time.
pub async fn soon<F: Future>(future: F) -> F::Output {
    timeout(LONG, future).await.expect("ours waits forever")
}

/// It takes the next frame for the answer to what it has just asked, and whatever goes wrong for a lost connection, which
/// it replaces by another with a session of its own.
pub struct Naive<'z> {
    zk: &'z Zk,
    tcp: bool,
    pub wire: Wire,
}

impl<'z> Naive<'z> {
    pub async fn open(zk: &'z Zk) -> Self {
        Self { wire: zk.wire().await, zk, tcp: false }
    }

    pub async fn open_tcp(zk: &'z Zk) -> Self {
        Self { wire: zk.tcp_wire().await, zk, tcp: true }
    }

    /// A new connection with a new session: what was before is forgotten.
    pub async fn connect_anew(&mut self) {
        self.wire = if self.tcp { self.zk.tcp_wire().await } else { self.zk.wire().await };
    }

    /// The payload of the next frame; `None` if the connection is lost.
    pub async fn call(&mut self, ask: impl Into<Outgoing>) -> Option<Bytes> {
        self.send(ask).await?;
        self.wire.payload_or_end().await
    }

    pub async fn send(&mut self, ask: impl Into<Outgoing>) -> Option<()> {
        let mut bytes = BytesMut::new();
        self.wire.encode(ask.into(), &mut bytes);
        self.wire.try_send_bytes(&bytes).await.ok()
    }

    /// Asks again on a new connection until there is an answer.
    pub async fn insist(&mut self, ask: Request) -> Bytes {
        loop {
            if let Some(answer) = self.call(ask.clone()).await {
                return answer;
            }
            self.connect_anew().await;
        }
    }

    /// As [`insist`](Naive::insist), and with a new connection also where there is no answer in time.
    pub async fn insist_within(&mut self, limit: Duration, ask: Request) -> Bytes {
        loop {
            if let Ok(Some(answer)) = timeout(limit, self.call(ask.clone())).await {
                return answer;
            }
            self.connect_anew().await;
        }
    }
}

/// The data in a reply to getData.
pub fn data_in(payload: &[u8]) -> String {
    match Reply::parse(OpCode::GetData, &payload[16..]) {
        Ok(Reply::Data(Some(data), _)) => String::from_utf8_lossy(&data).into_owned(),
        other => panic!("no data in {other:?}"),
    }
}

pub async fn ours(zk: &Zk) -> Client {
    Client::options().seed(1).connect(zk.in_process()).await.expect("a session")
}

pub async fn ours_by_tcp(zk: &Zk) -> Client {
    Client::options().seed(1).connect(zk.connect_string()).await.expect("a session")
}

/// The faults and control actions so far, from the record.
pub fn fired(zk: &Zk) -> Vec<String> {
    let name = |what: RecordedEvent| what.to_string().trim_start_matches("!! ").to_owned();
    zk.fixture().faults().fired().into_iter().map(|entry| name(entry.event)).collect()
}
