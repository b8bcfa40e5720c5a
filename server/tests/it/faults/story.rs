//! Whether what happened on a connection has its reason in the record.

use std::collections::BTreeMap;

use zoolet_proto::{OpCode, SessionId, Xid};
use zoolet_server::ConnId;
use zoolet_server::fault::Action;
use zoolet_server::fixture::{ControlAction, RecordEntry, RecordedEvent};

use crate::faults::random::{Client, World};

/// What the record says of one connection, and of what was done to the server as a whole meanwhile.
pub(crate) struct Story<'r> {
    own: Vec<&'r RecordEntry>,
    /// Those, and what was done to the whole server.
    all: Vec<&'r RecordEntry>,
    record: &'r [RecordEntry],
    world: &'r World,
    seed: u64,
}

impl<'r> Story<'r> {
    pub(crate) fn of(world: &'r World, record: &'r [RecordEntry], conn: ConnId, seed: u64) -> Self {
        let own: Vec<_> = record.iter().filter(|entry| entry.conn == conn).collect();
        let all = record.iter().filter(|entry| {
            entry.conn == conn
                || (entry.conn == ConnId(0) && matches!(entry.what, RecordedEvent::ControlAction(_)))
        });
        Self { all: all.collect(), own, record, world, seed }
    }

    pub(crate) fn check(&self, client: &Client) {
        self.check_what_was_heard(client);
        self.check_what_was_asked(client);
        self.check_replies();
        self.check_end();
    }

    /// What came is what was sent, in that order and once.
    fn check_what_was_heard(&self, client: &Client) {
        let sent: Vec<_> = self.own.iter().filter_map(|entry| heard_as(&entry.what)).collect();
        let heard: Vec<_> = client.heard.iter().filter(|line| !is_end(line)).cloned().collect();
        let broken_off = client.left
            || self.all.iter().any(|entry| {
                matches!(
                    entry.what,
                    RecordedEvent::Fault { action: Action::Reset | Action::Refuse, .. }
                        | RecordedEvent::ControlAction(ControlAction::Restart)
                )
            });
        if broken_off {
            assert!(sent.starts_with(&heard), "{}", self.tell(&format!("heard {heard:?}, sent {sent:?}")));
        } else {
            assert_eq!(heard, sent, "{}", self.tell("what was heard is not what was sent"));
        }
        let cut = client.heard.iter().any(|line| line.starts_with("cut"));
        let told = self.has(|what| matches!(what, RecordedEvent::Fault { action: Action::CutReply(_), .. }));
        let drips = self.has(|what| matches!(what, RecordedEvent::Fault { action: Action::Drip { .. }, .. }));
        assert!(!cut || told || drips && broken_off, "{}", self.tell("a frame was cut"));
    }

    /// Requests are dealt with in their order, and none is left out before the end.
    fn check_what_was_asked(&self, client: &Client) {
        let xids: Vec<_> = self.own.iter().filter_map(|entry| asked(entry)).filter(|xid| xid.0 > 0).collect();
        let expected: Vec<_> = (1..).take(xids.len()).map(Xid).collect();
        assert_eq!(xids, expected, "{}", self.tell("requests"));
        // One that came while the server was paused may be gone before its turn.
        let over = self.has(is_over)
            || self.own.is_empty()
                && self
                    .all
                    .iter()
                    .any(|entry| entry.what == RecordedEvent::ControlAction(ControlAction::Restart));
        assert!(over || xids.len() == client.sent as usize, "{}", self.tell("requests were left out"));
    }

    fn check_replies(&self) {
        let replied = |entry: &&RecordEntry| match entry.what {
            RecordedEvent::Reply { xid, .. } if xid.0 > 0 => Some(xid),
            _ => None,
        };
        let replied: Vec<_> = self.own.iter().filter_map(replied).collect();
        assert!(replied.is_sorted(), "{}", self.tell("replies are out of order"));
        for (at, entry) in self.own.iter().enumerate() {
            let Some(xid) = asked(entry).filter(|xid| xid.0 > 0) else { continue };
            let fault = self.own.get(at + 1).and_then(|next| fault(next));
            let is_reply = |entry: &&&RecordEntry| matches!(entry.what, RecordedEvent::Reply { xid: of, .. } if of == xid);
            let replies: Vec<_> = self.own[at..].iter().filter(is_reply).collect();
            let explained = matches!(
                fault,
                Some(
                    Action::DropRequest
                        | Action::LoseReply
                        | Action::WithholdReply
                        | Action::CutReply(_)
                        | Action::Reset
                )
            );
            match replies.as_slice() {
                [] => {
                    // Or it was held up when its connection ended, for which there is a reason of its own.
                    let over = self.own[at..].iter().any(|entry| is_over(&entry.what));
                    assert!(explained || over, "{}", self.tell(&format!("request {xid} was not answered")));
                }
                [reply] => {
                    let late = reply.at > entry.at;
                    assert!(!late || self.held_up(reply), "{}", self.tell(&format!("{xid} came late")));
                }
                _ => panic!("{}", self.tell(&format!("request {xid} was answered twice"))),
            }
        }
    }

    /// Whether something says why a reply came only then.
    fn held_up(&self, reply: &RecordEntry) -> bool {
        let delayed = |entry: &&&RecordEntry| match fault(entry) {
            Some(Action::DelayRequest(by) | Action::DelayReply(by)) => {
                let due = self.world.stops.range(entry.at + by..).next();
                entry.at <= reply.at && due.is_some_and(|due| reply.at <= *due)
            }
            _ => false,
        };
        let stood_still = |entry: &&&RecordEntry| {
            use ControlAction::{ApplyNext, CatchUp, Heal, Resume, Revive};
            let moves_on = matches!(
                entry.what,
                RecordedEvent::ControlAction(Heal | Resume | CatchUp(_) | ApplyNext(..) | Revive(_))
            );
            moves_on && entry.at <= reply.at
        };
        let before = || self.all.iter().filter(|entry| entry.seq < reply.seq);
        before().any(|entry| delayed(&entry)) || before().any(|entry| stood_still(&entry))
    }

    /// No connection ends without a reason.
    fn check_end(&self) {
        let ends: Vec<_> = self.own.iter().filter(|entry| is_over(&entry.what)).collect();
        assert!(ends.len() <= 1, "{}", self.tell("it ended twice"));
        let Some(end) = ends.first().filter(|end| end.what == RecordedEvent::Closing) else { return };
        let session = self.own.iter().find_map(|entry| entry.session);
        let before = || self.all.iter().filter(|entry| entry.seq < end.seq);
        let cut = before().any(|entry| match &entry.what {
            RecordedEvent::Fault { action, .. } => matches!(
                action,
                Action::Refuse
                    | Action::DropRequest
                    | Action::LoseReply
                    | Action::CutReply(_)
                    | Action::Reset
            ),
            RecordedEvent::ControlAction(deed) => {
                use ControlAction::{Disconnect, ExpireSession, Kill, MoveSession, Restart};
                matches!(deed, Disconnect | ExpireSession | Kill(_) | MoveSession | Restart)
            }
            _ => false,
        });
        let refused = before().any(|entry| entry.what.to_string().starts_with("<- no:"));
        // Its client, or somebody who claimed to be it, has come back by another connection.
        let back = self.record.iter().any(|entry| {
            matches!(entry.what, RecordedEvent::Handshake { session: of, .. } if Some(of) == session)
                && entry.conn != end.conn
        });
        let silent = session.is_none() && !self.has(|what| matches!(what, RecordedEvent::Attached { .. }));
        assert!(cut || refused || back || silent, "{}", self.tell("it was closed without a reason"));
    }

    fn has(&self, wanted: impl Fn(&RecordedEvent) -> bool) -> bool {
        self.own.iter().any(|entry| wanted(&entry.what))
    }

    fn tell(&self, wrong: &str) -> String {
        let lines: Vec<_> = self.all.iter().map(|entry| format!("{:4} {entry}", entry.seq)).collect();
        format!("seed {}: {wrong}\n{}", self.seed, lines.join("\n"))
    }
}

pub(crate) fn fault(entry: &RecordEntry) -> Option<Action> {
    match entry.what {
        RecordedEvent::Fault { action, .. } => Some(action),
        _ => None,
    }
}

fn asked(entry: &RecordEntry) -> Option<Xid> {
    match entry.what {
        RecordedEvent::Request { xid, .. } => Some(xid),
        _ => None,
    }
}

fn is_over(what: &RecordedEvent) -> bool {
    matches!(what, RecordedEvent::Closing | RecordedEvent::Closed)
}

fn is_end(line: &str) -> bool {
    line == "end" || line == "reset" || line.starts_with("cut")
}

/// What a peer says when it hears what the server has sent.
fn heard_as(what: &RecordedEvent) -> Option<String> {
    Some(match what {
        RecordedEvent::Attached { session: SessionId(0), .. } => "no session".to_owned(),
        RecordedEvent::Attached { .. } => "session".to_owned(),
        RecordedEvent::Event { kind, path } => format!("{kind:?} {path}"),
        RecordedEvent::Reply { xid: Xid::PING, error: None, .. } => "pong".to_owned(),
        RecordedEvent::Reply { xid, error: None, .. } => format!("{} ok", xid.0),
        RecordedEvent::Reply { xid, error: Some(error), .. } => format!("{} {error:?}", xid.0),
        _ => return None,
    })
}

/// Every write was executed once, unless a fault says that it was not.
pub(crate) fn check_transactions(world: &World, record: &[RecordEntry], seed: u64) {
    let txns = world.zk.transactions();
    assert!(txns.windows(2).all(|pair| pair[1].zxid == pair[0].zxid.next()), "seed {seed}: zxids have gaps");
    let mut executed = BTreeMap::<String, usize>::new();
    for txn in &txns {
        if let zoolet_server::TxnOp::Create { path, .. } = &txn.op {
            *executed.entry(path.to_string()).or_default() += 1;
        }
    }
    for (at, entry) in record.iter().enumerate() {
        let RecordedEvent::Request { paths, op: Some(OpCode::Create), .. } = &entry.what else { continue };
        let [path] = paths.as_slice() else { continue };
        if !path.starts_with("/new-") || entry.conn == ConnId(0) {
            continue;
        }
        let next = record[at + 1..].iter().find(|next| next.conn == entry.conn).and_then(fault);
        // At an endpoint that lags a connection may outlive its session for a while.
        let over = |deed| matches!(deed, ControlAction::MoveSession | ControlAction::ExpireSession);
        let over = record[..at].iter().any(|before| {
            before.conn == entry.conn
                && matches!(before.what, RecordedEvent::ControlAction(deed) if over(deed))
        });
        let times = executed.get(path).copied().unwrap_or(0);
        match next {
            Some(Action::DropRequest | Action::Fail(_) | Action::Reset) => {
                assert_eq!(times, 0, "seed {seed}: {path}")
            }
            Some(Action::DelayRequest(_) | Action::Freeze) => assert!(times <= 1, "seed {seed}: {path}"),
            _ if over => assert_eq!(times, 0, "seed {seed}: {path}"),
            Some(_) => assert!(times <= 1, "seed {seed}: {path}"),
            None => assert_eq!(times, 1, "seed {seed}: {path}"),
        }
    }
}
