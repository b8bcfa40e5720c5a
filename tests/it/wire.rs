//! Frames, the handshake, and four-letter words: the bytes on the wire.

use bytes::BytesMut;
use zoolet::server::FourLetterWord;
use zoolet_proto::frame::DEFAULT_MAX_FRAME;
use zoolet_test_support::*;

/// The connect request of reference vector "connect, new session, timeout 10000".
const CONNECT: &[u8] = b"\0\0\0\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x27\x10\0\0\0\0\0\0\0\0\0\0\0\x10\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[tokio::test]
async fn the_handshake_is_what_a_modern_client_reads() {
    let zk = Zk::start_tcp().await;
    let mut wire = zk.raw_tcp().await;
    wire.send_bytes(CONNECT).await;
    let response = wire.payload().await.expect("a connect response");
    assert_eq!(response.len(), 37);
    assert_eq!(response[..8], *b"\0\0\0\0\0\0\x27\x10", "version 0, 10 s");
    assert_eq!(response[8], 1, "the session id begins with the id of a standalone server");
    assert_eq!(response[16..20], *b"\0\0\0\x10", "a password of 16 bytes");
    assert_ne!(response[20..36], [0; 16]);
    assert_eq!(response[36], 0, "not read-only");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_the_read_only_byte_out_gets_none_back() {
    let zk = Zk::start().await;
    for (hello, asked, answered) in [(Hello::new(), 45, 37), (Hello::new().without_read_only_byte(), 44, 36)]
    {
        let mut wire = zk.raw();
        assert_eq!(hello.bytes().len(), 4 + asked);
        wire.send_bytes(&hello.bytes()).await;
        assert_eq!(wire.payload().await.expect("a welcome").len(), answered);

        let mut refused = zk.raw();
        refused.send_bytes(&hello.session(SessionId(77)).bytes()).await;
        let refusal = refused.payload().await.expect("a refusal");
        assert_eq!(
            refusal,
            vec![0; 16].into_iter().chain([0, 0, 0, 16]).chain(vec![0; answered - 20]).collect::<Vec<u8>>()
        );
        refused.expect_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_session_timeout_is_kept_within_2_and_20_ticks() {
    let zk = Zk::start().await;
    for (asked, granted) in [(1, 4_000), (-5, 4_000), (10_000, 10_000), (1_000_000_000, 40_000)] {
        let wire = zk.connect(Hello::new().timeout_ms(asked)).await;
        assert_eq!(wire.welcome.timeout, granted, "asked for {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn any_protocol_version_and_a_null_password_will_do_for_a_new_session() {
    let zk = Zk::start().await;
    let mut wire = zk.connect(Hello::new().protocol_version(7).no_password()).await;
    assert_eq!(wire.welcome.protocol_version, 0);
    assert!(wire.is_alive().await);
}

#[tokio::test(start_paused = true)]
async fn frames_may_come_byte_by_byte() {
    let zk = Zk::start().await;
    let mut wire = zk.raw();
    for byte in Hello::new().bytes() {
        wire.send_bytes(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert!(!wire.expect_welcome().await.is_refusal());
    let mut bytes = BytesMut::new();
    wire.encode(create("/a").xid(1), &mut bytes);
    for byte in bytes {
        wire.send_bytes(&[byte]).await;
        tokio::task::yield_now().await;
    }
    wire.expect(reply(1).path("/a")).await;
}

#[tokio::test(start_paused = true)]
async fn requests_may_follow_the_connect_request_in_one_segment() {
    let zk = Zk::start().await;
    let mut wire = zk.raw();
    let mut bytes = Hello::new().bytes();
    for xid in 1..=100 {
        wire.encode(create(&format!("/n{xid}")).xid(xid), &mut bytes);
    }
    wire.send_bytes(&bytes).await;
    assert!(!wire.expect_welcome().await.is_refusal());
    for xid in 1..=100 {
        wire.expect(reply(xid)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_may_have_the_longest_legal_length_and_not_a_byte_more() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let overhead = create("/big").body().len() + 8;
    let data = vec![7; DEFAULT_MAX_FRAME - overhead];
    assert_eq!(wire.ask(create("/big").data(&data)).await.error, None);
    assert_eq!(wire.ask(get_data("/big")).await.data().expect("data").len(), data.len());

    // The length alone is enough: no body follows.
    wire.send_bytes(&(DEFAULT_MAX_FRAME as i32 + 1).to_be_bytes()).await;
    wire.expect_closed().await;
}

#[tokio::test(start_paused = true)]
async fn replies_may_be_longer_than_the_longest_request() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let name = "n".repeat(1000);
    let creates = (0..1100).map(|n| create(&format!("/{name}{n:04}")));
    wire.pipeline(creates.collect::<Vec<_>>()).await;
    let names = wire.ask(get_children("/")).await.names();
    assert_eq!(names.len(), 1101);
    assert!(names.iter().map(String::len).sum::<usize>() > DEFAULT_MAX_FRAME);
}

#[tokio::test(start_paused = true)]
async fn bytes_after_a_record_are_ignored() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    let body = [create("/a").body(), vec![1, 2, 3, 4, 5]].concat();
    wire.send_raw(1, OpCode::Create.code(), &body).await;
    wire.expect(reply(1).path("/a")).await;
    wire.send_raw(2, OpCode::Ping.code(), &[9; 100]).await;
    wire.expect(reply(-2)).await;
}

#[tokio::test(start_paused = true)]
async fn numbers_are_echoed_whatever_they_are_but_those_of_pings() {
    let zk = Zk::start().await;
    let mut wire = zk.wire().await;
    for xid in [0, -77, i32::MIN, i32::MAX] {
        wire.send(get_data("/").xid(xid)).await;
        wire.expect(reply(xid)).await;
    }
    wire.send(auth("digest", "u:p").xid(5000)).await;
    wire.expect(reply(5000).zxid(0)).await;
    wire.send(set_watches(0, &[], &[], &[]).xid(123)).await;
    wire.expect(reply(123)).await;
    wire.send(ping().xid(77)).await;
    wire.expect(reply(-2)).await;
}

#[tokio::test(start_paused = true)]
async fn everything_asked_before_the_end_of_a_session_is_answered_before_the_end_of_the_connection() {
    let zk = Zk::start().await;
    let data = "x".repeat(500_000);
    zk.create("/big", &data).await;
    let mut wire = zk.wire().await;
    for xid in 1..=8 {
        wire.send(get_data("/big").xid(xid)).await;
    }
    wire.send(close_session().xid(9)).await;
    wire.send(create("/too-late")).await;
    for xid in 1..=8 {
        wire.expect(reply(xid).data(&data)).await;
    }
    wire.expect(reply(9)).await;
    wire.expect_closed().await;
    assert!(!zk.has("/too-late").await, "nothing after the end of a session is executed");
}

#[tokio::test]
async fn the_last_answers_are_not_lost_to_requests_that_come_too_late() {
    let zk = Zk::start_tcp().await;
    let data = "x".repeat(200_000);
    zk.create("/big", &data).await;
    for _ in 0..20 {
        let mut wire = zk.tcp_wire().await;
        let mut bytes = BytesMut::new();
        wire.encode(get_data("/big").xid(1), &mut bytes);
        wire.encode(close_session().xid(2), &mut bytes);
        // A socket that is closed with these unread resets the connection.
        for _ in 0..3_000 {
            wire.encode(ping(), &mut bytes);
        }
        wire.send_bytes(&bytes).await;
        wire.expect(reply(1).data(&data)).await;
        wire.expect(reply(2)).await;
        wire.expect_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_four_letter_word_is_answered_with_text_and_the_end() {
    let zk = Zk::with(|settings| settings.all_four_letter_words()).await;
    for word in FourLetterWord::ALL {
        let mut wire = zk.raw();
        wire.send_bytes(&word.bytes()).await;
        let text = wire.rest().await;
        // The mask that belongs after stmk is missing.
        let silent =
            matches!(word, FourLetterWord::Hash | FourLetterWord::Stmk | FourLetterWord::TelnetClose);
        assert_eq!(text.is_empty(), silent, "{}", word.name());
    }
    assert_eq!(zk.word("ruok").await, "imok");
    assert_eq!(zk.word("isro").await, "rw");
}

#[tokio::test(start_paused = true)]
async fn a_word_that_is_not_enabled_is_refused_and_srvr_always_answers() {
    let zk = Zk::start().await;
    let refusal = "ruok is not executed because it is not in the whitelist.\n";
    assert_eq!(zk.word("ruok").await, refusal);
    assert!(zk.word("srvr").await.starts_with("Zookeeper version: 3.9.5"));
}

#[tokio::test(start_paused = true)]
async fn a_word_may_come_in_pieces_and_with_a_newline() {
    let zk = Zk::with(|settings| settings.four_letter_words([FourLetterWord::Ruok])).await;
    let mut wire = zk.raw();
    for byte in b"ruok" {
        wire.send_bytes(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    // The server may have closed by now, and need not read it.
    let _ = wire.try_send_bytes(b"\r\n").await;
    assert_eq!(wire.rest().await, b"imok");
}

#[tokio::test(start_paused = true)]
async fn four_other_letters_are_a_length_that_is_too_long() {
    let zk = Zk::with(|settings| settings.all_four_letter_words()).await;
    for letters in ["ruoK", "rouk", "GET "] {
        let mut wire = zk.raw();
        wire.send_bytes(letters.as_bytes()).await;
        wire.expect_closed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_handshake_a_four_letter_word_is_a_frame_length() {
    let zk = Zk::with(|settings| settings.all_four_letter_words()).await;
    let mut wire = zk.wire().await;
    wire.send_bytes(b"ruok").await;
    wire.expect_closed().await;

    // In one segment with the connect request it is none either.
    let mut wire = zk.raw();
    wire.send_bytes(&[&Hello::new().bytes()[..], b"ruok"].concat()).await;
    assert!(!wire.rest().await.ends_with(b"imok"));
}
