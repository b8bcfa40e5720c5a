//! Random requests from a seed, so that a difference can be reproduced.

use zoolet_proto::records::SetWatches2;
use zoolet_proto::{Acl, OpCode, Perms, Request, Zxid};
use zoolet_test_support::*;

use crate::frames::duo::{Conn, Duo};

const PATHS: &[&str] =
    &["/ra", "/rb", "/ra/a", "/ra/b", "/ra/b/c", "/rb/e", "/rb/e/f", "/rc", "/ra/", "/ra\u{1}", "r", "/", ""];
const MOST_PATHS: usize = 8;

/// What has a quota, and where the quotas are.
const WITH_QUOTAS: &[&str] = &["/ra", "/ra/a", "/ra/b", "/ra/b/c", "/ra/b/d", "/rb"];
const QUOTAS: &[&str] = &["/zookeeper/quota/ra", "/zookeeper/quota/ra/b", "/zookeeper/quota/rb"];
const LIMITS: &[&str] = &[
    "count=2,bytes=-1",
    "count=3,bytes=9=;byteHardLimit=20;countHardLimit=3",
    "count=-1,bytes=-1=;byteHardLimit=12;countHardLimit=-1",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2",
];
const DATA: &[&str] = &["", "x", "longer data"];

/// A generator of numbers (xorshift), seeded.
struct Dice(u64);

impl Dice {
    #[allow(clippy::print_stdout, reason = "reports the seed")]
    fn new(salt: u64) -> Self {
        let seed = number("ZOOLET_UPSTREAM_SEED", 1);
        println!("seed {seed}");
        Self((seed ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    fn path(&mut self) -> &'static str {
        let odd = self.below(10) == 0;
        self.of(if odd { PATHS } else { &PATHS[..MOST_PATHS] })
    }

    fn version(&mut self) -> i32 {
        [-1, -1, -1, 0, 1, 2, -2][self.below(7)]
    }

    fn acl(&mut self) -> Vec<Acl> {
        match self.below(24) {
            0 => vec![],
            1 => anyone(Perms(self.below(32) as i32 | 16)),
            2 => only(Perms::ALL, "auth", ""),
            3 => only(Perms::ALL, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="),
            4 => anyone(Perms(30)),
            5 => [Acl::open(), Acl::open()].concat(),
            _ => Acl::open(),
        }
    }

    fn write(&mut self) -> Request {
        let (path, data) = (self.path(), self.of(DATA));
        match self.below(12) {
            0..=2 => create(path).acl(self.acl()).data(data),
            3 => create2(path).flags(self.below(5) as i32).data(data),
            4 => container(path).flags(self.below(5) as i32),
            5 | 6 => delete(path).version(self.version()),
            7 | 8 => set_data(path, data).version(self.version()),
            9 => create(path).flags([1, 2, 3][self.below(3)]),
            10 => create_ttl(path, 5 + self.below(2) as i32, 1_000_000 + self.below(5) as i64),
            _ => check(path, self.version()),
        }
    }

    fn request(&mut self) -> Request {
        let path = self.path();
        match self.below(34) {
            0..=12 => match self.write() {
                // Its place is a multi.
                Request::Check(record) => multi([Request::Check(record)]),
                request => request,
            },
            13..=16 => multi((0..self.below(6)).map(|_| self.write()).collect::<Vec<_>>()),
            17 => set_acl(path, self.acl()).version(self.version()),
            18 => get_acl(path),
            19 => exists(path).watch(),
            20 => get_data(path).watch(),
            21 => get_children(path).watch(),
            22 => get_children2(path),
            23 => get_data(path),
            24 => get_all_children_number(path),
            25 => get_ephemerals(Some(path)),
            26 => add_watch(path, self.below(2) as i32),
            27 => remove_watches(path, 1 + self.below(5) as i32),
            28 => check_watches(path, 1 + self.below(5) as i32),
            29 => set_watches([0, i64::MAX][self.below(2)], &[path], &[self.path()], &[self.path()]),
            30 => set_persistent_watches(0, &[path], &[self.path()]),
            31 => multi_read(
                (0..self.below(4)).map(|n| if n % 2 == 0 { get_data(path) } else { get_children(path) }),
            ),
            32 => auth("digest", "bob:pw"),
            _ => sync(path),
        }
    }
}

/// Requests of several sessions that come and go.
pub fn operations(duo: &mut Duo) {
    let mut dice = Dice::new(1);
    let mut conns: Vec<Conn> = (0..4).map(|_| duo.connect()).collect();
    for _ in 0..number("ZOOLET_UPSTREAM_STEPS", 3_000) {
        let which = dice.below(conns.len());
        let conn = conns[which];
        match dice.below(200) {
            0 => {
                duo.unordered();
                duo.ask(conn, Request::CloseSession);
                conns[which] = duo.connect();
            }
            1 => conns[which] = duo.resume(conn, |_| {}),
            _ => duo.ask(conn, dice.request()),
        }
        if !duo.is_ready(conns[which]) {
            conns[which] = duo.connect();
        }
    }
    tidy(duo, conns);
}

/// Several requests in one write. Those that a real server answers out of turn, or checks against what was before the
/// write, are left out.
pub fn pipelines(duo: &mut Duo) {
    let mut dice = Dice::new(3);
    let (a, b) = (duo.connect(), duo.connect());
    for _ in 0..number("ZOOLET_UPSTREAM_STEPS", 3_000) / 10 {
        let mut batch = Vec::new();
        while batch.len() < 8 {
            let request = dice.request();
            if ![OpCode::Auth, OpCode::SetAcl].contains(&request.op()) {
                batch.push(request);
            }
        }
        duo.pipeline([a, b][dice.below(2)], batch);
    }
    tidy(duo, vec![a, b]);
}

/// Watches set again about any time that is not long ago, all lists of them in one request.
pub fn reconciling(duo: &mut Duo) {
    let mut dice = Dice::new(5);
    let conns = [duo.connect(), duo.connect()];
    for _ in 0..number("ZOOLET_UPSTREAM_STEPS", 3_000) / 2 {
        let conn = conns[dice.below(2)];
        if dice.below(4) > 0 {
            duo.ask(conn, dice.request());
            continue;
        }
        let back = [0, 0, 1, 2, 3, 5, 8, 20, -5][dice.below(9)];
        let [data, exist, child, persistent, recursive] =
            std::array::from_fn(|_| (0..dice.below(4)).map(|_| dice.path().to_owned()).collect::<Vec<_>>());
        duo.ask_since(conn, back, |since| {
            let (data, exist, child) = (data.clone(), exist.clone(), child.clone());
            let (persistent, recursive) = (persistent.clone(), recursive.clone());
            let relative_zxid = Zxid(since);
            let all = SetWatches2 { relative_zxid, data, exist, child, persistent, recursive };
            Request::SetWatches2(Box::new(all))
        });
    }
    tidy(duo, conns.to_vec());
}

/// Quotas that come and go over znodes that do.
pub fn quotas(duo: &mut Duo) {
    let mut dice = Dice::new(4);
    let a = duo.connect();
    for _ in 0..number("ZOOLET_UPSTREAM_STEPS", 3_000) / 2 {
        let path = dice.of(WITH_QUOTAS);
        let data = "x".repeat(dice.below(10));
        let quota = dice.of(QUOTAS);
        let (limits, stats) = (format!("{quota}/zookeeper_limits"), format!("{quota}/zookeeper_stats"));
        duo.ask(
            a,
            match dice.below(16) {
                0..=2 => create(path).data(&data),
                3 => create(path).flags(2).data(&data),
                4 | 5 => set_data(path, &data).version(dice.version()),
                6 | 7 => delete(path),
                // One part only: ours are counted together.
                8 => multi([create(path).data(&data)]),
                9 => create(quota),
                10 => create(&limits).data(dice.of(LIMITS)),
                11 => set_data(&limits, dice.of(LIMITS)),
                12 => create(&stats).data("count=0,bytes=0"),
                13 => [delete(&limits), delete(&stats), delete(quota)][dice.below(3)].clone(),
                14 => set_data(&stats, "count=1,bytes=1"),
                _ => get_data(&stats),
            },
        );
    }
    for quota in QUOTAS.iter().rev() {
        for below in ["/zookeeper_limits", "/zookeeper_stats", ""] {
            duo.ask(a, delete(&format!("{quota}{below}")));
        }
    }
    tidy(duo, vec![a]);
}

/// Frames of which some bytes are wrong.
pub fn frames(duo: &mut Duo) {
    let mut dice = Dice::new(2);
    let mut conn = duo.connect();
    for _ in 0..number("ZOOLET_UPSTREAM_STEPS", 3_000) {
        let request = dice.request();
        let mut wire = bytes::BytesMut::new();
        request.encode_frame(zoolet_proto::Xid(0), &mut wire);
        let mut body = wire[12..].to_vec();
        for _ in 0..1 + dice.below(2) {
            if body.is_empty() {
                break;
            }
            let at = dice.below(body.len());
            match dice.below(4) {
                0 => body.truncate(at),
                1 => body[at] = dice.below(256) as u8,
                2 => body[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
                _ => body.insert(at, dice.below(256) as u8),
            }
        }
        // A createTTL of other flags kills the other side, in a multi as well as alone.
        if [OpCode::CreateTtl, OpCode::Auth].contains(&request.op()) {
            continue;
        }
        duo.raw(&format!("{request:?} as {body:02x?}"), conn, request.op(), Body::from_bytes(&body));
        if !duo.is_ready(conn) {
            conn = duo.resume(conn, |_| {});
        }
    }
    tidy(duo, vec![conn]);
}

/// Takes away what can be, so that scripts after this one begin with little.
fn tidy(duo: &mut Duo, conns: Vec<Conn>) {
    let last = duo.connect();
    for conn in conns {
        duo.unordered();
        duo.ask(conn, Request::CloseSession);
    }
    for path in PATHS.iter().rev() {
        duo.ask(last, delete(path));
    }
    duo.ask(last, get_children2("/"));
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
