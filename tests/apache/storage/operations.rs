//! Random writes of every kind, most of which succeed, from a seed.

use bytes::Bytes;
use zoolet_proto::{Acl, Perms, Request};
use zoolet_test_support::*;

const NAMES: &[&str] = &["a", "b", "c", "d", "lock-", "with space", "é", "名前", "\u{fffd}", "Z"];
/// The znodes under which the others are.
pub const TOPS: [&str; 3] = ["/t", "/u", "/v"];
const QUOTAS: &[&str] = &["/t", "/t/a", "/u"];
/// The sum of `bob:pw`, as an ACL has it.
const BOB: &str = "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

/// What may be asked of the server that writes a directory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Apache ZooKeeper 3.8.0 writes create2 in a multi in a way that it cannot read again.
    pub create2_in_multi: bool,
    /// A container as createContainer and createTTL make them, with the flags that belong to them. With others a real
    /// server logs a wrong digest.
    pub odd_flags: bool,
    /// No container and no TTL.
    pub only_those_of_3_4: bool,
}

/// A source of requests.
pub struct Operations {
    dice: Dice,
    limits: Limits,
}

impl Operations {
    pub fn new(dice: Dice, limits: Limits) -> Self {
        Self { dice, limits }
    }

    /// What every connection sends first.
    pub fn login() -> Request {
        auth("digest", "bob:pw")
    }

    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// The next request: a write, or a multi of writes.
    pub fn request(&mut self) -> Request {
        match self.dice.below(40) {
            0..5 => self.multi(),
            5..7 => set_acl(&self.path(), self.acl()).version(self.version()),
            7..9 => self.quota(),
            _ => self.write(self.limits.create2_in_multi || self.limits.odd_flags),
        }
    }

    fn multi(&mut self) -> Request {
        let careful = self.dice.chance(70);
        let most = if self.dice.chance(5) { 40 } else { 6 };
        let count = self.dice.below(most);
        let parts = (0..count).map(|_| match self.dice.below(6) {
            // Something that cannot fail, or the whole multi is nothing but an error.
            0..4 if careful => sequential(self.dice.of(&TOPS)).data(self.data()),
            4 if careful => check("/", -1),
            5 => check(&self.path(), self.version()),
            _ => self.write(self.limits.create2_in_multi),
        });
        multi(parts.collect::<Vec<_>>())
    }

    fn write(&mut self, create2_too: bool) -> Request {
        let path = self.path();
        match self.dice.below(24) {
            0..6 => self.filled(create(&path)),
            6 | 7 if create2_too => self.filled(create2(&path)),
            6..9 => self.filled(ephemeral(&path)),
            9 => self.filled(sequential(&path)),
            10 => self.filled(ephemeral(&path).sequential()),
            11 if self.limits.odd_flags => self.filled(create(&path).flags(4)),
            11..14 if self.limits.only_those_of_3_4 => self.filled(create(&path)),
            11 | 12 => self.filled(container(&path)),
            13 => {
                let flags = 5 + self.dice.below(2) as i32;
                let ttl = [1, 100, 3_600_000, 0xff_ffff_ffff][self.dice.below(4)];
                create_ttl(&path, flags, ttl)
            }
            14..17 => delete(&path).version(self.version()),
            _ => {
                let mut request = set_data(&path, "").version(self.version());
                if let Request::SetData(record) = &mut request {
                    record.data = self.data_or_null();
                }
                request
            }
        }
    }

    fn filled(&mut self, request: Request) -> Request {
        let (acl, data) = (self.acl(), self.data_or_null());
        let mut request = request.acl(acl);
        if let Request::Create(record) | Request::Create2(record) | Request::CreateContainer(record) =
            &mut request
        {
            record.data = data;
        }
        request
    }

    /// A quota, its end, or other limits or statistics of it. Both of its znodes come and go together: Apache ZooKeeper
    /// warns of one without the other.
    fn quota(&mut self) -> Request {
        let quota = format!("/zookeeper/quota{}", self.dice.of(QUOTAS));
        let (limits, stats) = (format!("{quota}/zookeeper_limits"), format!("{quota}/zookeeper_stats"));
        match self.dice.below(8) {
            0..2 => create(&quota),
            2..5 => multi([
                create(&limits).data("count=1000000,bytes=-1"),
                create(&stats).data("count=0,bytes=0"),
            ]),
            5 => set_data(&limits, "count=5,bytes=1000000"),
            6 => set_data(&stats, "count=7,bytes=7"),
            _ => multi([delete(&stats), delete(&limits)]),
        }
    }

    fn path(&mut self) -> String {
        let mut path = self.dice.of(&TOPS).to_owned();
        for _ in 0..self.dice.below(4) {
            path.push('/');
            path.push_str(self.dice.of(NAMES));
        }
        match self.dice.below(60) {
            // A sequential znode that may exist.
            0..4 => format!("{path}{:010}", self.dice.below(30)),
            4 => format!("{path}/{}", "long".repeat(1 + self.dice.below(200))),
            // One that is not legal.
            // For 3.4 the last of these is a name like any other.
            5 if self.limits.only_those_of_3_4 => path + "/",
            5 => [path + "/", "/t//a".into(), "/".into(), "/zookeeper/config".into()][self.dice.below(4)]
                .clone(),
            _ => path,
        }
    }

    fn data(&mut self) -> Vec<u8> {
        let len = match self.dice.below(200) {
            0 => self.dice.below(100_000),
            1..10 => self.dice.below(3_000),
            10..40 => 0,
            _ => self.dice.below(40),
        };
        (0..len).map(|_| self.dice.below(256) as u8).collect()
    }

    fn data_or_null(&mut self) -> Option<Bytes> {
        (!self.dice.chance(10)).then(|| self.data().into())
    }

    fn version(&mut self) -> i32 {
        [-1, -1, -1, -1, 0, 1, 2][self.dice.below(7)]
    }

    /// One that leaves every client all permissions, mostly.
    fn acl(&mut self) -> Vec<Acl> {
        let one = |dice: &mut Dice| match dice.below(8) {
            0 => only(Perms::ALL, "auth", ""),
            1 => only(Perms::ALL, "digest", BOB),
            2 => only(Perms::ALL, "ip", "127.0.0.0/8"),
            3 => only(Perms(1 + dice.below(31) as i32), "digest", "alice:ikIaKsbtGweaHnb/jKn7OHqbunM="),
            4 => anyone(Perms(16 | dice.below(32) as i32)),
            _ => Acl::open(),
        };
        match self.dice.below(20) {
            0 => vec![],
            1..4 => (0..1 + self.dice.below(4)).flat_map(|_| one(&mut self.dice)).collect(),
            4..7 => one(&mut self.dice),
            _ => Acl::open(),
        }
    }
}
