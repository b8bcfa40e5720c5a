//! Requests that no client sends: damaged ones, and unknown opcodes.

use rand::RngExt as _;

use super::generate::Generator;

impl Generator {
    /// A request with missing, wrong or additional bytes, or with an unknown opcode.
    pub(super) fn damaged(&mut self) -> String {
        if self.one_in(8) {
            let opcode = self.opcode();
            return format!("raw {opcode} \"\"");
        }
        // A whole one would need a permission here, by decision: see `write`.
        if self.one_in(20) {
            return format!("deleteContainer {} cut={}", self.path(), self.random.random_range(1..60));
        }
        let kinds = [Self::write, Self::read, Self::multi, Self::watch, Self::access];
        let request = self.of(&kinds)(self);
        match self.random.random_range(0..8) {
            0 => format!("{request} cut={}", self.random.random_range(1..12)),
            1 => format!("{request} cut={}", self.random.random_range(1..120)),
            2 => format!("{request} extra={}", self.of(&[1, 3, 4, 200])),
            3 => format!("{request} xid={}", self.of(&[0, 1, -2, -3, -4, -8, -77, i32::MAX, i32::MIN])),
            _ => match self.place(&request) {
                Some(at) => format!("{request} poke={at}:{}", self.byte()),
                None => request,
            },
        }
    }

    /// An opcode, or none, except those that end a session or are answered as a handshake is.
    fn opcode(&mut self) -> i32 {
        let opcode = match self.random.random_range(0..4) {
            0 => self.of(&[1_000, i32::MIN, i32::MAX, -100, 255, 256]),
            1 => self.random.random_range(95..116),
            _ => self.random.random_range(-13..31),
        };
        if matches!(opcode, -10 | -11) { 13 } else { opcode }
    }

    /// Which byte of a request is wrong.
    fn place(&mut self, request: &str) -> Option<i32> {
        let any = match self.random.random_range(0..3) {
            0 => self.random.random_range(-12..0),
            1 => self.random.random_range(0..14),
            _ => self.random.random_range(0..130),
        };
        if request.contains("createTTL") {
            // With the flags of another znode and a negative TTL it stops an Apache ZooKeeper (docs/deviations.md).
            return (!request.starts_with("multi")).then(|| self.random.random_range(4..40));
        }
        if request.starts_with("setWatches") {
            // Before that is a zxid, which is each server's own.
            return Some(self.random.random_range(8..60));
        }
        // Not the length of the path, which could become that of `/`, where the servers have different pasts.
        Some(if any == 3 { 2 } else { any })
    }

    fn byte(&mut self) -> u8 {
        let byte = match self.of(&[0u8, 1, 4, 0x7f, 0x80, 0xff, 2]) {
            2 => self.random.random(),
            other => other,
        };
        // Never the opcode of a createTTL, for the reason above, and never the begin of a surrogate.
        if byte == 0xed { 0xff } else { byte & !0x10 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::case::Setting;

    #[test]
    fn every_kind_of_damage_is_drawn_and_none_that_stops_an_apache_zookeeper() {
        let mut kinds = std::collections::BTreeSet::new();
        let mut generator = Generator::new(5, &Setting::ALL);
        for _ in 0..20_000 {
            let text = generator.damaged();
            let damage = text.rsplit(' ').next().and_then(|word| word.split_once('='));
            let Some((kind @ ("cut" | "poke" | "extra" | "xid"), value)) = damage else { continue };
            kinds.insert(kind.to_owned());
            if kind == "poke" && text.contains("createTTL") {
                let at: i32 = value.split(':').next().and_then(|at| at.parse().ok()).expect("a place");
                assert!((4..40).contains(&at) && !text.starts_with("multi"), "{text}");
            }
        }
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["cut", "extra", "poke", "xid"]);
    }
}
