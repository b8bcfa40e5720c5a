//! Log lines that a peer can cause as often as it likes: they are summed up.

use std::sync::Mutex;

use tokio::time::Instant;

use crate::locked::locked;
use crate::net::flow::limits::LINE_PERIOD;

/// A line that may be repeated.
#[derive(Debug)]
pub(crate) struct RateLimitedLine {
    /// Lines a period.
    most: u32,
    state: Mutex<LinesOfPeriod>,
}

#[derive(Debug, Default)]
struct LinesOfPeriod {
    since: Option<Instant>,
    lines: u32,
    /// How often it was counted since the last line.
    count: u64,
}

/// One line a period.
impl Default for RateLimitedLine {
    fn default() -> Self {
        Self::with_lines(1)
    }
}

impl RateLimitedLine {
    /// At most this many lines a period.
    pub(crate) fn with_lines(most: u32) -> Self {
        Self { most, state: Mutex::default() }
    }

    /// Counts one at a time. Returns how many the line that is due now stands for, if one is.
    pub(crate) fn count(&self, now: Instant) -> Option<u64> {
        let mut state = locked(&self.state);
        state.count += 1;
        if state.since.is_none_or(|since| now.saturating_duration_since(since) >= LINE_PERIOD) {
            (state.since, state.lines) = (Some(now), 0);
        }
        if state.lines == self.most {
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.count))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_a_second_stands_for_all_since_the_one_before() {
        let (line, start) = (RateLimitedLine::default(), Instant::now());
        let lines: Vec<_> = [0, 1, 400, 999, 1_000, 1_001, 5_000]
            .map(|ms| line.count(start + Duration::from_millis(ms)))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(lines, [1, 4, 2]);
    }

    #[test]
    fn lines_past_the_most_of_a_period_are_summed_up_by_the_next_one() {
        let (line, start) = (RateLimitedLine::with_lines(3), Instant::now());
        let lines = [0, 1, 2, 3, 999, 1_000, 1_001].map(|ms| line.count(start + Duration::from_millis(ms)));
        assert_eq!(lines, [Some(1), Some(1), Some(1), None, None, Some(3), Some(1)]);
    }
}
