//! The task behind [`Sessions`](super::Sessions): opens a session, waits for its end, opens the next.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{mpsc, oneshot, watch};
use zoolet_clock::Clock;
use zoolet_proto::{SessionId, Zxid};

use super::epoch::{FreshSession, fresh_session, may_be_behind};
use super::{Broadcast, SessionObserver, SessionTerm, SessionsChange, SessionsState, Standing};
use crate::client::Client;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::options::ConnectOptions;
use crate::state::SessionState;
use crate::transport::{SharedTransport, Transport};

/// The pause before the next attempt to open a session doubles from the first to the longest. The client that is being
/// opened has tried every server for its connect timeout before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Supervisor {
    options: ConnectOptions,
    transport: SharedTransport,
    broadcast: Arc<Broadcast>,
    publish: watch::Sender<Standing>,
    /// Who waits for the close; the channel is closed when the last handle is gone.
    close_requests: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    clock: Clock,
    rng: StdRng,
    /// The number of the present session, or of the one that is being opened.
    number: u64,
    epoch: u64,
    /// The highest zxid of this epoch that a session which is over has seen.
    seen: Zxid,
    /// Attempts and short sessions in a row.
    failures: u32,
}

/// What ends the wait for a session, or in one.
enum Turn {
    /// Close, and open no other; with who waits for it.
    Close(Option<oneshot::Sender<()>>),
    /// The session is over.
    Over,
    /// The servers are behind the session; this is a session at one of them.
    Reset(FreshSession),
}

impl Supervisor {
    pub(super) fn new(
        options: ConnectOptions,
        transport: Transport,
        broadcast: Arc<Broadcast>,
        publish: watch::Sender<Standing>,
        close_requests: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    ) -> Self {
        let rng = options.seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64);
        let seen = options.session.last_zxid;
        broadcast.set_seen(seen);
        Self {
            clock: options.clock.clone(),
            options,
            transport: SharedTransport::new(transport),
            broadcast,
            publish,
            close_requests,
            rng,
            number: 0,
            epoch: 0,
            seen,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let mut reset = None;
        loop {
            let opened = match reset.take() {
                Some(client) => Ok(Ok(client)),
                None => {
                    self.number += 1;
                    if self.number > 1 {
                        self.announce(SessionsState::Opening, None);
                    }
                    self.open().await
                }
            };
            let client = match opened {
                Ok(Ok(client)) => client,
                Ok(Err(error)) => return self.end(error),
                Err(waiting) => {
                    return self.closed(waiting);
                }
            };
            match self.serve(&client).await {
                Turn::Over => self.note_seen(client.last_zxid()),
                Turn::Close(waiting) => {
                    let closed = client.close().await;
                    if let Err(error) = closed {
                        tracing::warn!(%error, "the session was not closed; the server expires it");
                    }
                    return self.closed(waiting);
                }
                Turn::Reset(fresh) => {
                    self.note_seen(client.last_zxid());
                    self.publish.send_replace(Standing::Between);
                    client.give_up("the servers went back to an older state");
                    // Its last change comes before that of the next session.
                    client.ended().await;
                    self.number += 1;
                    reset = Some(self.adopt(fresh));
                }
            }
            self.publish.send_replace(Standing::Between);
        }
    }

    /// Opens the next session. The outer error is a request to close.
    async fn open(&mut self) -> Result<Result<Client, Error>, Option<oneshot::Sender<()>>> {
        loop {
            let connecting =
                self.options_of(self.number).last_zxid(self.seen).connect(self.transport.share());
            let error = tokio::select! {
                biased;
                waiting = self.close_requests.recv() => return Err(waiting),
                connected = connecting => match connected {
                    Ok(client) => {
                        self.options.session.resume = None;
                        return Ok(Ok(client));
                    }
                    Err(error) => error,
                },
            };
            match &error {
                // The session of an earlier process is gone.
                Error::SessionExpired(_) if self.options.session.resume.take().is_some() => {
                    self.announce(SessionsState::Lost(SessionState::Expired), None);
                    continue;
                }
                Error::Unreachable { hosts, .. } => {
                    if self.seen > Zxid(0) && hosts.iter().any(may_be_behind) {
                        let fresh = fresh_session(self.fresh_options(self.number), self.transport.share());
                        let fresh = tokio::select! {
                            biased;
                            waiting = self.close_requests.recv() => return Err(waiting),
                            fresh = fresh => fresh,
                        };
                        if let Ok(Some(fresh)) = fresh {
                            return Ok(Ok(self.adopt(fresh)));
                        }
                    }
                }
                _ => return Ok(Err(error)),
            }
            tracing::warn!(%error, "no session; trying again");
            if let Some(waiting) = self.pause().await {
                return Err(waiting);
            }
        }
    }

    /// Publishes a session and waits until it ends, or is to end.
    async fn serve(&mut self, client: &Client) -> Turn {
        let term = SessionTerm { client: client.clone(), number: self.number, epoch: self.epoch };
        self.publish.send_replace(Standing::Open(term));
        let began = self.clock.now();
        let mut ended = pin!(client.ended());
        let turn = loop {
            let behind = self.wait_until_behind(client);
            tokio::select! {
                biased;
                _ = &mut ended => break Turn::Over,
                waiting = self.close_requests.recv() => return Turn::Close(waiting),
                fresh = behind => if let Some(fresh) = fresh { break Turn::Reset(fresh) },
            }
        };
        // Sessions that end as soon as they begin must not follow each other without a pause.
        if self.clock.now() - began >= client.session_timeout() {
            self.failures = 0;
        } else if let Some(waiting) = self.pause().await {
            return Turn::Close(waiting);
        }
        turn
    }

    /// Waits until the session has been without a server for its timeout, and a server looks as if it were behind. `None`
    /// if it is not, after a pause.
    fn wait_until_behind(&self, client: &Client) -> impl Future<Output = Option<FreshSession>> + use<> {
        let (client, clock) = (client.clone(), self.clock.clone());
        let (options, transport) = (self.fresh_options(self.number + 1), self.transport.clone());
        async move {
            client.shared.wait_for(|state| state == SessionState::Disconnected).await;
            let timeout = client.session_timeout();
            let back = client.shared.wait_for(|state| state != SessionState::Disconnected);
            if clock.timeout(timeout, back).await.is_ok() {
                return None;
            }
            if !client.shared.unreachable_hosts().iter().any(may_be_behind) {
                return None;
            }
            let fresh = fresh_session(options, transport.share()).await.ok().flatten()?;
            // A server that is up to date: the session reaches it too.
            (fresh.found < client.last_zxid()).then_some(fresh)
        }
    }

    /// Makes a session that has seen nothing the next one. If its server is behind, the epoch ends.
    fn adopt(&mut self, FreshSession { client, found }: FreshSession) -> Client {
        if found < self.seen {
            let seen = self.seen;
            tracing::error!(%seen, %found, "the servers went back to an older state");
            self.epoch += 1;
            self.seen = found;
            self.broadcast.set_seen(found);
            self.announce(SessionsState::EpochReset { seen, found }, Some(&client));
        }
        client.shared.observe(SessionObserver::new(&self.broadcast, self.number));
        client
    }

    fn note_seen(&mut self, seen: Zxid) {
        self.seen = self.seen.max(seen);
        self.broadcast.set_seen(self.seen);
    }

    /// Pauses before the next attempt. `Some` if it is to close meanwhile.
    async fn pause(&mut self) -> Option<Option<oneshot::Sender<()>>> {
        let most = (FIRST_PAUSE * 2u32.pow(self.failures.min(10))).min(LONGEST_PAUSE);
        self.failures += 1;
        let pause = self.rng.random_range(most / 2..=most);
        tokio::select! {
            biased;
            waiting = self.close_requests.recv() => Some(waiting),
            () = self.clock.sleep(pause) => None,
        }
    }

    fn options_of(&self, number: u64) -> ConnectOptions {
        let mut options = self.fresh_options(number);
        options.observer = Some(SessionObserver::new(&self.broadcast, number));
        options
    }

    /// Without an observer: a session that may not become one of these.
    fn fresh_options(&self, number: u64) -> ConnectOptions {
        // Generated names must not repeat those of the session before.
        let mut options = self.options.clone();
        options.seed = options.seed.map(|seed| seed.wrapping_add(number - 1));
        options
    }

    fn announce(&self, state: SessionsState, client: Option<&Client>) {
        self.broadcast.publish(SessionsChange {
            state,
            number: self.number,
            session: client.map_or(SessionId(0), Client::session_id),
            since: self.clock.now(),
            server: client.and_then(Client::server),
            reason: None,
            skipped: 0,
        });
    }

    /// Ends because it was asked to. `waiting` is who asked, unless the last handle was dropped.
    fn closed(&mut self, waiting: Option<oneshot::Sender<()>>) {
        self.end(Error::Closed(ErrorContext::local("connect", "")));
        // Others may have asked meanwhile.
        self.close_requests.close();
        let others = std::iter::from_fn(|| self.close_requests.try_recv().ok());
        for waiting in waiting.into_iter().chain(others) {
            let _ = waiting.send(());
        }
    }

    fn end(&self, error: Error) {
        self.publish.send_replace(Standing::Ended(error.clone()));
        self.broadcast.publish(SessionsChange {
            state: SessionsState::Ended,
            number: self.number,
            session: SessionId(0),
            since: self.clock.now(),
            server: None,
            reason: Some(error.to_string().into()),
            skipped: 0,
        });
    }
}
