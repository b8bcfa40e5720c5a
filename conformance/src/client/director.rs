//! [`Director`]: decides what is done to the connections of a scenario, and knows whether it was done.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::frame::DEFAULT_MAX_FRAME;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{OpCode, OpKind, Reply, Zxid};

use crate::client::judge::Judge;
use crate::client::rule::ClientRule;
use crate::client::scenario::Disturbance;
use crate::client::session::Session;
use crate::wire::conversation::FromServer;

/// The reply after which a connection is cut.
const CUT_AT: usize = 10;

/// How many connections are closed at once.
const REFUSED: usize = 2;

/// The sizes of what is read in the scenario of large replies.
pub(crate) const LARGE_DATA: usize = 900 << 10;
pub(crate) const MANY_CHILDREN: usize = 5_000;

/// What becomes of a message of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    Deliver,
    DeliverThenCut,
    DropThenCut,
    /// The server closes the session, and the client is not told.
    DeliverThenExpire,
}

#[derive(Default)]
pub(crate) struct Director {
    disturbance: Disturbance,
    /// How many connections were closed at once.
    refused: usize,
    /// The ports of the connections that were cut.
    cuts: Vec<usize>,
    /// The port of the server that lags, and its last zxid.
    lagging: Option<(usize, Zxid)>,
    has_met_lagging: bool,
    /// How many cuts the client has come back from.
    returns: usize,
    was_refused_session: bool,
    replies: usize,
    longest_idle: Duration,
    /// The most bytes of paths that were watched at once, as far as it was looked at.
    watched: usize,
    /// How much data, and lists of how many children, were read.
    data_read: BTreeSet<usize>,
    lists_read: BTreeSet<usize>,
}

/// What a connection has done, as far as it decides what is done to it.
#[derive(Default)]
pub(crate) struct Progress {
    replies: usize,
    last_request: Option<Duration>,
    timeout: Duration,
}

impl Director {
    pub(crate) fn new(disturbance: Disturbance) -> Self {
        // Nothing has happened yet.
        Self { disturbance, ..Self::default() }
    }

    /// Whether a connection to a port is let in.
    pub(crate) fn admits(&mut self, port: usize) -> bool {
        match self.disturbance {
            Disturbance::RefusedConnects if self.refused < REFUSED => {
                self.refused += 1;
                false
            }
            Disturbance::Moved => !self.cuts.contains(&port),
            _ => true,
        }
    }

    /// Whether a connect request gets an answer.
    pub(crate) fn answers(&mut self, port: usize, connect: &ConnectRequest, judge: &Judge) -> bool {
        if self.disturbance != Disturbance::Lagging || self.cuts.is_empty() {
            return true;
        }
        let (lagging, zxid) = *self.lagging.get_or_insert((port, Zxid(judge.seen.0 - 1)));
        self.has_met_lagging |= port == lagging;
        port != lagging || connect.last_zxid_seen <= zxid
    }

    /// The client has sent a request.
    pub(crate) fn requested(&mut self, op: i32, at: Duration, progress: &mut Progress) {
        self.idle(at, progress);
        if op != OpCode::Ping.code() {
            progress.last_request = Some(at);
        }
    }

    /// The connection is open, or was until now, without a request for a time.
    pub(crate) fn idle(&mut self, at: Duration, progress: &Progress) {
        let idle = progress.last_request.map_or(Duration::ZERO, |since| at.saturating_sub(since));
        if progress.timeout > Duration::ZERO && idle >= progress.timeout {
            self.longest_idle = self.longest_idle.max(idle);
        }
    }

    /// Decides about a message of the server.
    pub(crate) fn disposition(
        &mut self,
        message: &FromServer,
        at: Duration,
        judge: &Judge,
        (number, port): (usize, usize),
        progress: &mut Progress,
    ) -> Disposition {
        match message {
            FromServer::Connected(response) => {
                progress.last_request = Some(at);
                progress.timeout = Duration::from_millis(u64::try_from(response.timeout).unwrap_or_default());
                if !self.cuts.is_empty() {
                    self.returns += 1;
                    self.was_refused_session |= response.is_refusal();
                }
                Disposition::Deliver
            }
            FromServer::Event(..) => Disposition::Deliver,
            FromServer::Reply { header, op, reply, .. } => {
                let Some(op) = op.and_then(OpCode::from_code) else { return Disposition::Deliver };
                if matches!(op, OpCode::Ping | OpCode::Auth | OpCode::SetWatches | OpCode::SetWatches2) {
                    return Disposition::Deliver;
                }
                progress.replies += 1;
                self.replies += 1;
                match reply {
                    Ok(Reply::Data(data, _)) => {
                        _ = self.data_read.insert(data.as_ref().map_or(0, Bytes::len))
                    }
                    Ok(Reply::Children(names) | Reply::Children2(names, _)) => {
                        self.lists_read.insert(names.len());
                    }
                    _ => {}
                }
                if let Disturbance::Watches | Disturbance::ManyWatches = self.disturbance {
                    self.watched = self.watched.max(path_bytes(judge, number));
                }
                let disposition = self.cut(op, header.err == 0, judge, (number, progress.replies));
                if disposition != Disposition::Deliver {
                    self.cuts.push(port);
                }
                disposition
            }
        }
    }

    fn cut(&self, op: OpCode, is_ok: bool, judge: &Judge, (number, replies): (usize, usize)) -> Disposition {
        let is_due = replies >= CUT_AT && self.cuts.is_empty() && op != OpCode::CloseSession;
        let is_cut = match self.disturbance {
            Disturbance::Reconnect | Disturbance::Moved | Disturbance::Lagging | Disturbance::Expired => {
                is_due
            }
            Disturbance::Watches => {
                let is_second = self.cuts.len() == 1 && judge.has_judged_watches(number);
                (is_due || is_second && replies >= CUT_AT) && path_bytes(judge, number) > 0
            }
            Disturbance::ManyWatches => is_due && path_bytes(judge, number) > DEFAULT_MAX_FRAME,
            Disturbance::Auth => is_due && judge.session(number).is_some_and(Session::has_auth),
            Disturbance::LostReply => is_due && is_ok && matches!(op.kind(), OpKind::Create | OpKind::Write),
            _ => false,
        };
        match self.disturbance {
            _ if !is_cut => Disposition::Deliver,
            Disturbance::LostReply => Disposition::DropThenCut,
            Disturbance::Expired => Disposition::DeliverThenExpire,
            _ => Disposition::DeliverThenCut,
        }
    }

    /// Whether the scenario has taken place; if not, why.
    pub(crate) fn exercised(&self, judge: &Judge, connections: usize) -> Result<(), String> {
        let unless = |done: bool, what: &str| if done { Ok(()) } else { Err(what.to_owned()) };
        if connections == 0 {
            return Err("the program has not connected".to_owned());
        }
        unless(self.replies > 0, "the program has asked for nothing")?;
        let is_cut =
            || unless(!self.cuts.is_empty(), "the program made too few requests for a connection to be cut");
        let returned = || unless(self.returns > 0, "the program ended before it was connected again");
        let watched = |cuts: usize| {
            self.had_watches_to_cut(judge, connections)?;
            let judged = (1..=connections).filter(|number| judge.has_judged_watches(*number));
            // A client that restores none has shown what it does, and has none that another cut could concern.
            if judged.clone().any(|number| path_bytes(judge, number) == 0) {
                return Ok(());
            }
            unless(self.cuts.len() >= cuts, "the program ended before the second cut")?;
            unless(
                judged.count() >= cuts,
                "the program ended less than a second after it was connected again",
            )
        };
        match self.disturbance {
            Disturbance::Nothing => Ok(()),
            // A client that sends no ping may lose the connection before a session timeout is over.
            Disturbance::Idle if judge.has_shown(ClientRule::PingTooLate) => Ok(()),
            Disturbance::Idle => {
                unless(self.longest_idle > Duration::ZERO, "the program was not idle for a session timeout")
            }
            Disturbance::RefusedConnects => {
                unless(self.refused == REFUSED, "the program connected fewer times than it was to be refused")
            }
            Disturbance::Watches => watched(2),
            // A server closes such a connection, so that nothing else can be judged.
            Disturbance::ManyWatches if judge.has_shown(ClientRule::Oversized) => Ok(()),
            Disturbance::ManyWatches => watched(1),
            Disturbance::Reconnect | Disturbance::Moved => is_cut().and_then(|()| returned()),
            Disturbance::Auth => {
                let mut sessions = (1..=connections).filter_map(|number| judge.session(number));
                let has_auth = !self.cuts.is_empty() || sessions.any(Session::has_auth);
                unless(has_auth, "the program gave no credentials that were accepted")?;
                unless(!self.cuts.is_empty(), "the program made too few requests after it gave credentials")?;
                returned()
            }
            Disturbance::LostReply => {
                unless(!self.cuts.is_empty(), "no write was done after the ninth reply of a connection")?;
                returned()
            }
            Disturbance::Lagging => {
                is_cut()?;
                unless(self.has_met_lagging, "the program ended before it tried another server")?;
                returned()
            }
            Disturbance::Expired => {
                is_cut()?;
                returned()?;
                unless(self.was_refused_session, "the session was not asked for again")
            }
            Disturbance::LargeReplies => {
                unless(self.data_read.last() >= Some(&LARGE_DATA), "no data of 900 KiB was read")?;
                unless(self.lists_read.last() >= Some(&MANY_CHILDREN), "no list of 5000 children was read")
            }
            Disturbance::EmptyReplies => {
                unless(self.data_read.contains(&0), "no empty data was read")?;
                unless(self.lists_read.contains(&0), "no empty list of children was read")
            }
        }
    }

    /// Whether a connection was cut on which watches were set; if not, why.
    fn had_watches_to_cut(&self, judge: &Judge, connections: usize) -> Result<(), String> {
        if !self.cuts.is_empty() {
            return Ok(());
        }
        // A watch that the last reply has set was not looked at yet.
        let last = (1..=connections).map(|number| path_bytes(judge, number)).max();
        let watched = self.watched.max(last.unwrap_or_default());
        if watched == 0 {
            return Err("the program set no watch".to_owned());
        }
        if self.disturbance == Disturbance::ManyWatches && watched <= DEFAULT_MAX_FRAME {
            return Err(format!(
                "the paths that the program watched at once have {watched} bytes, and fit a frame of {DEFAULT_MAX_FRAME}"
            ));
        }
        Err("the program made too few requests while its watches were set".to_owned())
    }
}

/// The length of all paths that the session of a connection watches.
fn path_bytes(judge: &Judge, number: usize) -> usize {
    judge.session(number).map_or(0, |session| session.watches.path_bytes())
}

#[cfg(test)]
#[path = "director_tests.rs"]
mod tests;
