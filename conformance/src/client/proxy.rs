//! [`ClientProxy`]: the strict server that the command connects to: several ports before one real server, with a judge at the frames.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};
use zoolet_proto::{FourLetterWord, Request};

use crate::client::director::{Director, Disposition, Progress};
use crate::client::evidence::Mistake;
use crate::client::judge::{End, Judge};
use crate::client::scenario::Disturbance;
use crate::wire::connection::{ANSWER_LIMIT, Connection, SESSION_TIMEOUT};
use crate::wire::conversation::{Conversation, Frames, FromClient, FromServer};
use crate::wire::encoding::framed;
use crate::wire::proxy::{Proxy, connect};

/// How many addresses the command gets.
const PORTS: usize = 3;

/// How long the answer to a handshake is kept back, so that a client that does not wait for it is seen.
const HANDSHAKE: Duration = Duration::from_millis(30);

/// How long a client may go on after the end of a connection was sent.
const DRAIN: Duration = Duration::from_secs(5);

/// Ports that clients connect to while they are judged.
pub(crate) struct ClientProxy {
    ports: Vec<Proxy>,
    state: Arc<ProxyState>,
}

/// What all connections share.
struct ProxyState {
    server: String,
    begun: Instant,
    judging: Mutex<Judging>,
}

struct Judging {
    judge: Judge,
    director: Director,
    /// A pair for each connection, in the order of their numbers.
    links: Vec<(Conversation, Progress)>,
    /// How many of them the client has not ended yet.
    open: usize,
    /// Why a connection of the client could not be let in, which is not its fault.
    failed: Option<io::Error>,
}

impl ClientProxy {
    /// Listens.
    pub(crate) async fn start(server: SocketAddr, disturbance: Disturbance) -> io::Result<Self> {
        let (judge, director) = (Judge::default(), Director::new(disturbance));
        let judging = Judging { judge, director, links: Vec::new(), open: 0, failed: None };
        let (server, judging) = (server.to_string(), Mutex::new(judging));
        let state = Arc::new(ProxyState { server, begun: Instant::now(), judging });
        let mut ports = Vec::new();
        for port in 0..PORTS {
            let (failing, serving) = (Arc::clone(&state), Arc::clone(&state));
            let serve = move |client| {
                let state = Arc::clone(&serving);
                async move { state.serve(port, client).await }
            };
            ports.push(Proxy::start("127.0.0.1:0", move |error| failing.fail(error), serve).await?);
        }
        Ok(Self { ports, state })
    }

    /// The ports, as clients want them.
    pub(crate) fn connect_string(&self) -> String {
        self.ports.iter().map(|port| port.address.to_string()).collect::<Vec<_>>().join(",")
    }

    /// The program is over: whether the scenario has taken place, and the mistakes.
    ///
    /// # Errors
    /// If not all connections of the client could be let in: what it did then shows nothing.
    pub(crate) async fn finish(self) -> io::Result<(Result<(), String>, Vec<Mistake>)> {
        // What the program has sent last is still on its way.
        for _ in 0..40 {
            if self.state.judging().open == 0 {
                break;
            }
            sleep(Duration::from_millis(25)).await;
        }
        drop(self.ports);
        let now = self.state.begun.elapsed();
        let mut judging = self.state.judging();
        if let Some(error) = judging.failed.take() {
            return Err(error);
        }
        let exercised = judging.director.exercised(&judging.judge, judging.links.len());
        Ok((exercised, std::mem::take(&mut judging.judge).finish(now)))
    }
}

impl ProxyState {
    fn judging(&self) -> MutexGuard<'_, Judging> {
        self.judging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: io::Error) {
        self.judging().failed.get_or_insert(error);
    }

    /// Serves a connection to a port.
    async fn serve(&self, port: usize, mut client: TcpStream) {
        if !self.judging().director.admits(port) {
            return;
        }
        let mut server = match connect(&client, &self.server).await {
            Ok(server) => server,
            Err(error) => return self.fail(error),
        };
        let mut first = [0; 4];
        let Ok(1..) = client.peek(&mut first).await else { return };
        if FourLetterWord::from_bytes(first).is_some() {
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
        let number = {
            let mut judging = self.judging();
            judging.open += 1;
            judging.links.push((Conversation::default(), Progress::default()));
            judging.judge.open()
        };
        let (from_client, mut to_client) = client.into_split();
        let (from_server, mut to_server) = server.into_split();
        let link = Link { state: self, number, port };
        let mut from_client = Reading { half: from_client, frames: Frames::default() };
        let mut from_server = Reading { half: from_server, frames: Frames::default() };
        let end = tokio::select! {
            end = link.up(&mut from_client, Some(&mut to_server)) => end,
            end = link.down(&mut from_server, &mut to_client) => end,
        };
        link.ended(end);
        drop((from_server, to_server));
        if end == End::Peer {
            // A connection that is closed while bytes of the client are on their way loses what the client has not read.
            let _ = to_client.shutdown().await;
            let _ = timeout(DRAIN, link.up(&mut from_client, None)).await;
        }
        self.judging().open -= 1;
    }
}

/// A half of a connection that is read.
struct Reading {
    half: OwnedReadHalf,
    frames: Frames,
}

impl Reading {
    /// The next payload; none at the end. Fails, with the bytes, if there is no frame.
    async fn next(&mut self) -> Result<Option<Bytes>, (Bytes, String)> {
        let received = self.frames.receive(&mut self.half).await;
        received.map_err(|error| (self.frames.take(), error))
    }
}

/// A connection that has begun with a frame.
struct Link<'p> {
    state: &'p ProxyState,
    number: usize,
    port: usize,
}

impl Link<'_> {
    /// Passes on what the client sends. Without a server, the connection is over and the client may not know it.
    async fn up(&self, client: &mut Reading, mut server: Option<&mut OwnedWriteHalf>) -> End {
        loop {
            let payload = match client.next().await {
                Ok(Some(payload)) => payload,
                Ok(None) => return End::Client,
                Err((bytes, error)) => {
                    let at = self.state.begun.elapsed();
                    self.state.judging().judge.no_frame(self.number, at, &bytes, error);
                    return End::Peer;
                }
            };
            if !self.sent(&payload, server.is_some()) {
                return End::Peer;
            }
            if let Some(server) = &mut server {
                // A server that has closed is noticed where its last frames are read.
                let _ = server.write_all(&framed(&payload)).await;
            }
        }
    }

    /// Passes on what the server sends.
    async fn down(&self, server: &mut Reading, client: &mut OwnedWriteHalf) -> End {
        while let Ok(Some(payload)) = server.next().await {
            let Some((message, disposition)) = self.decide(&payload) else { return End::Peer };
            if disposition == Disposition::DropThenCut {
                return End::Peer;
            }
            if let FromServer::Connected(_) = message {
                sleep(HANDSHAKE).await;
            }
            let at = self.state.begun.elapsed();
            self.state.judging().judge.server_sent(self.number, at, &message);
            if client.write_all(&framed(&payload)).await.is_err() {
                return End::Client;
            }
            match disposition {
                Disposition::DeliverThenExpire => {
                    self.expire().await;
                    return End::Peer;
                }
                Disposition::DeliverThenCut => return End::Peer,
                Disposition::Deliver | Disposition::DropThenCut => {}
            }
        }
        End::Peer
    }

    /// Judges a frame of the client. Returns whether a server takes it.
    fn sent(&self, payload: &Bytes, is_connected: bool) -> bool {
        let at = self.state.begun.elapsed();
        let mut judging = self.state.judging();
        let Judging { judge, director, links, .. } = &mut *judging;
        let (conversation, progress) = &mut links[self.number - 1];
        let message = conversation.from_client(payload);
        judge.client_sent(self.number, at, payload, &message);
        match &message {
            Ok(FromClient::Connect(connect)) => director.answers(self.port, connect, judge),
            Ok(FromClient::Request(request)) if is_connected => {
                director.requested(request.op, at, progress);
                true
            }
            _ => true,
        }
    }

    /// Decodes a frame of the server, and decides what becomes of it; nothing if it does not decode.
    fn decide(&self, payload: &Bytes) -> Option<(FromServer, Disposition)> {
        let at = self.state.begun.elapsed();
        let mut judging = self.state.judging();
        let Judging { judge, director, links, .. } = &mut *judging;
        let (conversation, progress) = &mut links[self.number - 1];
        let message = conversation.from_server(payload).ok()?;
        let disposition = director.disposition(&message, at, judge, (self.number, self.port), progress);
        Some((message, disposition))
    }

    fn ended(&self, end: End) {
        let at = self.state.begun.elapsed();
        let mut judging = self.state.judging();
        let Judging { judge, director, links, .. } = &mut *judging;
        director.idle(at, &links[self.number - 1].1);
        judge.ended(self.number, at, end);
    }

    /// Closes the session without a word to its client, to which it is as if it had expired.
    async fn expire(&self) {
        let session = {
            let judging = self.state.judging();
            judging.judge.session(self.number).map(|session| (session.id.0, session.password.clone()))
        };
        let connecting = Connection::to(&self.state.server, ANSWER_LIMIT).await;
        let (Some(session), Ok(mut other)) = (session, connecting) else { return };
        // If the session is not closed, it is not refused later, and the scenario has not taken place.
        if other.open(session, 0, SESSION_TIMEOUT).await.is_ok() {
            let _ = other.ask(&Request::CloseSession).await;
        }
    }
}
