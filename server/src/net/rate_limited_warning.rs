//! Warnings that a peer can cause as often as it likes: they are summed up.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::net::flow::limits::WARNING_PERIOD;

/// A warning that may be repeated.
#[derive(Debug, Default)]
pub(crate) struct RateLimitedWarning(Mutex<(Option<Instant>, u64)>);

impl RateLimitedWarning {
    /// Counts one at a time. Returns how many the line that is due now stands for, if one is.
    pub(crate) fn count(&self, now: Instant) -> Option<u64> {
        // Nothing panics while it holds the lock.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, count) = &mut *state;
        *count += 1;
        if last.is_some_and(|last| now.saturating_duration_since(last) < WARNING_PERIOD) {
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_a_second_stands_for_all_since_the_one_before() {
        let (warning, start) = (RateLimitedWarning::default(), Instant::now());
        let lines: Vec<_> = [0, 1, 400, 999, 1_000, 1_001, 5_000]
            .map(|ms| warning.count(start + Duration::from_millis(ms)))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(lines, [1, 4, 2]);
    }
}
