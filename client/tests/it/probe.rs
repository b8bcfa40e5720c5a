//! A client that will read from a server which is cut off, and leaves it for one that takes writes.

use zoolet_client::{Client, SessionState, Stat};
use zoolet_proto::{Reply, Request, SessionId, records};

use crate::common::{Door, Peer, TIMEOUT, door};

fn get(path: &str) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch: false })
}

/// A client that is served reads, by the first of these connections.
async fn read_only() -> (Client, Peer, Door) {
    let (connect, mut door) = door();
    let options = Client::options().session_timeout(TIMEOUT).read_only(true);
    let (client, peer) = tokio::join!(options.connect(connect), async {
        let mut peer = door.open().await;
        peer.greet_for_reading().await;
        peer
    });
    let client = client.expect("a session");
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    (client, peer, door)
}

#[tokio::test(start_paused = true)]
async fn it_goes_over_to_a_server_that_grants_the_session() {
    let (zk, mut cut_off, mut door) = read_only().await;
    let mut states = zk.states();
    assert_eq!(states.next().await, Some(SessionState::ConnectedReadOnly));
    let mut better = door.open().await;
    let asked = better.greet_as(SessionId(0x99), TIMEOUT).await;
    assert_eq!((asked.session, asked.read_only), (SessionId(0), Some(false)));
    assert_eq!(states.next().await, Some(SessionState::Disconnected));
    assert_eq!(states.next().await, Some(SessionState::Connected));
    assert_eq!(zk.session_id(), SessionId(0x99));
    assert_eq!(cut_off.next().await, None, "it hangs up");
    let written = zk.set_data("/a", "x").send();
    let (xid, _) = better.next().await.expect("a request");
    better.reply(xid, Reply::Stat(Stat::default())).await;
    written.await.expect("a stat");
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_reading_while_others_do_not_grant_it() {
    let (zk, mut cut_off, mut door) = read_only().await;
    for way in 0..3 {
        let mut other = door.open().await;
        match way {
            // Cut off as well.
            0 => drop(other),
            1 => other.refuse().await,
            // No ZooKeeper.
            _ => other.write_raw(b"HTTP/1.1 400 Bad Request\r\n\r\n").await,
        }
        let read = zk.get_data("/a").send();
        let xid = cut_off.expect(get("/a")).await;
        cut_off.reply(xid, Reply::Data(None, Stat::default())).await;
        read.await.expect("data");
    }
    assert_eq!(zk.state(), SessionState::ConnectedReadOnly);
    door.open().await.greet().await;
    let mut states = zk.states();
    while states.next().await.expect("a state") != SessionState::Connected {}
}
