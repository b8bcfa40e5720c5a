//! Answers without what may differ.

use std::fmt::Write;

use bytes::BytesMut;
use zoolet_proto::records::{ConnectResponse, OpResult, WatchedEvent};
use zoolet_proto::{Acl, Jute, OpCode, Reply, ReplyHeader, SessionId, Stat, Zxid, frame, jute};

use crate::frames::duo::Got;

/// What one server's answers are measured by.
#[derive(Default)]
pub struct Normal {
    /// The zxid that counts as 0.
    pub base: i64,
    /// Its sessions, in the order they came.
    sessions: Vec<SessionId>,
}

const HEADER: usize = 16;

impl Normal {
    pub fn meet(&mut self, session: SessionId) {
        if !self.sessions.contains(&session) {
            self.sessions.push(session);
        }
    }

    /// An answer in words: equal for equal bytes, and only for those, but for what may differ. `op` knows what was
    /// asked under an xid.
    pub fn words(&self, got: &Got, op: impl Fn(i32) -> Option<i32>) -> String {
        match got {
            Got::Closed => "closed".into(),
            Got::Silence => "silence".into(),
            Got::Frame(frame) => self
                .reply(frame, op)
                .or_else(|| self.welcome(frame))
                .unwrap_or_else(|| format!("bytes {}", hex(frame))),
        }
    }

    fn welcome(&self, bytes: &[u8]) -> Option<String> {
        let welcome: ConnectResponse = jute::parse(bytes).ok()?;
        is_all(&welcome, bytes).then(|| {
            let password = if welcome.is_refusal() { hex(&welcome.password) } else { "any".into() };
            let ConnectResponse { protocol_version, timeout, session, read_only, .. } = welcome;
            let (session, length) = (self.session(session), welcome.password.len());
            format!(
                "welcome {protocol_version} timeout {timeout} session {session} password {length} {password} {read_only:?}"
            )
        })
    }

    fn reply(&self, bytes: &[u8], op: impl Fn(i32) -> Option<i32>) -> Option<String> {
        let (head, body) = bytes.split_at_checked(HEADER)?;
        let header: ReplyHeader = jute::parse(head).ok()?;
        let zxid = self.zxid(header.zxid);
        if header.xid.0 == -1 {
            let event: WatchedEvent = jute::parse(body).ok()?;
            return is_all(&event, body).then(|| format!("event at {zxid} {event:?}"));
        }
        if header.xid.0 == -2 && body.is_empty() {
            return Some(format!("pong at {zxid} err {}", header.err));
        }
        let op = OpCode::from_code(op(header.xid.0)?);
        let reply = match op {
            _ if body.is_empty() => Reply::Empty,
            Some(op) => Reply::parse(op, body).ok()?,
            None => return None,
        };
        let mut again = BytesMut::new();
        reply.encode_frame(header, &mut again);
        (again[frame::PREFIX..] == *bytes).then(|| {
            let reply = self.without_order_or_time(reply);
            // `Debug` keeps digests to itself.
            let ids: Vec<_> = match &reply {
                Reply::Acl(acl, _) => {
                    acl.iter().map(|entry| (entry.perms.0, &entry.scheme, &entry.id)).collect()
                }
                _ => vec![],
            };
            format!("reply {} at {zxid} err {} {reply:?} {ids:?}", header.xid, header.err)
        })
    }

    fn without_order_or_time(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Created2(path, stat) => Reply::Created2(path, self.stat(stat)),
            Reply::Stat(stat) => Reply::Stat(self.stat(stat)),
            Reply::Data(data, stat) => Reply::Data(data, self.stat(stat)),
            Reply::Acl(acl, stat) => Reply::Acl(self.acl(acl), self.stat(stat)),
            Reply::Children(names) => Reply::Children(sorted(names.iter())),
            Reply::Children2(names, stat) => Reply::Children2(sorted(names.iter()), self.stat(stat)),
            Reply::Ephemerals(mut paths) => {
                paths.sort();
                Reply::Ephemerals(paths)
            }
            Reply::WhoAmI(mut ids) => {
                ids.sort_by_key(|id| format!("{id:?}"));
                Reply::WhoAmI(ids)
            }
            Reply::Multi(results) => {
                Reply::Multi(results.into_iter().map(|result| self.result(result)).collect())
            }
            other => other,
        }
    }

    fn result(&self, result: OpResult) -> OpResult {
        match result {
            OpResult::Create2(path, stat) => OpResult::Create2(path, self.stat(stat)),
            OpResult::SetData(stat) => OpResult::SetData(self.stat(stat)),
            OpResult::GetData(data, stat) => OpResult::GetData(data, self.stat(stat)),
            OpResult::GetChildren(names) => OpResult::GetChildren(sorted(names.iter())),
            other => other,
        }
    }

    fn stat(&self, stat: Stat) -> Stat {
        // Some time, or none: that much is compared.
        let time = |time: i64| i64::from(time != 0);
        Stat {
            czxid: self.zxid(stat.czxid),
            mzxid: self.zxid(stat.mzxid),
            pzxid: self.zxid(stat.pzxid),
            ctime: time(stat.ctime),
            mtime: time(stat.mtime),
            ephemeral_owner: self.session(stat.ephemeral_owner),
            ..stat
        }
    }

    /// The entries that replace `auth` have no order.
    fn acl(&self, mut acl: Vec<Acl>) -> Vec<Acl> {
        if acl.iter().filter(|entry| entry.scheme == "digest").count() > 1 {
            acl.sort_by_key(|entry| (entry.perms.0, entry.scheme.clone(), entry.id.clone()));
        }
        acl
    }

    /// Counted from the base; what is older is all the same, and −1 and 0 mean something of their own.
    fn zxid(&self, zxid: Zxid) -> Zxid {
        const BEFORE: i64 = -1_000;
        match zxid.0 {
            ..=0 => zxid,
            known if known > self.base => Zxid(known - self.base + 1_000),
            _ => Zxid(BEFORE),
        }
    }

    /// A number by the order in which sessions came; 0 stays 0.
    fn session(&self, session: SessionId) -> SessionId {
        let known = self.sessions.iter().position(|known| *known == session);
        known.map_or(session, |at| SessionId(at as i64 + 1))
    }
}

/// Whether `bytes` are the value and nothing else.
fn is_all(value: &impl Jute, bytes: &[u8]) -> bool {
    let mut again = BytesMut::new();
    value.encode(&mut again);
    again == bytes
}

fn sorted(names: impl Iterator<Item = String>) -> zoolet_proto::NameList {
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.iter().map(String::as_str).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
