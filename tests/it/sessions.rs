//! Sessions: how they open, move, expire and end.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet::server::{Clock, Server, ServerBuilder};
use zoolet_test_support::*;

/// When the connection of a silent session ends, counted from the handshake.
async fn time_to_expiry(zk: &Zk, session_timeout: Duration) -> Duration {
    let mut wire = zk.connect(Hello::new().timeout(session_timeout)).await;
    let start = Instant::now();
    wire.expect_end().await;
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_silent_session_expires_after_its_timeout_and_at_most_a_tick_later() {
    let zk = Zk::start().await;
    for later in [0, 300, 700, 1_100, 1_500, 1_900] {
        sleep(millis(later)).await;
        let lived = time_to_expiry(&zk, secs(10)).await;
        assert!(lived > secs(10) && lived <= secs(10) + TICK + millis(1), "it lived {lived:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_takes_its_ephemerals_with_it_and_cannot_be_taken_up() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(create("/e").ephemeral()).await;
    wire.ask(create("/p")).await;
    let mut watcher = zk.connect(Hello::new().timeout(secs(40))).await;
    watcher.ask(exists("/e").watch()).await;
    wire.expect_end().await;
    watcher.expect(event(EventType::NodeDeleted, "/e")).await;
    assert!(zk.has("/p").await);
    let mut late = zk.raw();
    assert!(late.hello(Hello::again(&wire.welcome)).await.is_refusal());
    late.expect_closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_no_lost_session() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    wire.ask(create("/e").ephemeral()).await;
    let welcome = wire.welcome.clone();
    drop(wire);
    sleep(secs(9)).await;
    let again = zk.connect(Hello::again(&welcome)).await;
    assert_eq!((again.welcome.session, &again.welcome.password), (welcome.session, &welcome.password));
    sleep(secs(9)).await;
    assert!(zk.has("/e").await);
    again.close_session().await;
    assert!(!zk.has("/e").await);
}

#[tokio::test(start_paused = true)]
async fn any_request_keeps_a_session_alive() {
    let zk = Zk::start().await;
    for ask in [ping(), get_data("/"), get_data("/none"), sync("/"), set_data("/none", "")] {
        let mut wire = zk.wire().await;
        for _ in 0..5 {
            sleep(secs(9)).await;
            wire.ask(ask.clone()).await;
        }
        assert!(wire.is_alive().await, "{ask:?}");
    }
}

#[tokio::test]
async fn a_session_whose_ping_waited_during_a_stall_survives_whichever_connection_is_read_first() {
    let clock = Clock::manual();
    let zk = Zk::with(|settings| settings.bind("127.0.0.1:0").clock(clock.clone())).await;
    let mut wires = Vec::new();
    for _ in 0..4 {
        wires.extend([zk.wire().await, zk.tcp_wire().await]);
    }
    for wire in &mut wires {
        wire.send(ping()).await;
    }
    // Nothing of it is read yet.
    clock.advance(secs(30)).expect("a manual clock");
    for (number, wire) in wires.iter_mut().enumerate() {
        assert!(wire.payload().await.is_some(), "client {number} expired");
    }
}

#[tokio::test(start_paused = true)]
async fn auth_does_not_keep_a_session_alive_nor_does_half_a_frame() {
    let zk = Zk::start().await;
    let mut shows_ids = zk.wire().await;
    let mut drips = zk.wire().await;
    let start = Instant::now();
    drips.send_bytes(&[0, 0, 0, 50]).await;
    for _ in 0..9 {
        sleep(secs(1)).await;
        assert_eq!(shows_ids.ask(auth("digest", "u:p")).await.error, None);
        drips.send_bytes(&[0]).await;
    }
    shows_ids.expect_closed().await;
    drips.expect_closed().await;
    assert!(start.elapsed() <= secs(10) + TICK + millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_session_moves_to_the_newest_connection_and_the_old_one_closes_silently() {
    let zk = Zk::start().await;
    let mut old = zk.wire().await;
    old.ask(create("/e").ephemeral()).await;
    old.ask(auth("digest", "bob:pw")).await;
    let mut new = zk.connect(Hello::again(&old.welcome)).await;
    old.expect_closed().await;
    assert_eq!(new.ask(get_data("/e")).await.stat().ephemeral_owner, old.welcome.session);
    let Reply::WhoAmI(ids) = new.ask(who_am_i()).await.reply else { panic!("no identities") };
    assert_eq!(ids.len(), 1, "identities stay with the connection that showed them: {ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_move_renegotiates_the_timeout() {
    let zk = Zk::start().await;
    let old = zk.wire().await;
    let mut new = zk.connect(Hello::again(&old.welcome).timeout(secs(20))).await;
    assert_eq!(new.welcome.timeout, 20_000);
    let start = Instant::now();
    new.expect_end().await;
    assert!(start.elapsed() > secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_cuts_the_rightful_connection_off_but_not_the_session() {
    let zk = Zk::start().await;
    for wrong in [Hello::password as fn(Hello, &[u8]) -> Hello, |hello, _| hello.no_password()] {
        let mut rightful = zk.wire().await;
        let mut thief = zk.raw();
        let hello = wrong(Hello::again(&rightful.welcome), &[9; 16]);
        assert!(thief.hello(hello).await.is_refusal());
        thief.expect_closed().await;
        rightful.expect_closed().await;
        let mut back = zk.connect(Hello::again(&rightful.welcome)).await;
        assert!(back.is_alive().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_id_gives_the_password_away_on_apache_and_not_here() {
    let java = async |settings: ServerBuilder| {
        let server = settings.start().await.expect("a server");
        let wire = || Wire::over(server.in_process()().into_inner().expect("a connection"));
        let (mut rightful, mut thief) = (wire(), wire());
        let welcome = rightful.hello(Hello::new()).await;
        let guessed = password_of(welcome.session);
        let stolen = !thief.hello(Hello::again(&welcome).password(&guessed)).await.is_refusal();
        assert_eq!(stolen, welcome.password == guessed);
        assert!(!wire().hello(Hello::again(&welcome)).await.is_refusal(), "its owner can resume it");
        stolen
    };
    assert!(!java(Server::builder()).await);
    assert!(java(Server::builder().unguessable_session_passwords(false)).await);
    // What must repeat does not depend on a secret.
    let manual = || Server::builder().clock(Clock::manual());
    assert!(java(manual()).await);
    assert!(!java(manual().unguessable_session_passwords(true)).await);
}

#[tokio::test(start_paused = true)]
async fn a_password_of_another_length_is_wrong() {
    let zk = Zk::start().await;
    let wire = zk.wire().await;
    let password = wire.welcome.password.clone();
    for wrong in [&password[..15], &[&password[..], b"x"].concat(), b""] {
        let mut thief = zk.raw();
        assert!(thief.hello(Hello::again(&wire.welcome).password(wrong)).await.is_refusal());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_seen_more_than_the_server_gets_no_answer() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let zxid = wire.ask(create("/a")).await.zxid;
    let mut ahead = zk.raw();
    ahead.send_bytes(&Hello::again(&wire.welcome).has_seen(zxid + 1).bytes()).await;
    ahead.expect_closed().await;
    assert!(wire.is_alive().await, "its session and the connection of it are untouched");
    for seen in [zxid, 0, -5] {
        let mut level = zk.raw();
        assert!(!level.hello(Hello::new().has_seen(seen)).await.is_refusal(), "seen {seen}");
        level.close_session().await;
        assert!(wire.is_alive().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_never_was_is_refused() {
    let zk = Zk::start().await;
    for id in [1, -1, i64::MIN, i64::MAX] {
        let mut wire = zk.raw();
        assert!(wire.hello(Hello::new().session(SessionId(id))).await.is_refusal());
        wire.expect_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_is_gone_at_once_with_its_ephemerals() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    for path in ["/a", "/b", "/c"] {
        wire.ask(create(path).ephemeral()).await;
    }
    let welcome = wire.welcome.clone();
    assert_eq!(wire.close_session().await.error, None);
    assert_eq!(zk.children("/").await, ["zookeeper"]);
    assert!(zk.raw().hello(Hello::again(&welcome)).await.is_refusal());
}

#[tokio::test(start_paused = true)]
async fn ephemerals_are_seen_by_all_and_may_be_deleted_by_all() {
    let zk = Zk::start().await;
    let (mut owner, mut other) = (zk.wire().await, zk.wire().await);
    owner.ask(create("/e").ephemeral()).await;
    assert_eq!(other.ask(get_data("/e")).await.stat().ephemeral_owner, owner.welcome.session);
    assert_eq!(other.ask(create("/e/child")).await.error, Some(ErrorCode::NoChildrenForEphemerals));
    assert_eq!(other.ask(delete("/e")).await.error, None);
    owner.close_session().await;
    assert!(other.is_alive().await);
}

#[tokio::test(start_paused = true)]
async fn no_two_sessions_have_one_id() {
    let zk = Zk::start().await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let wire = zk.wire().await;
        assert!(ids.insert(wire.welcome.session));
        wire.close_session().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_handshake_is_a_request_that_does_not_decode() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    // Version 0 and the upper half of a zxid read as number 0 and opcode 0, which is none.
    wire.send_bytes(&Hello::new().bytes()).await;
    let payload = wire.payload().await.expect("a refusal");
    assert_eq!(payload[..], [&[0; 4][..], &[0xff; 8], &[0xff, 0xff, 0xff, 0xfa]].concat());
    wire.expect_closed().await;
}
