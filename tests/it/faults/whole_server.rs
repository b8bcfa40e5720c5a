//! What happens to everybody at once.

use zoolet::EventType;
use zoolet::client::Clock;
use zoolet::testing::FixtureExt as _;
use zoolet_test_support::{Hello, RequestExt as _, Zk, create, get_data, secs};

use crate::faults::naive::*;

#[tokio::test]
async fn refuse_connections_a_client_that_gives_up_loses_a_session_it_could_have_kept() {
    let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").clock(Clock::manual())).await;
    let fixture = zk.fixture();
    let mut naive = Naive::open_tcp(&zk).await;
    naive.call(create("/naive").ephemeral()).await.expect("a member");
    let client = ours_by_tcp(&zk).await;
    client.create("/member", "").ephemeral().await.expect("a member");

    fixture.refuse_connections();
    fixture.disconnect(naive.wire.welcome.session).await.unwrap();
    fixture.disconnect(client.session_id()).await.unwrap();
    let mut again = zk.raw_tcp().await;
    let said_hello = again.try_send_bytes(&Hello::again(&naive.wire.welcome).bytes()).await;
    let gives_up = said_hello.is_err() || again.payload_or_end().await.is_none();
    assert!(gives_up);
    while fixture.counters().refused < 2 {
        // Ours is refused, too.
        tokio::task::yield_now().await;
    }
    fixture.accept_connections();
    for _ in 0..4 {
        let member = client.exists("/member").await.expect("a session that was taken up again");
        assert_eq!(member.expect("a member").ephemeral_owner, client.session_id());
        fixture.clock().advance(secs(4)).unwrap();
    }
    assert!(fixture.get("/naive").is_none());

    let fired = fired(&zk);
    assert_eq!(fired[0], "new connections are refused");
    assert!(fired.iter().filter(|fault| *fault == "refused: a connection from 127.0.0.1").count() >= 2);
    assert_eq!(fired.last().unwrap(), "new connections are accepted again");
}

#[tokio::test(start_paused = true)]
async fn restart_a_client_that_does_not_set_its_watches_again_misses_changes() {
    let zk = Zk::start().await;
    let fixture = zk.fixture();
    zk.create("/config", "v1").await;

    let mut naive = Naive::open(&zk).await;
    let believes = data_in(&naive.call(get_data("/config").watch()).await.expect("a config"));
    fixture.restart().await.unwrap();
    naive.wire.expect_closed().await;
    // It even takes its session up again, as it should.
    let mut again = zk.connect(Hello::again(&naive.wire.welcome)).await;
    fixture.set("/config", "v2").await.unwrap();
    again.expect_silence().await;
    assert_eq!((believes.as_str(), fixture.get("/config").unwrap().text()), ("v1", "v2"));

    let client = ours(&zk).await;
    let (data, _, watch) = client.get_data("/config").watch().await.expect("a config");
    assert_eq!(data, "v2");
    fixture.restart().await.unwrap();
    fixture.set("/config", "v3").await.unwrap();
    let event = soon(watch.changed()).await.expect("an event, though the change was made while it was away");
    assert_eq!(event.kind, EventType::NodeDataChanged);
    assert_eq!(client.get_data("/config").await.expect("a config").0, "v3");

    assert_eq!(fired(&zk), ["the server is restarted", "the server is restarted"]);
}
