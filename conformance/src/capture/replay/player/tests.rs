//! A player, and events that come by hand.

use std::time::Duration;

use zoolet_proto::records::WatchedEvent;
use zoolet_proto::{EventType, KeeperState};
use zoolet_server::Server;

use super::*;
use crate::capture::replay::reading::CapturedConnection;
use crate::wire::connection::ANSWER_LIMIT;
use crate::wire::fields::of_event;

#[tokio::test]
async fn an_auth_may_have_been_answered_among_events_that_are_compared_before_it() {
    let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
    let replay = Replay { server: server.connect_string(), auth: Vec::new(), limit: ANSWER_LIMIT };
    let events = ["/a", "/b", "/c"].map(|path| {
        let (kind, state) = (EventType::NodeDataChanged, KeeperState::SyncConnected);
        of_event(Zxid(-1), &WatchedEvent { kind, state, path: path.to_owned() })
    });
    let mut connection = CapturedConnection::default();
    connection.events = events.to_vec();
    let plan = Plan { connections: HashMap::from([(1, connection)]), ..Plan::default() };
    let mut player = Player::new(&replay, plan).await.expect("a session");
    player.open(1).await.expect("a connection");
    let moment = Moment { time: Duration::ZERO, connection: 1, at: 0 };
    let step = Step { moment, action: Action::Cut, after: 0 };
    // A setWatches, an auth whose reply came after its first event, and a later request.
    for (came, captured) in [(&events[..2], 2), (&[], 1), (&events[2..], 3)] {
        player.links.get_mut(&1).expect("the connection").events = came.to_vec();
        player.compare_events(&step, "before a reply", captured);
    }
    assert_eq!(player.replayed.differences, []);
}
