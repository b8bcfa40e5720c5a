//! The HTTP server by raw bytes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::limits::{
    FINISH_TIME, IDLE_TIMEOUT, LIST_TIME, LIST_WAIT, MAX_CONNECTIONS_PER_ADDRESS, MAX_LISTS, STALLED,
};
use super::{Answering, HttpBody, HttpHandler, HttpRequest, HttpResponse, HttpServer, ListPermits};

/// Steps of an answer to `/steps`, each after a wait.
const STEPS: usize = 4;

/// Answers `/echo` with what it was asked, `/count` and counts it, `/steps` and counts each of
/// its steps, `/stream` with a megabyte in pieces, `/list` with 32 megabytes for which there is a permit, `/body` with the length of the body.
struct Echo {
    /// Pieces of streams that were taken.
    pieces: Arc<AtomicUsize>,
    /// Requests for `/count`, and steps of those for `/steps`.
    answers: Arc<AtomicUsize>,
    lists: ListPermits,
}

impl HttpHandler for Echo {
    fn handle<'r>(&'r self, request: HttpRequest, body: &'r mut HttpBody) -> Answering<'r> {
        Box::pin(async move {
            match &*request.path {
                "/stream" => {
                    let (response, sender) = HttpResponse::stream(StatusCode::OK, "text/plain", None);
                    let pieces = Arc::clone(&self.pieces);
                    tokio::spawn(async move {
                        while pieces.load(Relaxed) < 1_000 {
                            if sender.send(Ok(Bytes::from_static(&[b'x'; 64 << 10]))).await.is_err() {
                                return;
                            }
                            pieces.fetch_add(1, Relaxed);
                        }
                    });
                    response
                }
                "/list" => {
                    let permit = self.lists.take().await;
                    let status =
                        if permit.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                    HttpResponse::text(status, "text/plain", vec![b'x'; 32 << 20]).holding(permit, &request)
                }
                "/body" if request.is_post => match body.collect(1_000).await {
                    Ok(body) => HttpResponse::text(StatusCode::OK, "text/plain", body.len().to_string()),
                    Err(error) => {
                        HttpResponse::text(StatusCode::BAD_REQUEST, "text/plain", error.to_string())
                    }
                },
                "/sink" => {
                    let mut len = 0;
                    let outcome = loop {
                        match body.next().await {
                            Ok(Some(piece)) => len += piece.len(),
                            Ok(None) => break len.to_string(),
                            Err(error) => break error.to_string(),
                        }
                    };
                    HttpResponse::text(StatusCode::OK, "text/plain", outcome)
                }
                "/slow" => std::future::pending().await,
                path @ ("/count" | "/steps") => {
                    self.answers.fetch_add(1, Relaxed);
                    if path == "/steps" {
                        for _ in 1..STEPS {
                            tokio::task::yield_now().await;
                            self.answers.fetch_add(1, Relaxed);
                        }
                    }
                    HttpResponse::text(StatusCode::OK, "text/plain", "counted".to_owned())
                }
                path => {
                    let a = request.argument("a").unwrap_or("-");
                    let method = if request.is_post { "Post" } else { "Get" };
                    let text = format!("{method} {path} {a} {}", request.client.addr.ip());
                    HttpResponse::text(StatusCode::OK, "text/plain", text)
                }
            }
        })
    }
}

async fn start() -> (HttpServer, Echo) {
    start_at("127.0.0.1:0").await
}

async fn start_at(addr: &str) -> (HttpServer, Echo) {
    let handler = Echo { pieces: Arc::default(), answers: Arc::default(), lists: ListPermits::new() };
    let shared = Echo {
        pieces: Arc::clone(&handler.pieces),
        answers: Arc::clone(&handler.answers),
        lists: handler.lists.clone(),
    };
    let server = HttpServer::start(addr, &[], IDLE_TIMEOUT, shared, None).await;
    (server.expect("a free port"), handler)
}

async fn connect(server: &HttpServer) -> TcpStream {
    TcpStream::connect(server.addr()).await.expect("a connection")
}

/// Sends bytes, and returns what comes until the server closes.
async fn raw(server: &HttpServer, bytes: &str) -> String {
    let mut stream = connect(server).await;
    stream.write_all(bytes.as_bytes()).await.expect("sent");
    let mut text = Vec::new();
    // A reset after the answer is an end as well.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).expect("text")
}

/// The status, the header fields in small letters, and the body.
fn parts(answer: &str) -> (&str, String, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("an answer: {answer:?}"));
    let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    (status.strip_prefix("HTTP/1.1 ").expect("a status"), fields.to_lowercase(), body)
}

#[tokio::test]
async fn everywhere_is_ipv4_too() {
    let (server, _) = start_at("[::]:0").await;
    let connected = TcpStream::connect((Ipv4Addr::LOCALHOST, server.addr().port())).await;
    connected.expect("a connection");
}

#[tokio::test]
async fn a_request_is_decoded_and_a_connection_kept() {
    let (server, _) = start().await;
    let mut stream = connect(&server).await;
    for _ in 0..3 {
        stream
            .write_all(b"GET /e%20cho?b=1&a=%2F+&a=2 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"127.0.0.1") {
            answer.push(stream.read_u8().await.expect("an answer"));
        }
        let answer = String::from_utf8(answer).expect("text");
        let (status, fields, body) = parts(&answer);
        assert_eq!((status, body), ("200 OK", "Get /e cho /  127.0.0.1"));
        assert!(
            fields.contains("content-length: 23") && fields.contains("content-type: text/plain"),
            "{fields}"
        );
    }
    server.shutdown().await;
}

#[tokio::test]
async fn everybody_else_is_served_between_two_answers_however_many_requests_have_come() {
    const EACH: usize = 100;
    for (path, steps) in [("/count", 1), ("/steps", STEPS)] {
        let (server, handler) = start().await;
        let mut streams = Vec::new();
        for _ in 0..5 {
            let mut stream = connect(&server).await;
            let requests = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(EACH);
            stream.write_all(requests.as_bytes()).await.expect("sent");
            streams.push(stream);
        }
        let (mut before, mut most) = (handler.answers.load(Relaxed), 0);
        while before < 5 * EACH * steps {
            tokio::task::yield_now().await;
            let now = handler.answers.load(Relaxed);
            most = most.max(now - before);
            before = now;
        }
        assert_eq!(most, 1, "answers while somebody waited: {path}");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn methods_are_answered_as_jetty_answers_them() {
    let (server, _) = start().await;
    let ask = async |method: &str| {
        raw(&server, &format!("{method} /x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
    };
    for (method, status) in [
        ("OPTIONS", "200 OK"),
        ("TRACE", "403 Forbidden"),
        ("PUT", "405 Method Not Allowed"),
        ("DELETE", "405 Method Not Allowed"),
        ("PATCH", "405 Method Not Allowed"),
        ("HEAD", "200 OK"),
    ] {
        let answer = ask(method).await;
        let (got, fields, body) = parts(&answer);
        assert_eq!((got, body), (status, ""), "{method}");
        let allows = fields.contains("allow: get, head, post, trace, options");
        assert_eq!(allows, method == "OPTIONS", "{fields}");
        if method == "HEAD" {
            assert!(fields.contains("content-length: 18"), "{fields}");
        }
    }
    assert_eq!(parts(&ask("POST").await).2, "Post /x - 127.0.0.1");
}

#[tokio::test]
async fn a_host_is_needed_except_in_http_1_0_and_paths_must_be_text() {
    let (server, _) = start().await;
    assert_eq!(
        parts(&raw(&server, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await).0,
        "400 Bad Request"
    );
    assert!(raw(&server, "GET / HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 OK"));
    let garbage = raw(&server, "GET /%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert_eq!(parts(&garbage).0, "400 Bad Request");
}

#[tokio::test]
async fn heads_and_bodies_have_a_longest_length() {
    let (server, _) = start().await;
    let long = format!("GET / HTTP/1.1\r\nhost: localhost\r\na: {}\r\n\r\n", "x".repeat(9_000));
    assert!(raw(&server, &long).await.starts_with("HTTP/1.1 431 "));
    let post = |len: usize| {
        let body = "x".repeat(len);
        format!(
            "POST /body HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        )
    };
    assert_eq!(parts(&raw(&server, &post(1_000)).await).2, "1000");
    let answer = raw(&server, &post(100_000)).await;
    let (status, _, body) = parts(&answer);
    assert_eq!((status, body), ("400 Bad Request", "the body is longer than 1000 bytes"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_and_an_idle_connection_end_after_the_idle_timeout() {
    let (server, _) = start().await;
    for begin in ["", "GET / HTTP/1.1\r\nhost: localhost\r\n"] {
        let begun = Instant::now();
        let mut stream = connect(&server).await;
        stream.write_all(begin.as_bytes()).await.expect("sent");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let took = begun.elapsed();
        assert!(took >= IDLE_TIMEOUT && took < IDLE_TIMEOUT + Duration::from_secs(1), "{begin:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_rests_or_trickles_is_refused_and_a_slow_one_is_taken() {
    let (server, _) = start().await;
    for (piece, pause, answer) in [
        (1, 20, "the client has sent fewer than 16384 bytes in 30s"),
        (1, 100, "the client has sent fewer than 16384 bytes in 30s"),
        (16 << 10, 20, "98304"),
    ] {
        let mut stream = connect(&server).await;
        let head = format!(
            "POST /sink HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            piece * 6
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let (mut reader, mut writer) = stream.split();
        let send = async {
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                // Refused, the body is not read to its end.
                let _ = writer.write_all(&vec![b'x'; piece]).await;
            }
        };
        let mut got = String::new();
        let read = reader.read_to_string(&mut got);
        let _ = tokio::join!(send, read);
        assert_eq!(parts(&got).2, answer, "{piece} bytes each {pause} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_holds_little_and_is_cut_off() {
    let (server, echo) = start().await;
    let mut stream = connect(&server).await;
    let begun = Instant::now();
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    // The server's end is closed, and nothing more is made of the stream.
    while Arc::strong_count(&echo.pieces) > 2 || echo.pieces.load(Relaxed) == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{} pieces", echo.pieces.load(Relaxed));
    }
    // The kernel keeps some megabytes for the two sockets.
    assert!(echo.pieces.load(Relaxed) < 200, "{} pieces of 64 KiB", echo.pieces.load(Relaxed));
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_reads_is_one_of_those_that_are_sent_and_a_slow_reader_gets_a_minute_for_it() {
    /// What a slow reader takes of a list each second.
    const TAKEN: usize = 128 << 10;
    const LIST: &[u8] = b"GET /list HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let (server, _) = start().await;
    let status = async |stream: &mut TcpStream| {
        stream.write_all(LIST).await.expect("sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.expect("a status");
        String::from_utf8_lossy(&status[9..]).into_owned()
    };
    let mut readers = Vec::new();
    for _ in 0..MAX_LISTS {
        let mut stream = connect(&server).await;
        assert_eq!(status(&mut stream).await, "200");
        readers.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(status(&mut connect(&server).await).await, "503");
    assert!(begun.elapsed() >= LIST_WAIT, "{:?}", begun.elapsed());
    let mut is_served = tokio::spawn({
        let addr = server.addr();
        async move {
            tokio::time::sleep_until(begun + LIST_TIME - LIST_WAIT / 2).await;
            let mut next = TcpStream::connect(addr).await.expect("a connection");
            next.write_all(LIST).await.expect("sent");
            let mut status = [0; 12];
            next.read_exact(&mut status).await.expect("a status");
            assert_eq!(&status[9..], b"200");
        }
    });
    let mut piece = vec![0; TAKEN];
    while !is_served.is_finished() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for stream in &mut readers {
            // Until it is cut off.
            let _ = stream.read_exact(&mut piece).await;
        }
    }
    (&mut is_served).await.expect("the next one");
    assert!(begun.elapsed() >= LIST_TIME, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn silent_connections_and_slow_requests_keep_nobody_out_for_longer_than_a_second() {
    const ASKED: &str = "GET /x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for begin in
        ["", "GET / HTTP/1.1\r\n", "POST /body HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nbody"]
    {
        let (server, _) = start().await;
        let mut busy = connect(&server).await;
        busy.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
        let mut silent = Vec::new();
        for _ in 1..MAX_CONNECTIONS_PER_ADDRESS {
            let mut stream = connect(&server).await;
            stream.write_all(begin.as_bytes()).await.expect("sent");
            silent.push(stream);
        }
        assert_eq!(raw(&server, ASKED).await, "", "they are young: {begin:?}");
        tokio::time::advance(STALLED).await;
        for _ in 0..3 {
            let answer = raw(&server, ASKED).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{begin:?}: {answer:?}");
        }
        assert_eq!(silent[0].read(&mut [0]).await.expect("an end"), 0, "the oldest has made room");
        assert!(tokio::time::timeout(STALLED, busy.read_u8()).await.is_err(), "a request is under way");
    }
}

#[tokio::test(start_paused = true)]
async fn one_address_takes_only_so_many_connections() {
    let (server, _) = start().await;
    let mut open = Vec::new();
    for _ in 0..MAX_CONNECTIONS_PER_ADDRESS {
        let mut stream = connect(&server).await;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
        assert_eq!(stream.read_u8().await.expect("an answer"), b'H');
        open.push(stream);
    }
    assert_eq!(raw(&server, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await, "");
    open.clear();
    // The server learns of the ends one by one.
    while raw(&server, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.is_empty() {}
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_half_a_second_for_requests_and_leaves_nothing() {
    let (server, echo) = start().await;
    let addr = server.addr();
    let mut idle = connect(&server).await;
    let mut busy = connect(&server).await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    assert_eq!(idle.read_u8().await.expect("an answer"), b'H');
    let begun = Instant::now();
    server.shutdown().await;
    assert!(begun.elapsed() < FINISH_TIME * 2, "{:?}", begun.elapsed());
    assert_eq!(Arc::strong_count(&echo.pieces), 1, "the handler is dropped");
    assert!(TcpStream::connect(addr).await.is_err());
    let mut rest = Vec::new();
    assert_eq!(busy.read_to_end(&mut rest).await.unwrap_or(0), 0);
}
