//! Several sessions do anything: the invariants hold after each step, and the transactions replay to the same tree.
//!
//! The first byte selects between steps of eight bytes and frames of arbitrary bytes.

#![no_main]

#[path = "../../server/core/tests/it/common/mod.rs"]
mod common;

use common::random::Script;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    let mut script = Script::new();
    if choice % 4 == 0 {
        frames(&mut script, rest);
    } else {
        let (steps, _) = rest.as_chunks();
        for step in steps {
            script.step(*step);
            script.assert_sound();
        }
    }
    script.assert_replays();
});

/// Frames, each after a byte with its length.
fn frames(script: &mut Script, mut rest: &[u8]) {
    while let Some((length, more)) = rest.split_first() {
        let (frame, more) = more.split_at(usize::from(*length).min(more.len()));
        script.frame(frame);
        script.assert_sound();
        rest = more;
    }
}
