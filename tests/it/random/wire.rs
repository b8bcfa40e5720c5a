//! A client that speaks in frames and asks for what no client library would.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zoolet::testing::{History, Tap};
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{Acl, Incoming, OpCode, Perms, ReplyHeader, Request, SessionId, Xid, Zxid, frame, jute};
use zoolet_test_support::Dice;
use zoolet_test_support::*;

use crate::random::Manner;
use crate::random::rough::{Rough, Way};

/// Some of them no paths at all.
const PATHS: &[&str] = &[
    "/a",
    "/b",
    "/a/a",
    "/a/b",
    "/a/b/c",
    "/b/e",
    "/c",
    "/",
    "",
    "/a/",
    "/a\u{1}",
    "x",
    "x/y",
    "//a",
    "/a/./b",
    "/a/\0",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/new",
    "/é",
    "/s/0000000001",
];
const LIKELY: usize = 7;
const DATA: &[&str] = &["", "x", "longer", "\u{0}"];

pub struct Wire {
    history: History,
    way: Way,
    dice: Dice,
    manner: Manner,
    xid: i32,
    /// The session to take up again.
    session: Option<ConnectResponse>,
    seen: Zxid,
}

impl Wire {
    pub fn new(history: History, way: Way, dice: Dice, manner: Manner) -> Self {
        Self { history, way, dice, manner, xid: 0, session: None, seen: Zxid(0) }
    }

    /// Sends so many requests, on as many connections as it takes.
    pub async fn run(mut self, mut requests: usize) {
        while requests > 0 {
            let Ok(stream) = self.way.open().await else {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            // However it ends, there is another connection.
            _ = self.talk(Tap::new(stream).recording(&self.history), &mut requests).await;
        }
    }

    async fn talk(&mut self, mut tap: Tap<Rough>, requests: &mut usize) -> io::Result<()> {
        let mut inbox = BytesMut::new();
        self.greet(&mut tap, &mut inbox).await?;
        while *requests > 0 {
            let mut bytes = BytesMut::new();
            let mut asked = 1 + self.dice.below(8);
            *requests = requests.saturating_sub(asked);
            (0..asked).for_each(|_| self.ask(&mut bytes));
            tap.write_all(&bytes).await?;
            while asked > 0 {
                let header: ReplyHeader = jute::parse(&next(&mut tap, &mut inbox).await?).expect("a header");
                self.seen = self.seen.max(header.zxid);
                asked -= usize::from(header.xid != Xid::EVENT);
            }
        }
        let mut bytes = BytesMut::new();
        self.xid += 1;
        Request::CloseSession.encode_frame(Xid(self.xid), &mut bytes);
        tap.write_all(&bytes).await?;
        while next(&mut tap, &mut inbox).await.is_ok() {}
        Ok(())
    }

    async fn greet(&mut self, tap: &mut Tap<Rough>, inbox: &mut BytesMut) -> io::Result<()> {
        let old = self.session.take().filter(|_| self.dice.chance(70));
        let mut bytes = BytesMut::new();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.seen,
            timeout: 4000,
            session: old.as_ref().map_or(SessionId(0), |old| old.session),
            password: old.map(|old| old.password),
            read_only: None,
        }
        .encode_frame(&mut bytes);
        tap.write_all(&bytes).await?;
        let welcome: ConnectResponse = jute::parse(&next(tap, inbox).await?).expect("a connect response");
        if welcome.is_refusal() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.session = Some(welcome);
        Ok(())
    }

    fn ask(&mut self, out: &mut BytesMut) {
        self.xid += 1;
        let request = self.request();
        let start = out.len();
        request.encode_frame(Xid(self.xid), out);
        // Now and then only a part of it, which may decode or not.
        let body = out.len() - start - frame::PREFIX - 8;
        if body > 0 && self.dice.chance(4) {
            let part = out.split_off(start);
            let part = &part[frame::PREFIX..part.len() - 1 - self.dice.below(body)];
            let opens_a_session =
                Incoming::parse(part).is_none_or(|it| it.op == OpCode::CreateSession.code());
            assert!(!opens_a_session, "never asked for");
            frame::put(out, |out| out.extend_from_slice(part));
        }
    }

    fn path(&mut self) -> &'static str {
        let odd = self.dice.chance(15);
        self.dice.of(if odd { PATHS } else { &PATHS[..LIKELY] })
    }

    fn acl(&mut self) -> Vec<Acl> {
        match self.dice.below(24) {
            0 => vec![],
            // A write after a setACL is checked against the new list here, and against the old one there.
            1 if self.manner != Manner::Apache => anyone(Perms(self.dice.below(32) as i32 | 16)),
            2 => only(Perms::ALL, "world", "somebody"),
            3 => [Acl::open(), Acl::read_only(), Acl::open()].concat(),
            4 => only(Perms::ALL, "none", ""),
            _ => Acl::open(),
        }
    }

    fn write(&mut self) -> Request {
        let (path, data) = (self.path(), self.dice.of(DATA));
        let version = self.dice.of(&[-1, -1, -1, 0, 1, 2, -2]);
        let mut flags = |below| self.dice.below(below) as i32;
        match flags(12) {
            0 => create(path).data(data).flags(flags(8) - 1),
            1 => create2(path).data(data).flags(flags(8) - 1),
            2 => container(path).flags(flags(8) - 1),
            // Of any other an Apache ZooKeeper dies.
            3 if self.manner == Manner::Apache => create_ttl(path, 5 + flags(2), 1 + i64::from(flags(1_000))),
            3 => create_ttl(path, flags(8) - 1, i64::from(flags(4)) * 700 - 1),
            4 | 5 => create(path).acl(self.acl()).flags(self.dice.of(&[0, 0, 0, 1, 2, 3])),
            6 | 7 => delete(path).version(version),
            8 | 9 => set_data(path, data).version(version),
            _ => check(path, version),
        }
    }

    fn request(&mut self) -> Request {
        let (path, other) = (self.path(), self.path());
        let number = self.dice.below(8) as i32 - 1;
        // Mostly a little ago, where it matters whether a change was then or just before.
        let ago = self.dice.of(&[6, 6, 6, usize::MAX]).min(self.seen.0 as usize + 1);
        let since = self.seen.0 - self.dice.below(ago) as i64;
        match self.dice.below(48) {
            0..=19 => match self.write() {
                // Outside of a multi it ends the connection.
                Request::Check(_) if self.manner != Manner::Wild || self.dice.chance(95) => {
                    delete_container(path)
                }
                write => write,
            },
            20 => set_acl(path, self.acl()).version(number),
            21..=26 => {
                let parts: Vec<Request> = (0..self.dice.below(6)).map(|_| self.write()).collect();
                multi(parts)
            }
            27 => multi([get_data(path)]),
            28 => multi_read([get_data(path), get_children(other), get_data(other)]),
            29 => multi_read([delete(path)]),
            30 => exists(path),
            31 => get_data(path),
            32 => get_children(path),
            33 => get_children2(path),
            34 => get_acl(path),
            35 => get_all_children_number(path),
            36 => get_ephemerals(self.dice.of(&[Some(path), Some(" / "), None])),
            37 => exists(path).watch(),
            38 => get_data(path).watch(),
            39 => get_children(path).watch(),
            40 => add_watch(path, number),
            41 => check_watches(path, number),
            42 => remove_watches(path, number),
            43 => set_watches(since, &[path, other], &[other], &[path, other, path]),
            44 => set_persistent_watches(since, &[path], &[other]),
            45 => sync(path),
            46 if self.dice.chance(20) => Request::Reconfig(zoolet_proto::records::Reconfig {
                joining: None,
                leaving: None,
                new_members: None,
                config: -1,
            }),
            46 => Request::Ping,
            _ => Request::WhoAmI,
        }
    }
}

/// The payload of the next frame.
async fn next(tap: &mut Tap<Rough>, inbox: &mut BytesMut) -> io::Result<Bytes> {
    loop {
        if let Some(payload) = frame::split(inbox, usize::MAX >> 1).expect("a legal length") {
            let payload = Bytes::copy_from_slice(payload);
            inbox.advance(frame::PREFIX + payload.len());
            return Ok(payload);
        }
        if tap.read_buf(inbox).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
