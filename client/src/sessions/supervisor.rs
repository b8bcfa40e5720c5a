//! The task behind [`Sessions`](super::Sessions): opens a session, waits for its end, opens the next.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{mpsc, watch};
use zoolet_proto::{SessionId, Zxid};

use super::epoch::{FreshSession, fresh_session, may_be_behind};
use super::{Broadcast, SessionObserver, SessionTerm, SessionsChange, SessionsState, Standing};
use crate::client::Client;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::options::ConnectOptions;
use crate::state::SessionState;
use crate::transport::Transport;

/// The pause before the next attempt to open a session doubles from the first to the longest. The client that is being
/// opened has tried every server for its connect timeout before.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Supervisor {
    options: ConnectOptions,
    transport: Transport,
    broadcast: Arc<Broadcast>,
    publish: watch::Sender<Standing>,
    /// Closed when the last handle is gone, which asks for the same.
    close_requests: mpsc::UnboundedReceiver<()>,
    rng: StdRng,
    /// The number of the present session, or of the one that is being opened.
    number: u64,
    epoch: u64,
    /// Attempts and short sessions in a row.
    failures: u32,
}

impl Drop for Supervisor {
    /// Its runtime may be shut down before it ends.
    fn drop(&mut self) {
        if !matches!(*self.publish.borrow(), Standing::Ended(_)) {
            self.end(closed());
        }
    }
}

impl Supervisor {
    pub(super) fn new(
        options: ConnectOptions,
        transport: Transport,
        broadcast: Arc<Broadcast>,
        publish: watch::Sender<Standing>,
        close_requests: mpsc::UnboundedReceiver<()>,
    ) -> Self {
        let rng = options.seed.map_or_else(rand::make_rng, StdRng::seed_from_u64);
        broadcast.set_seen(options.session.last_zxid);
        Self { options, transport, broadcast, publish, close_requests, rng, number: 0, epoch: 0, failures: 0 }
    }

    pub(super) async fn run(mut self) {
        let Err(reason) = self.supervise().await;
        self.end(reason);
    }

    /// # Errors
    /// Why no other session is opened: `Closed` if that was asked for, or that of an attempt which every other would repeat.
    async fn supervise(&mut self) -> Result<Infallible, Error> {
        let mut reset = None;
        loop {
            let client = match reset.take() {
                Some(client) => client,
                None => {
                    self.number += 1;
                    if self.number > 1 {
                        self.announce(SessionsState::Opening, None, None);
                    }
                    self.open().await?
                }
            };
            let fresh = match self.serve(&client).await {
                Ok(fresh) => fresh,
                Err(reason) => {
                    if let Err(error) = client.close().await {
                        tracing::warn!(%error, "the session was not closed; the server expires it");
                    }
                    return Err(reason);
                }
            };
            self.broadcast.set_seen(self.broadcast.seen().max(client.last_zxid()));
            self.publish.send_replace(Standing::Between);
            if let Some(fresh) = fresh {
                client.give_up("the servers went back to an older state");
                // Its last change comes before that of the next session.
                client.ended().await;
                self.number += 1;
                reset = Some(self.adopt(fresh));
            }
        }
    }

    /// Opens the next session.
    async fn open(&mut self) -> Result<Client, Error> {
        loop {
            let options = self.options_of(self.number).last_zxid(self.broadcast.seen());
            let connecting = options.connect(self.transport.share());
            let error = match self.unless_closed(connecting).await? {
                Ok(client) => {
                    self.options.session.resume = None;
                    return Ok(client);
                }
                // The session of an earlier process is gone.
                Err(Error::SessionExpired(_)) if self.options.session.resume.take().is_some() => {
                    self.announce(SessionsState::Lost(SessionState::Expired), None, None);
                    continue;
                }
                Err(error) => error,
            };
            let is_first = self.number == 1 && self.failures == 0;
            let hosts = match &error {
                Error::Unreachable { hosts, .. } => &hosts[..],
                // It was granted, and expired before a server accepted its identities.
                Error::SessionExpired(_) => &[],
                // It was valid before. Files of TLS may be in the middle of a change.
                Error::InvalidTarget(_) if !is_first => &[],
                _ => return Err(error),
            };
            let seen = self.broadcast.seen();
            if seen > Zxid(0) && hosts.iter().any(may_be_behind) {
                let fresh = fresh_session(self.fresh_options(self.number), self.transport.share());
                if let Ok(Some(fresh)) = self.unless_closed(fresh).await? {
                    // No server would ever resume it.
                    if fresh.found < seen && self.options.session.resume.take().is_some() {
                        self.announce(SessionsState::Lost(SessionState::Expired), None, None);
                    }
                    if self.options.session.resume.is_none() {
                        return Ok(self.adopt(fresh));
                    }
                }
            }
            tracing::warn!(%error, "no session; trying again");
            self.pause().await?;
        }
    }

    /// The output of `work`, unless a close is asked for before.
    async fn unless_closed<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            _ = self.close_requests.recv() => Err(closed()),
            output = work => Ok(output),
        }
    }

    /// Publishes a session and waits until it is over, or the servers have an older state: then with a session at one of them.
    async fn serve(&mut self, client: &Client) -> Result<Option<FreshSession>, Error> {
        let term = SessionTerm { client: client.clone(), number: self.number, epoch: self.epoch };
        self.publish.send_replace(Standing::Open(term));
        let began = self.options.clock.now();
        let behind = self.wait_until_behind(client);
        let fresh = tokio::select! {
            biased;
            _ = client.ended() => None,
            _ = self.close_requests.recv() => return Err(closed()),
            fresh = behind => fresh,
        };
        // Sessions that end as soon as they begin must not follow each other without a pause.
        if self.options.clock.now() - began >= client.session_timeout() {
            self.failures = 0;
        } else {
            self.pause().await?;
        }
        Ok(fresh)
    }

    /// Waits until a server proves to be behind. One is asked whenever the session has been without a server for its timeout and
    /// one looks so. `None` if the session is over.
    fn wait_until_behind(&self, client: &Client) -> impl Future<Output = Option<FreshSession>> + use<> {
        let client = client.clone();
        let (options, transport) = (self.fresh_options(self.number + 1), self.transport.share());
        async move {
            while !client.state().is_final() {
                client.shared.wait_for(|state| state == SessionState::Disconnected).await;
                let back = client.shared.wait_for(|state| state != SessionState::Disconnected);
                let is_back = options.clock.timeout(client.session_timeout(), back).await.is_ok();
                if is_back || !client.shared.unreachable_hosts().iter().any(may_be_behind) {
                    continue;
                }
                match fresh_session(options.clone(), transport.share()).await {
                    Ok(Some(fresh)) if fresh.found < client.last_zxid() => return Some(fresh),
                    // A server that is up to date: the session reaches it too.
                    _ => {}
                }
            }
            None
        }
    }

    /// Makes a session that has seen nothing the next one. If its server is behind, the epoch ends.
    fn adopt(&mut self, FreshSession { client, found }: FreshSession) -> Client {
        let seen = self.broadcast.seen();
        if found < seen {
            tracing::error!(%seen, %found, "the servers went back to an older state");
            self.epoch += 1;
            self.broadcast.set_seen(found);
            self.announce(SessionsState::EpochReset { seen, found }, Some(&client), None);
        }
        client.shared.observe(SessionObserver::new(&self.broadcast, self.number));
        client
    }

    /// Pauses before the next attempt.
    async fn pause(&mut self) -> Result<(), Error> {
        let most = (FIRST_PAUSE * 2u32.pow(self.failures.min(10))).min(LONGEST_PAUSE);
        self.failures += 1;
        let pause = self.rng.random_range(most / 2..=most);
        let pausing = self.options.clock.sleep(pause);
        self.unless_closed(pausing).await
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

    fn announce(&self, state: SessionsState, client: Option<&Client>, reason: Option<Arc<str>>) {
        self.broadcast.publish(SessionsChange {
            state,
            number: self.number,
            session: client.map_or(SessionId(0), Client::session_id),
            since: self.options.clock.now(),
            server: client.and_then(Client::server),
            reason,
            skipped: 0,
        });
    }

    fn end(&self, error: Error) {
        let reason = error.to_string().into();
        self.publish.send_replace(Standing::Ended(error));
        self.announce(SessionsState::Ended, None, Some(reason));
    }
}

fn closed() -> Error {
    Error::Closed(ErrorContext::local("connect", ""))
}
