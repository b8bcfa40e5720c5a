//! [`Client`]: asks, and records the outcome.

use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Duration, Instant, sleep, timeout_at};
use zoolet_proto::records::{Delete, GetChildren, GetData, SetData, Sync};
use zoolet_proto::{ErrorCode, Reply, Request, Stat};

use super::{Call, CallOutcome, HistoryCheck, Log, Register, RegisterOp};
use crate::wire::connection::{Connection, NO_SESSION, SESSION_TIMEOUT, is_local};
use crate::wire::requests::create;

const REGISTERS: usize = 8;
/// How many znodes of a client are in the list at a time.
const NAMES: usize = 6;
/// How long a client waits after something has failed.
const AGAIN: Duration = Duration::from_millis(20);

/// The znodes that clients work on: registers, and the parent of the list.
pub(super) fn znodes(root: &str) -> Vec<String> {
    let registers = (0..REGISTERS).map(|at| format!("{root}/register-{at}"));
    registers.chain([list(root)]).collect()
}

fn list(root: &str) -> String {
    format!("{root}/list")
}

pub(super) struct Client {
    number: usize,
    addresses: Vec<String>,
    root: String,
    random: StdRng,
    is_ensemble: bool,
    /// How long a server may take for an answer.
    limit: Duration,
    log: Arc<Log>,
    connection: Option<Connection>,
    held: (i64, Bytes),
    sessions: usize,
    last_zxid: i64,
    counter: usize,
    names: Vec<String>,
}

impl Client {
    pub(super) fn new(
        check: &HistoryCheck,
        number: usize,
        addresses: Vec<String>,
        root: &str,
        limit: Duration,
        log: &Arc<Log>,
    ) -> Self {
        Self {
            number,
            addresses,
            root: root.to_owned(),
            random: StdRng::seed_from_u64(check.seed ^ (number as u64) << 32),
            is_ensemble: check.is_ensemble(),
            limit,
            log: Arc::clone(log),
            connection: None,
            held: NO_SESSION,
            sessions: 0,
            last_zxid: 0,
            counter: 0,
            names: Vec::new(),
        }
    }

    /// Works until the time is over, by way of a proxy of ours.
    pub(super) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            // A server that is away may come back in time.
            if timeout_at(until, self.connect()).await.is_ok() {
                let call = self.next();
                self.act(&call).await;
            }
        }
        self.close().await;
    }

    /// Reads all that there is, once. False if the server has not answered all of it in time.
    pub(super) async fn read_all(mut self) -> bool {
        let until = Instant::now() + 2 * self.limit;
        let gets = (0..REGISTERS).map(|register| Call::Get { register, synced: true });
        for call in gets.chain([Call::List { synced: true }]) {
            loop {
                if timeout_at(until, self.connect()).await.is_err() {
                    return false;
                }
                if self.act(&call).await {
                    break;
                }
                sleep(AGAIN).await;
            }
        }
        self.close().await;
        true
    }

    /// Connects if need be, to one server after the other, until one opens a session.
    async fn connect(&mut self) {
        while self.connection.is_none() {
            let address = &self.addresses[self.random.random_range(0..self.addresses.len())];
            match Connection::to(address, self.limit).await {
                Ok(mut connection) => {
                    let opening = connection.open(self.held.clone(), self.last_zxid, SESSION_TIMEOUT);
                    match opening.await {
                        Ok((response, _)) if response.is_refusal() => {
                            (self.held, self.last_zxid) = (NO_SESSION, 0);
                        }
                        Ok((response, _)) => {
                            self.sessions += usize::from(self.held.0 != response.session.0);
                            self.held = (response.session.0, response.password);
                            self.connection = Some(connection);
                            return;
                        }
                        Err(_) => {}
                    }
                }
                Err(error) if is_local(&error) => {
                    self.log.hinder(format!("client {} cannot connect: {error}", self.number));
                }
                Err(_) => {}
            }
            sleep(AGAIN).await;
        }
    }

    async fn close(&mut self) {
        if let Some(connection) = &mut self.connection {
            let _ = connection.ask(&Request::CloseSession).await;
        }
    }

    fn next(&mut self) -> Call {
        let register = self.random.random_range(0..REGISTERS);
        let synced = self.is_ensemble && self.random.random_ratio(1, 3);
        self.counter += 1;
        match self.random.random_range(0..20) {
            0..=7 => {
                let value = format!("{}:{}", self.number, self.counter);
                let version =
                    if self.random.random_ratio(1, 5) { self.random.random_range(0..50) } else { -1 };
                Call::Set { register, value, version }
            }
            8..=15 => Call::Get { register, synced },
            16 | 17 if self.names.len() < NAMES => {
                Call::Create { name: format!("{}-{}", self.number, self.counter) }
            }
            16..=18 if !self.names.is_empty() => {
                Call::Delete { name: self.names.swap_remove(self.random.random_range(0..self.names.len())) }
            }
            _ => Call::List { synced },
        }
    }

    /// Asks, and records what came. False if nothing did.
    async fn act(&mut self, call: &Call) -> bool {
        let began = self.log.tick();
        let outcome = self.ask(call).await;
        let is_answered = outcome.is_some();
        if !is_answered {
            self.connection = None;
        }
        if let (Call::Create { name }, Some(CallOutcome::Done)) = (call, &outcome) {
            self.names.push(name.clone());
        }
        let (client, session, ended) = (self.number, self.sessions, self.log.tick());
        self.log.record(RegisterOp { client, session, began, ended, call: call.clone(), outcome });
        is_answered
    }

    async fn ask(&mut self, call: &Call) -> Option<CallOutcome> {
        let register = |register: &usize| format!("{}/register-{register}", self.root);
        let named = |name: &String| format!("{}/{name}", list(&self.root));
        let request = match call {
            Call::Set { register: at, value, version } => {
                let data = Some(Bytes::from(value.clone()));
                Request::SetData(SetData { path: register(at), data, version: *version })
            }
            Call::Get { register: at, .. } => Request::GetData(GetData { path: register(at), watch: false }),
            Call::Create { name } => Request::Create(create(named(name), "")),
            Call::Delete { name } => Request::Delete(Delete { path: named(name), version: -1 }),
            Call::List { .. } => Request::GetChildren(GetChildren { path: list(&self.root), watch: false }),
        };
        if let Call::Get { synced: true, .. } | Call::List { synced: true } = call {
            let path = request.path().map(str::to_owned);
            self.reply(&Request::Sync(Sync { path })).await?;
        }
        let state =
            |value: String, stat: Stat| Register { value, mzxid: stat.mzxid.0, version: stat.version };
        Some(match (call, self.reply(&request).await?) {
            (Call::Set { value, .. }, (None, Reply::Stat(stat))) => {
                CallOutcome::State(state(value.clone(), stat))
            }
            (Call::Get { .. }, (None, Reply::Data(data, stat))) => {
                let value = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
                CallOutcome::State(state(value, stat))
            }
            (Call::List { .. }, (None, Reply::Children(names))) => CallOutcome::Names(names.iter().collect()),
            (_, (None, _)) => CallOutcome::Done,
            (Call::Set { .. }, (Some(ErrorCode::BadVersion), _)) => CallOutcome::Refused,
            (_, (Some(ErrorCode::NoNode), _)) => CallOutcome::Missing,
            // Such as a connection that another server has taken over: nothing is known.
            _ => return None,
        })
    }

    async fn reply(&mut self, request: &Request) -> Option<(Option<ErrorCode>, Reply)> {
        let (error, zxid, reply) = self.connection.as_mut()?.ask(request).await.ok()?;
        self.last_zxid = self.last_zxid.max(zxid.0);
        Some((error, reply))
    }
}
