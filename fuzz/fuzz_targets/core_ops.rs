//! Several sessions do anything: the invariants hold after each step, and the transactions replay to the same tree.
//!
//! No request may allocate more than a bound for each byte of its frame and of the state. What takes long without allocating
//! is found by the time limit of the fuzzer.
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
    script.world.meter = Some(within_budget);
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

/// Executes a request and checks the bytes that it allocates in all, and the number of allocations, in place of its steps.
fn within_budget(frame: usize, state: usize, execute: &mut dyn FnMut()) {
    let used = allocation_counter::measure(execute);
    let bytes = (32 << 10) + 256 * frame + 16 * state;
    let count = 1000 + 4 * frame + state;
    assert!(used.bytes_total <= bytes as u64, "{used:?} for a frame of {frame} bytes, state of {state}");
    assert!(used.count_total <= count as u64, "{used:?} for a frame of {frame} bytes, state of {state}");
}

/// Frames, each after a byte with its length.
fn frames(script: &mut Script, mut rest: &[u8]) {
    while let Some((length, more)) = rest.split_first() {
        let (frame, more) = more.split_at(usize::from(*length).min(more.len()));
        script.frame(frame);
        script.assert_sound();
        rest = more;
    }
}
