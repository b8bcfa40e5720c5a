//! Random requests about quotas, from a seed, so that a difference can be reproduced. Others are those of `zoolet conform
//! --reference`.

use zoolet_proto::Request;
use zoolet_test_support::*;

use crate::frames::duo::Duo;

/// What has a quota, and where the quotas are.
const WITH_QUOTAS: &[&str] = &["/ra", "/ra/a", "/ra/b", "/ra/b/c", "/ra/b/d", "/rb"];
const QUOTAS: &[&str] = &["/zookeeper/quota/ra", "/zookeeper/quota/ra/b", "/zookeeper/quota/rb"];
const LIMITS: &[&str] = &[
    "count=2,bytes=-1",
    "count=3,bytes=9=;byteHardLimit=20;countHardLimit=3",
    "count=-1,bytes=-1=;byteHardLimit=12;countHardLimit=-1",
    "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2",
];

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

    fn version(&mut self) -> i32 {
        [-1, -1, -1, 0, 1, 2, -2][self.below(7)]
    }
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
    duo.ask(a, Request::CloseSession);
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
