//! Bad input: each kind gets its documented answer, and other clients are not affected.

use tokio::time::{Instant, sleep};
use zoolet_test_support::*;
use zoolet_test_support::{Sample, samples};

const TOO_LONG: i32 = 1_048_576;

#[tokio::test(start_paused = true)]
async fn a_length_that_cannot_be_closes_a_connection_that_has_not_shaken_hands() {
    let zk = Zk::start().await;
    for length in [0, -1, i32::MIN, TOO_LONG, i32::MAX] {
        let mut wire = zk.raw();
        wire.send_bytes(&length.to_be_bytes()).await;
        wire.expect_closed().await;
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn a_length_that_cannot_be_closes_the_connection_but_not_the_session() {
    let zk = Zk::start().await;
    for length in [0, -1, i32::MIN, TOO_LONG, i32::MAX] {
        let mut wire = zk.wire().await;
        wire.send_bytes(&length.to_be_bytes()).await;
        wire.expect_closed().await;
        let mut again = zk.connect(Hello::again(&wire.welcome)).await;
        assert!(again.is_alive().await, "length {length}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_without_a_whole_header_closes_the_connection_but_not_the_session() {
    let zk = Zk::start().await;
    for length in 1..8u8 {
        let mut wire = zk.wire().await;
        wire.send_bytes(&[0, 0, 0, length]).await;
        wire.send_bytes(&vec![0; length.into()]).await;
        wire.expect_closed().await;
        assert!(zk.connect(Hello::again(&wire.welcome)).await.is_alive().await);
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_handshake_that_is_a_whole_frame_closes_the_connection() {
    let zk = Zk::start().await;
    let hello = Hello::new().bytes();
    // 44 bytes are whole: the last one may be left out.
    for cut in 1..44u8 {
        let mut wire = zk.raw();
        wire.send_bytes(&[&[0, 0, 0, cut], &hello[4..4 + usize::from(cut)]].concat()).await;
        wire.expect_closed().await;
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_with_a_lying_password_length_closes_the_connection() {
    let zk = Zk::start().await;
    for length in [17 + 2, 1_000_000, i32::MAX, -2, i32::MIN] {
        let mut hello = Hello::new().bytes().to_vec();
        hello[28..32].copy_from_slice(&length.to_be_bytes());
        let mut wire = zk.raw();
        wire.send_bytes(&hello).await;
        wire.expect_closed().await;
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stops_half_way_is_waited_for_10_to_20_seconds() {
    let zk = Zk::start().await;
    let hello = Hello::new().bytes();
    for cut in [0, 1, 4, 5, 30, 47] {
        let start = Instant::now();
        let mut wire = zk.raw();
        wire.send_bytes(&hello[..cut]).await;
        wire.expect_end().await;
        let waited = start.elapsed();
        assert!(waited >= secs(10) && waited <= secs(20) + millis(1), "{cut} bytes: {waited:?}");
        sleep(millis(3_300)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_drips_is_not_waited_for_any_longer() {
    let zk = Zk::start().await;
    let start = Instant::now();
    let mut wire = zk.raw();
    for byte in Hello::new().bytes() {
        if wire.try_send_bytes(&[byte]).await.is_err() {
            break;
        }
        sleep(secs(1)).await;
    }
    wire.expect_closed().await;
    // At its end the server reads on for a moment, so that the peer is not reset.
    assert!(start.elapsed() <= secs(23), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_opcode_is_refused_and_the_connection_closed_but_not_the_session() {
    let zk = Zk::start().await;
    for op in [0, 10, 13, 23, 99, 108, 1000, -1, -9, -12, i32::MIN, i32::MAX] {
        let mut wire = zk.wire().await;
        wire.send_raw(7, op, b"whatever").await;
        wire.expect(reply(7).error(ErrorCode::Unimplemented).zxid(-1)).await;
        wire.expect_closed().await;
        assert!(zk.connect(Hello::again(&wire.welcome)).await.is_alive().await, "opcode {op}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_session_from_a_client_is_answered_with_its_session_once_more() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let welcome = wire.welcome.clone();
    wire.send_raw(1, OpCode::CreateSession.code(), &[0, 0, 0, 9]).await;
    assert_eq!(wire.expect_welcome().await, welcome);
}

#[tokio::test(start_paused = true)]
async fn every_truncated_record_is_refused_and_the_connection_survives() {
    let zk = Zk::start().await;
    for Sample { op, body, closes } in samples() {
        for cut in 0..body.len() {
            let mut wire = zk.wire().await;
            wire.send_raw(7, op, &body[..cut]).await;
            if closes {
                wire.expect_closed().await;
                continue;
            }
            wire.expect(reply(7).error(ErrorCode::MarshallingError)).await;
            wire.expect_nothing_more().await;
            wire.close_session().await;
        }
    }
    zk.serves_others().await;
}

/// Every four bytes of every record in turn announce something long, negative or null.
#[tokio::test(start_paused = true)]
async fn a_record_that_lies_gets_one_answer_or_the_end_of_its_connection() {
    let zk = Zk::start().await;
    for Sample { op, body, closes } in samples() {
        for at in 0..body.len().saturating_sub(3) {
            for lie in [i32::MAX, -1, -2, i32::MIN, 0, 1 << 20, 0x0020_0000] {
                let mut bytes = body.clone();
                bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
                let mut wire = zk.wire().await;
                wire.send_raw(7, op, &bytes).await;
                let answered = wire.is_answered(7).await;
                assert!(answered || closes, "opcode {op}, {lie} at {at}");
            }
        }
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn noise_after_the_handshake_never_disturbs_others() {
    let zk = Zk::start().await;
    let mut other = zk.wire().await;
    let mut seed = 0x5EED_u64;
    for _ in 0..500 {
        let mut wire = zk.wire().await;
        for _ in 0..4 {
            let noise = noise(&mut seed);
            let op = i32::from(noise[0]) % 24 + if noise[0] > 200 { 90 } else { 0 };
            let length = (noise.len() as i32 + 8).to_be_bytes();
            let frame = [&length[..], &[0, 0, 0, 7], &op.to_be_bytes(), &noise].concat();
            if wire.try_send_bytes(&frame).await.is_err() {
                break;
            }
        }
        assert!(other.is_alive().await);
    }
}

/// Up to 200 bytes that look random and are always the same.
fn noise(seed: &mut u64) -> Vec<u8> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 56) as u8
    };
    let length = 1 + usize::from(next()) % 200;
    (0..length).map(|_| next()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_kills_a_real_server_is_refused() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    for flags in 0..5 {
        let answer = wire.ask(create_ttl("/t", flags, -1)).await;
        assert_eq!(answer.error, Some(ErrorCode::BadArguments), "flags {flags}");
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn quota_znodes_that_kill_a_real_server_are_ordinary_ones() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    for path in ["/zookeeper/quota/zookeeper_limits", "/zookeeper/zookeeper_limits"] {
        assert_eq!(wire.ask(create(path).data("count=1,bytes=1")).await.error, None);
        assert_eq!(wire.ask(create("/a")).await.error, None);
        assert_eq!(wire.ask(delete("/a")).await.error, None);
        assert_eq!(wire.ask(delete(path)).await.error, None);
    }
    zk.serves_others().await;
}

#[tokio::test(start_paused = true)]
async fn garbage_in_the_statistics_of_a_quota_is_recounted() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    for path in ["/q", "/zookeeper/quota/q", "/zookeeper/quota/q/zookeeper_limits"] {
        wire.ask(create(path).data("count=9,bytes=9")).await;
    }
    let stats = "/zookeeper/quota/q/zookeeper_stats";
    wire.ask(create(stats)).await;
    for garbage in ["", "garbage", "count=,bytes=", "count=99999999999999999999,bytes=0", "\u{0}\u{ff}"] {
        wire.ask(set_data(stats, garbage)).await;
        assert_eq!(wire.ask(set_data("/q", "12345")).await.error, None);
        assert_eq!(wire.ask(get_data(stats)).await.text(), "count=1,bytes=5", "after {garbage:?}");
    }
}
