//! The calls and errors of one instance.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use zoolet_client::internal::locked;

/// When an instance is left out, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct DownPolicy {
    pub(super) errors: u32,
    pub(super) within: Duration,
    pub(super) pause: Duration,
}

impl Default for DownPolicy {
    fn default() -> Self {
        Self { errors: 2, within: Duration::from_secs(30), pause: Duration::from_secs(30) }
    }
}

/// What a selector knows of an instance.
#[derive(Debug, Default)]
pub(super) struct Load(Mutex<LoadState>);

#[derive(Debug, Default)]
struct LoadState {
    in_flight: u32,
    /// Errors since the first of them.
    errors: u32,
    since: Option<Instant>,
    /// Left out until then. `None` if it is up.
    down_until: Option<Instant>,
}

impl Load {
    pub(super) fn in_flight(&self) -> u32 {
        locked(&self.0).in_flight
    }

    /// Whether it is up, or due for a trial.
    pub(super) fn is_available(&self, now: Instant) -> bool {
        locked(&self.0).down_until.is_none_or(|until| until <= now)
    }

    /// A call begins; returns whether it is a trial. Until that has ended, or for another pause, there is no other.
    pub(super) fn begin(&self, now: Instant, policy: &DownPolicy) -> bool {
        let mut state = locked(&self.0);
        state.in_flight += 1;
        let is_trial = state.down_until.is_some();
        if is_trial {
            state.down_until = Some(now + policy.pause);
        }
        is_trial
    }

    pub(super) fn note_error(&self, now: Instant, policy: &DownPolicy) {
        let mut state = locked(&self.0);
        if state.since.is_none_or(|since| now - since > policy.within) {
            (state.errors, state.since) = (0, Some(now));
        }
        state.errors = state.errors.saturating_add(1);
        // A failed trial needs no second error.
        if state.down_until.is_some() || state.errors >= policy.errors {
            state.down_until = Some(now + policy.pause);
        }
    }

    /// A call ends. A trial that has succeeded brings the instance back.
    pub(super) fn end(&self, has_recovered: bool) {
        let mut state = locked(&self.0);
        state.in_flight = state.in_flight.saturating_sub(1);
        if has_recovered {
            (state.errors, state.since, state.down_until) = (0, None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DownPolicy =
        DownPolicy { errors: 2, within: Duration::from_secs(30), pause: Duration::from_secs(10) };

    fn fail(load: &Load, now: Instant) {
        load.begin(now, &POLICY);
        load.note_error(now, &POLICY);
        load.end(false);
    }

    #[test]
    fn an_instance_is_left_out_after_two_errors_in_the_window_and_tried_by_one_call() {
        let (load, start) = (Load::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        fail(&load, at(0));
        assert!(load.is_available(at(0)));
        // The first error is too long ago.
        fail(&load, at(31));
        assert!(load.is_available(at(31)));
        fail(&load, at(32));
        assert!(!load.is_available(at(41)));
        assert!(load.is_available(at(42)), "half open");
        // One call, however long it takes; another only after a pause.
        assert!(load.begin(at(42), &POLICY));
        assert!(!load.is_available(at(51)));
        assert!(load.is_available(at(52)));
        load.end(true);
        assert!(load.is_available(at(43)));
        assert_eq!(load.in_flight(), 0);
        // It begins at 0 again.
        fail(&load, at(44));
        assert!(load.is_available(at(44)));
    }

    #[test]
    fn a_trial_that_fails_leaves_the_instance_out_for_another_pause() {
        let (load, start) = (Load::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        fail(&load, at(0));
        fail(&load, at(0));
        fail(&load, at(100));
        assert!(!load.is_available(at(109)));
        assert!(load.is_available(at(110)));
        // A call from before it went down says nothing about it.
        load.begin(at(100), &POLICY);
        load.note_error(at(101), &POLICY);
        load.end(false);
        assert!(!load.is_available(at(110)));
    }
}
