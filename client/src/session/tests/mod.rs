//! The session without a runtime: frames and instants in, frames and outcomes out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zoolet_clock::Clock;
use zoolet_proto::records::{ConnectRequest, ConnectResponse, WatchedEvent};
use zoolet_proto::{
    ErrorCode, EventType, Incoming, KeeperState, OpCode, Reply, ReplyHeader, Request, SessionId, Stat, Xid,
    Zxid, frame, jute, records,
};

use super::{Session, SessionSettings, WantedLink};
use crate::call::PendingReply;
use crate::chroot::Chroot;
use crate::command::{CallOutcome, DriverCommand, ReplyExtra, ReplyTo, Submission};
use crate::error::Error;
use crate::options::ConnectOptions;
use crate::server_list::ServerList;
use crate::state::{SessionState, SharedState};
use crate::transport::IntoTransport;
use crate::watch::{Watch, WatchStream, WatchUpdate};

mod before_3_5;
mod calls;
mod feed;
mod life;
mod lost;
mod probe;
mod sasl;
mod time;
mod watches;

const TIMEOUT: Duration = Duration::from_secs(9);
const THIRD: Duration = Duration::from_secs(3);
const MS: Duration = Duration::from_millis(1);

/// A session with its inputs, outputs and time in the hands of the test.
struct Harness {
    session: Session,
    shared: Arc<SharedState>,
    now: Instant,
    handles: mpsc::UnboundedSender<DriverCommand>,
    commands: mpsc::UnboundedReceiver<DriverCommand>,
}

struct Pending(PendingReply);

impl Pending {
    fn outcome(&mut self) -> Option<CallOutcome> {
        match &mut self.0 {
            PendingReply::Sent { outcome, .. } => outcome.try_recv().ok().map(|answered| answered.outcome),
            _ => panic!("the harness sends every call"),
        }
    }

    fn error(&mut self) -> Error {
        self.outcome().expect("an outcome").expect_err("an error")
    }

    fn is_open(&mut self) -> bool {
        self.outcome().is_none()
    }

    fn watch(&mut self) -> Watch {
        match *self.outcome().expect("an outcome").expect("success").extra.expect("a watch") {
            ReplyExtra::Watch(watch) => watch,
            _ => panic!("a one-shot watch"),
        }
    }

    fn stream(&mut self) -> WatchStream {
        match *self.outcome().expect("an outcome").expect("success").extra.expect("a watch") {
            ReplyExtra::WatchStream(stream) => stream,
            _ => panic!("a persistent watch"),
        }
    }
}

fn get(path: &str) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch: false })
}

fn get_watched(path: &str) -> Request {
    Request::GetData(records::GetData { path: path.into(), watch: true })
}

fn exists_watched(path: &str) -> Request {
    Request::Exists(records::Exists { path: path.into(), watch: true })
}

fn list_watched(path: &str) -> Request {
    Request::GetChildren2(records::GetChildren { path: path.into(), watch: true })
}

fn add_watch(path: &str, mode: i32) -> Request {
    Request::AddWatch(records::AddWatch { path: Some(path.into()), mode })
}

fn remove(path: &str, kind: i32) -> Request {
    Request::RemoveWatches(records::RemoveWatches { path: Some(path.into()), kind })
}

fn set_watches(since: i64, data: &[&str]) -> Request {
    let data = data.iter().map(|path| (*path).to_owned()).collect();
    let (exist, child) = (Vec::new(), Vec::new());
    Request::SetWatches(records::SetWatches { relative_zxid: Zxid(since), data, exist, child })
}

fn sync(path: &str) -> Request {
    Request::Sync(records::Sync { path: Some(path.into()) })
}

fn set(path: &str) -> Request {
    Request::SetData(records::SetData { path: path.into(), data: None, version: -1 })
}

fn auth(credentials: &'static str) -> Request {
    let credentials = Some(Bytes::from_static(credentials.as_bytes()));
    Request::Auth(records::AuthPacket { kind: 0, scheme: Some("digest".into()), auth: credentials })
}

fn data() -> Reply {
    Reply::Data(None, Stat::default())
}

/// A connect response.
fn connect_response(session: i64, read_only: bool) -> ConnectResponse {
    let (password, session) = (Bytes::from_static(&[9; 16]), SessionId(session));
    let timeout = TIMEOUT.as_millis() as i32;
    ConnectResponse { protocol_version: 0, timeout, session, password, read_only: Some(read_only) }
}

fn settings() -> SessionSettings {
    SessionSettings {
        session_timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        read_only: false,
        max_request: 1000,
        max_reply: 100_000,
        auths: Vec::new(),
        sasl: None,
        resume: None,
        expire_locally: false,
        last_zxid: Zxid(0),
        seed: 7,
    }
}

impl Harness {
    fn new(settings: SessionSettings) -> Self {
        Self::with_servers(settings, None)
    }

    /// As [`Harness::new`], with two hosts to choose from.
    fn with_two_hosts(settings: SessionSettings) -> Self {
        Self::with_servers(settings, "a,b".into_transport().expect("a list").servers())
    }

    fn with_servers(settings: SessionSettings, servers: Option<ServerList>) -> Self {
        let clock = Clock::manual();
        let now = clock.now();
        let rng = StdRng::seed_from_u64(settings.seed);
        let mut options = ConnectOptions::default().clock(clock);
        options.session = settings.clone();
        let shared = Arc::new(SharedState::new(&options, servers, rng));
        let (handles, commands) = mpsc::unbounded_channel();
        let session = Session::new(settings, Arc::clone(&shared), handles.downgrade(), now);
        Self { session, shared, now, handles, commands }
    }

    /// A harness with an established session.
    fn up() -> Self {
        let mut harness = Self::new(settings());
        harness.connect();
        harness
    }

    /// Completes the next handshake and returns the connect request.
    fn connect(&mut self) -> ConnectRequest {
        self.connect_to(false)
    }

    fn connect_to(&mut self, read_only: bool) -> ConnectRequest {
        while self.session.wanted_link() != WantedLink::Dialing {
            self.now = self.session.next_timeout().expect("a time for the next attempt");
            self.session.handle_timeout(self.now);
        }
        self.session.handle_connected(self.now);
        let request = jute::parse(&self.frames()[0]).expect("a connect request");
        self.frame(|out| connect_response(5, read_only).encode_frame(out));
        request
    }

    fn cut(&mut self) {
        self.session.handle_loss(self.now, std::io::ErrorKind::ConnectionReset.into());
    }

    fn call(&mut self, request: Request) -> Pending {
        self.call_within(request, None)
    }

    fn call_within(&mut self, request: Request, timeout: Option<Duration>) -> Pending {
        let (reply_to, waiting) = PendingReply::channel(request.op());
        let deadline = timeout.map(|timeout| self.now + timeout);
        let mut call = Submission::internal(request);
        (call.reply_to, call.deadline) = (reply_to, deadline);
        self.session.handle_command(self.now, DriverCommand::Submit(call));
        Pending(waiting)
    }

    fn close(&mut self) -> Pending {
        let (reply_to, waiting) = PendingReply::channel(OpCode::CloseSession);
        self.session.handle_command(self.now, DriverCommand::Close(reply_to));
        Pending(waiting)
    }

    /// Handles the commands of dropped watches.
    fn settle(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.session.handle_command(self.now, command);
        }
    }

    fn frames(&mut self) -> Vec<Vec<u8>> {
        let out = std::mem::take(self.session.out());
        let mut rest = &out[..];
        let mut frames = Vec::new();
        while let Some(frame) = frame::split(rest, 10_000_000).expect("a legal length") {
            frames.push(frame.to_vec());
            rest = &rest[frame::PREFIX + frame.len()..];
        }
        assert!(rest.is_empty(), "half a frame");
        frames
    }

    /// The requests written since the last call.
    fn sent(&mut self) -> Vec<Request> {
        self.incoming().into_iter().map(|incoming| incoming.body.expect("a request")).collect()
    }

    fn incoming(&mut self) -> Vec<Incoming> {
        self.frames().iter().map(|frame| Incoming::parse(frame).expect("a header")).collect()
    }

    fn frame(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        let mut wire = BytesMut::new();
        encode(&mut wire);
        self.session.handle_heard(self.now);
        if let Err(broken) = self.session.handle_frame(self.now, &wire[frame::PREFIX..]) {
            self.session.handle_loss(self.now, std::io::Error::other(broken.0));
        }
    }

    fn reply(&mut self, xid: i32, zxid: i64, reply: Reply) {
        self.frame(|out| reply.encode_frame(ReplyHeader::ok(Xid(xid), Zxid(zxid)), out));
    }

    fn refuse(&mut self, xid: i32, code: ErrorCode) {
        self.refuse_at(xid, 1, code);
    }

    fn refuse_at(&mut self, xid: i32, zxid: i64, code: ErrorCode) {
        self.frame(|out| Reply::Empty.encode_frame(ReplyHeader::error(Xid(xid), Zxid(zxid), code), out));
    }

    /// A reply with a body that is larger than is read.
    fn oversize(&mut self, xid: i32, zxid: i64) {
        let mut wire = BytesMut::new();
        Reply::Empty.encode_frame(ReplyHeader::ok(Xid(xid), Zxid(zxid)), &mut wire);
        let handled = self.session.handle_oversize(self.now, &wire[frame::PREFIX..], 1 << 20);
        handled.expect("a reply to a request");
    }

    fn event(&mut self, zxid: i64, kind: EventType, path: &str) {
        let event = WatchedEvent { kind, state: KeeperState::SyncConnected, path: path.into() };
        self.frame(|out| Reply::Event(event).encode_frame(ReplyHeader::ok(Xid::EVENT, Zxid(zxid)), out));
    }

    /// Lets time pass, and handles every timeout at its time.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.session.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.session.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// The xid of the latest request.
    fn last_xid(&self) -> i32 {
        self.session.calls.last_xid()
    }

    fn state(&self) -> SessionState {
        self.shared.state()
    }
}

fn event_of(watch: &mut Watch) -> Option<Result<EventType, Error>> {
    watch.changed.try_recv().ok().map(|outcome| outcome.map(|event| event.kind))
}

fn next(stream: &WatchStream) -> Option<WatchUpdate> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match stream.queue.poll_next(&mut cx) {
        std::task::Poll::Ready(update) => update,
        std::task::Poll::Pending => None,
    }
}
