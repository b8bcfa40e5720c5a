//! [`RateLimiter`]: one call in a time (`RateLimiter` of Apache).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Allows one call in a window, which begins with the first call after the one before has run out. Refused calls do not extend it.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval: Duration,
    begun: Mutex<Option<Instant>>,
}

impl RateLimiter {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, begun: Mutex::new(None) }
    }

    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// In how long the next call is allowed, in whole seconds if that is long.
    pub(super) fn wait(&self) -> Duration {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = begun.map_or(Duration::ZERO, |begun| self.interval.saturating_sub(begun.elapsed()));
        Duration::from_secs(wait.as_secs() + 1).min(self.interval)
    }

    /// Whether a call is allowed now. It then counts, whatever becomes of it.
    pub(super) fn allows(&self) -> bool {
        let now = Instant::now();
        // Nothing panics while it holds the lock.
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = begun.is_none_or(|begun| now - begun >= self.interval);
        if is_over {
            *begun = Some(now);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_call_in_a_window_is_allowed_and_refused_ones_do_not_extend_it() {
        let limiter = RateLimiter::new(Duration::from_secs(10));
        let mut allowed = Vec::new();
        for second in 0..25 {
            if limiter.allows() {
                allowed.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(allowed, [0, 10, 20]);
        let limiter = RateLimiter::new(Duration::ZERO);
        assert!(limiter.allows() && limiter.allows());
    }
}
