//! [`Generator`]: draws moves from a seed.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::catalogue::case::Setting;
use crate::catalogue::lex::Cursor;
use crate::catalogue::request::Draft;
use crate::wire::fields::quoted;

/// Something that both servers get.
#[derive(Debug, Clone)]
pub(super) struct Move {
    pub(super) session: char,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    /// Requests in the words of cases, one right after the other. `$since` in them is the zxid of `since` transactions ago.
    Ask { requests: Vec<(String, Draft)>, since: i64 },
    /// Cuts the connection, and takes the session up again.
    Resume,
    /// Takes the session up again on another connection; the server has to end the first one.
    Move,
    /// Tries to take the session up with a wrong password.
    Intrude,
    /// Tries to take the session up with a zxid that is yet to come.
    Ahead,
}

const SESSIONS: [char; 4] = ['A', 'B', 'C', 'D'];
const PATHS: &[&str] = &["~/a", "~/b", "~/a/b", "~/a/b/c", "~/a/c", "~/b/c", "~/e", "~/e/f", "~"];
const ODD_PATHS: &[&str] =
    &["~/a/", "~/a//b", "~/./a", "~/a/..", "a", "\"~/a\\x01\"", "~/ü", "~/zookeeper", "~/a/s-0000000001"];
const DATA: &[&str] = &["\"\"", "x", "\"longer data\"", "null", "\"\\x00\\xff\""];
const ACLS: &[&str] = &[
    "[world:anyone:cdrwa]",
    "[world:anyone:cdrwa]",
    "[world:anyone:cdrwa]",
    "[world:anyone:ra]",
    "[world:anyone:cdwa]",
    "[world:anyone:crwa]",
    "[world:anyone:drwa]",
    "[world:anyone:cdrw]",
    "[auth::cdrwa]",
    "[\"digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa\" world:anyone:r]",
    "[ip:127.0.0.1:cdrwa]",
    "[ip:10.0.0.0/8:cdrwa world:anyone:ra]",
    "[ip:127.0.0.0/8:cdra]",
    "[]",
    "[world:nobody:r]",
    "[nobody:x:r]",
    "[digest:x:r]",
    "[ip:300.1.1.1:r]",
    "[world:anyone:0]",
    "[world:anyone:64]",
    "[world:anyone:r world:anyone:r]",
];
const IDENTITIES: &[&str] =
    &["digest bob:pw", "digest ann:secret", "digest bob:other", "ip \"\"", "nobody x"];
/// Where the servers have a super user.
const SUPER_IDENTITIES: &[&str] =
    &["digest $super", "digest $super", "digest super:wrong", "super super:secret"];
const MEMBERS: &[&str] = &["null", "\"\"", "1", "\"server.1=localhost:1:2;3\""];

/// How often each kind of move is drawn.
#[derive(Clone, Copy)]
struct Mix {
    writes: u32,
    reads: u32,
    multis: u32,
    watches: u32,
    /// Requests about ACLs and identities. Without them, znodes are open to everybody.
    access: u32,
    sessions: u32,
    damaged: u32,
    /// Requests about quotas. Where quotas are enforced, no writes in bursts then, as an Apache ZooKeeper compares the later ones with
    /// statistics that may not have the earlier ones yet, and no multis of several parts, which are decided otherwise.
    quotas: u32,
}

/// What a run has most of. Runs take turns by their seeds.
const MIXES: [Mix; 7] = [
    Mix { writes: 30, reads: 15, multis: 12, watches: 15, access: 8, sessions: 3, damaged: 3, quotas: 0 },
    Mix { writes: 30, reads: 10, multis: 10, watches: 40, access: 0, sessions: 4, damaged: 0, quotas: 0 },
    Mix { writes: 15, reads: 10, multis: 50, watches: 8, access: 0, sessions: 2, damaged: 0, quotas: 0 },
    Mix { writes: 25, reads: 20, multis: 10, watches: 10, access: 30, sessions: 2, damaged: 1, quotas: 0 },
    Mix { writes: 25, reads: 8, multis: 5, watches: 20, access: 2, sessions: 30, damaged: 1, quotas: 0 },
    Mix { writes: 15, reads: 10, multis: 8, watches: 8, access: 4, sessions: 3, damaged: 40, quotas: 0 },
    Mix { writes: 40, reads: 5, multis: 10, watches: 5, access: 4, sessions: 3, damaged: 1, quotas: 40 },
];

pub(super) struct Generator {
    pub(super) random: StdRng,
    mix: Mix,
    has_super: bool,
    pub(super) enforces_quotas: bool,
}

impl Generator {
    /// `settings` are those of the servers.
    pub(super) fn new(seed: u64, settings: &[Setting]) -> Self {
        let mix = MIXES[(seed % MIXES.len() as u64) as usize];
        Self {
            random: StdRng::seed_from_u64(seed),
            mix,
            has_super: settings.contains(&Setting::Super),
            enforces_quotas: settings.contains(&Setting::EnforceQuota),
        }
    }

    pub(super) fn next(&mut self) -> Move {
        let session = self.of(&SESSIONS);
        let Mix { writes, reads, multis, watches, access, sessions, damaged, quotas } = self.mix;
        let all = writes + reads + multis + watches + access + sessions + damaged + quotas;
        let mut left = self.random.random_range(0..all);
        let mut is = |weight: u32| {
            let hit = left < weight;
            left = left.wrapping_sub(weight);
            hit
        };
        let request = if is(writes) {
            return self.burst(session, Self::write);
        } else if is(reads) {
            return self.burst(session, Self::read);
        } else if is(multis) {
            self.multi()
        } else if is(watches) {
            return self.burst(session, Self::watch);
        } else if is(access) {
            self.access()
        } else if is(sessions) {
            match self.random.random_range(0..10) {
                0..=3 => return Move { session, what: What::Resume },
                4..=6 => return Move { session, what: What::Move },
                7 => return Move { session, what: What::Intrude },
                8 => return Move { session, what: What::Ahead },
                _ => "closeSession".to_owned(),
            }
        } else if is(damaged) {
            self.damaged()
        } else {
            self.quota()
        };
        self.ask(session, vec![request])
    }

    /// Mostly one request, or else some more right after it.
    fn burst(&mut self, session: char, first: fn(&mut Self) -> String) -> Move {
        let mut requests = vec![first(self)];
        if self.one_in(6) && !self.has_enforced_quotas() {
            for _ in 0..self.random.random_range(1..6) {
                let next =
                    self.of::<fn(&mut Self) -> String>(&[Self::write, Self::read, Self::multi, Self::watch]);
                requests.push(next(self));
            }
        }
        self.ask(session, requests)
    }

    fn ask(&mut self, session: char, requests: Vec<String>) -> Move {
        let since = self.of(&[0, 0, 1, 2, 3, 5, 8, 20, 1_000]);
        let draft = |text: &String| Draft::parse(&mut Cursor::new(text).ok()?).ok();
        // What does not parse is a mistake in the tables above, which a test would find.
        let requests =
            requests.into_iter().filter_map(|text| draft(&text).map(|draft| (text, draft))).collect();
        Move { session, what: What::Ask { requests, since } }
    }

    fn has_enforced_quotas(&self) -> bool {
        self.mix.quotas > 0 && self.enforces_quotas
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        *all.choose(&mut self.random).unwrap_or(&all[0])
    }

    pub(super) fn one_in(&mut self, count: u32) -> bool {
        self.random.random_ratio(1, count)
    }

    pub(super) fn path(&mut self) -> String {
        match self.random.random_range(0..60) {
            0..=3 => self.of(ODD_PATHS).to_owned(),
            4 => quoted(format!("~/a{}", self.character()).as_bytes()),
            _ => self.of(PATHS).to_owned(),
        }
    }

    /// Any character that needs no surrogates in Java, and those beside which it is decided whether a path may have them.
    fn character(&mut self) -> char {
        let edge = self.of(&[0x00, 0x20, 0x2f, 0x7f, 0xa0, 0xd7ff, 0xe000, 0xf8ff, 0xffef, 0xfff0]);
        let code = match self.one_in(2) {
            true => self.random.random_range(0..=0xffff),
            false => edge + self.random.random_range(0..2),
        };
        char::from_u32(code).unwrap_or('\u{fffd}')
    }

    fn version(&mut self) -> i32 {
        self.of(&[-1, -1, -1, -1, 0, 1, 2, -2, i32::MAX])
    }

    fn acl(&mut self) -> String {
        if self.mix.access == 0 {
            ACLS[0].to_owned()
        } else if self.one_in(4) {
            format!("[world:anyone:{}]", self.random.random_range(0..32))
        } else {
            self.of(ACLS).to_owned()
        }
    }

    pub(super) fn write(&mut self) -> String {
        let (path, data, acl, version) = (self.path(), self.of(DATA), self.acl(), self.version());
        let path = path.as_str();
        match self.random.random_range(0..20) {
            0..=4 => format!("create {path} {data} {acl}"),
            5 => {
                let flags = self.of(&[0, 0, 1, 2, 3, 4, 7, -1]);
                format!("create2 {} {data} {acl} flags={flags}", inside(path))
            }
            6 | 7 => format!("create {path} {data} ephemeral"),
            8 => format!("create2 {}/s- {data} sequential", self.of(PATHS)),
            9 => format!("create {}/ {data} ephemeral sequential", self.of(PATHS)),
            10 => format!("createContainer {path} {data} {acl}"),
            11 => {
                let (flags, ttl) = (self.of(&[5, 5, 6]), self.of(&[1_000_000, 1_000_000, 0, i64::MAX]));
                format!("createTTL {} {data} {acl} flags={flags} ttl={ttl}", inside(path))
            }
            12..=14 => format!("delete {path} {version}"),
            // A server that asks for a permission here may be right: see docs/deviations.md.
            15 if self.mix.access == 0 => format!("deleteContainer {path}"),
            _ => format!("setData {path} {data} {version}"),
        }
    }

    pub(super) fn read(&mut self) -> String {
        let path = self.path();
        match self.random.random_range(0..10) {
            0 | 1 => format!("getData {path}"),
            2 | 3 => format!("exists {path}"),
            4 => format!("getChildren {path}"),
            5 => format!("getChildren2 {path}"),
            6 => format!("getACL {path}"),
            7 => format!("getAllChildrenNumber {path}"),
            8 => format!("getEphemerals {path}"),
            _ => format!("sync {path}"),
        }
    }

    pub(super) fn multi(&mut self) -> String {
        let count = if self.has_enforced_quotas() { 1 } else { self.of(&[0, 1, 2, 2, 3, 3, 4, 6]) };
        if self.one_in(5) {
            let parts: Vec<_> = (0..count)
                .map(|_| format!("{} {}", self.of(&["getData", "getChildren"]), self.path()))
                .collect();
            return format!("multiRead {{ {} }}", parts.join("; "));
        }
        let parts: Vec<_> = (0..count)
            .map(|_| match self.one_in(5) {
                true => format!("check {} {}", self.path(), self.version()),
                false => self.write(),
            })
            // No part of a multi.
            .filter(|part| !part.starts_with("deleteContainer"))
            .collect();
        format!("multi {{ {} }}", parts.join("; "))
    }

    pub(super) fn watch(&mut self) -> String {
        let path = self.path();
        match self.random.random_range(0..14) {
            0..=2 => format!("getData {path} watch"),
            3..=5 => format!("exists {path} watch"),
            6 | 7 => format!("getChildren {path} watch"),
            8 => format!("getChildren2 {path} watch"),
            9 | 10 => {
                let path = if self.one_in(10) { "/" } else { &path };
                format!("addWatch {path} {}", self.of(&[0, 0, 1, 1, 1, 2, -1]))
            }
            11 if self.one_in(10) => format!("removeWatches / {}", self.random.random_range(3..6)),
            11 => format!("removeWatches {path} {}", self.random.random_range(0..7)),
            12 => format!("checkWatches {path} {}", self.random.random_range(0..7)),
            _ => {
                let [data, exist, child, persistent, recursive] = std::array::from_fn(|_| self.paths());
                if self.one_in(2) {
                    return format!("setWatches $since {data} {exist} {child}");
                }
                format!("setWatches2 $since {data} {exist} {child} {persistent} {recursive}")
            }
        }
    }

    fn paths(&mut self) -> String {
        let paths: Vec<_> = (0..self.random.random_range(0..4)).map(|_| self.of(PATHS)).collect();
        format!("[{}]", paths.join(" "))
    }

    pub(super) fn access(&mut self) -> String {
        match self.random.random_range(0..12) {
            0..=3 => format!("setACL {} {} {}", self.path(), self.acl(), self.version()),
            4..=6 => format!("getACL {}", self.path()),
            7 => "whoAmI".to_owned(),
            8 => {
                let [joining, leaving, members] = std::array::from_fn(|_| self.of(MEMBERS));
                format!("reconfig {joining} {leaving} {members} {}", self.of(&[-1, 0, 5, i64::MAX]))
            }
            _ if self.has_super && self.one_in(2) => format!("auth {}", self.of(SUPER_IDENTITIES)),
            _ => format!("auth {}", self.of(IDENTITIES)),
        }
    }
}

/// Another path for the znode of the run, as a sequential znode of that name would not be below it.
fn inside(path: &str) -> &str {
    if path == "~" { PATHS[0] } else { path }
}

#[cfg(test)]
mod tests {
    use zoolet_proto::OpCode;

    use super::*;

    #[test]
    fn whatever_is_drawn_parses_and_every_operation_is_drawn() {
        let mut drawn = std::collections::BTreeSet::new();
        for seed in 0..14 {
            let settings = if seed % 2 == 0 { &Setting::ALL[..] } else { &[] };
            let mut generator = Generator::new(seed, settings);
            for _ in 0..800 {
                for draw in [Generator::write, Generator::read, Generator::multi, Generator::watch] {
                    check(&draw(&mut generator), &mut drawn);
                }
                check(&generator.access(), &mut drawn);
                check(&generator.damaged(), &mut drawn);
                check(&generator.quota(), &mut drawn);
            }
        }
        // Checks are parts of multis, closeSession is one of the moves, and each move ends with pings. createSession is for servers
        // among themselves, and SASL needs a mechanism.
        let left_out =
            [OpCode::Check, OpCode::Sasl, OpCode::CreateSession, OpCode::CloseSession, OpCode::Ping];
        let expected = OpCode::ALL.iter().filter(|op| !left_out.contains(op)).map(|op| op.name());
        let expected: std::collections::BTreeSet<_> = expected.chain(["raw"]).map(str::to_owned).collect();
        assert_eq!(drawn, expected);
    }

    fn check(text: &str, drawn: &mut std::collections::BTreeSet<String>) {
        let mut cursor = Cursor::new(text).expect(text);
        if let Err(why) = Draft::parse(&mut cursor) {
            panic!("{text}: {why}");
        }
        assert!(cursor.peek().is_none(), "{text}");
        drawn.insert(text.split(' ').next().unwrap_or_default().to_owned());
    }

    #[test]
    fn the_same_seed_draws_the_same_moves() {
        let drawn = |seed| {
            let mut generator = Generator::new(seed, &[]);
            (0..200).map(|_| format!("{:?}", generator.next())).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(14));
    }
}
