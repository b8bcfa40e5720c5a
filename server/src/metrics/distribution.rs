//! [`Distribution`]: values that were recorded, with the quantiles of the last ten minutes.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::snapshot::{Quantiles, SummaryValue};

/// Quantiles are of this many windows of this length, like those of simpleclient, which Apache ZooKeeper uses.
const WINDOWS: usize = 5;
const WINDOW: Duration = Duration::from_secs(120);

/// When the windows move on.
#[derive(Debug, Clone)]
pub(super) struct WindowTimer {
    next: Instant,
}

impl WindowTimer {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now + WINDOW }
    }

    /// How many windows have ended since the last call.
    pub(super) fn ended(&mut self, now: Instant) -> usize {
        if now < self.next {
            return 0;
        }
        let late = now - self.next;
        let ended = late.as_secs() / WINDOW.as_secs() + 1;
        self.next = now + WINDOW - Duration::from_nanos((late.as_nanos() % WINDOW.as_nanos()) as u64);
        usize::try_from(ended).unwrap_or(WINDOWS)
    }
}

/// Values of one kind. Nothing is locked or shared: the owner records in its own turn.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    current: Histogram<u32>,
    /// Windows that have ended, the latest first.
    ended: [Option<Arc<Histogram<u32>>>; WINDOWS - 1],
    digits: u8,
}

fn histogram(digits: u8) -> Histogram<u32> {
    // It grows with the values, and fails only for more than five digits.
    Histogram::new(digits).expect("a number of digits within the bounds")
}

impl Distribution {
    /// Quantiles are right to within a hundredth.
    pub(super) fn new() -> Self {
        Self::with_digits(2)
    }

    /// Quantiles are right to within a tenth, for which a tenth of the memory is needed.
    pub(super) fn coarse() -> Self {
        Self::with_digits(1)
    }

    fn with_digits(digits: u8) -> Self {
        let current = histogram(digits);
        Self { count: 0, sum: 0, min: 0, max: 0, current, ended: Default::default(), digits }
    }

    /// Records a value as often as it occurred.
    pub(super) fn record(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        // It grows, so that no value is out of its range.
        let _ = self.current.record_n(value, u32::try_from(times).unwrap_or(u32::MAX));
    }

    /// Records a time, in microseconds.
    pub(super) fn record_time(&mut self, time: Duration, times: u64) {
        self.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), times);
    }

    /// Notes that windows have ended.
    pub(super) fn move_on(&mut self, windows: usize) {
        for _ in 0..windows.min(WINDOWS) {
            self.ended.rotate_right(1);
            self.ended[0] = None;
            if !self.current.is_empty() {
                let ended = mem::replace(&mut self.current, histogram(self.digits));
                self.ended[0] = Some(Arc::new(ended));
            }
        }
    }

    /// What was recorded, in units of as many values.
    #[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
    pub(super) fn value(&self, unit: f64) -> SummaryValue {
        let mut all = self.current.clone();
        for ended in self.ended.iter().flatten() {
            // It grows as well.
            let _ = all.add(&**ended);
        }
        let scaled = |value: u64| value as f64 / unit;
        let quantile = |of| scaled(all.median_equivalent(all.value_at_quantile(of)).min(self.max));
        let quantiles = (!all.is_empty()).then(|| Quantiles {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
        });
        let [sum, min, max] = [self.sum, self.min, self.max].map(scaled);
        SummaryValue { count: self.count, sum, min, max, quantiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_ten_minutes_and_the_rest_is_for_ever() {
        let start = Instant::now();
        let (mut timer, mut values) = (WindowTimer::new(start), Distribution::new());
        let at = |seconds| start + Duration::from_secs(seconds);
        values.record(1_000, 99);
        for (now, median) in [(0, Some(1_000)), (119, Some(1_000)), (599, Some(1_000)), (600, None)] {
            values.move_on(timer.ended(at(now)));
            let value = values.value(1.0);
            let close =
                |of: Quantiles, median: i32| (of.p50 - f64::from(median)).abs() <= f64::from(median) / 100.0;
            assert_eq!(value.quantiles.is_some(), median.is_some(), "after {now} s");
            assert!(
                value.quantiles.zip(median).is_none_or(|(of, median)| close(of, median)),
                "after {now} s"
            );
            assert_eq!((value.count, value.sum, value.min, value.max), (99, 99_000.0, 1_000.0, 1_000.0));
        }
        // One that comes late does not make later windows begin late.
        values.record(5, 1);
        values.move_on(timer.ended(at(10_000)));
        assert_eq!(values.value(1.0).quantiles, None);
        assert_eq!(timer.ended(at(10_079)), 0);
        assert_eq!(timer.ended(at(10_080)), 1);
    }

    #[test]
    fn a_quantile_is_within_a_hundredth_of_a_value_that_was_recorded() {
        let mut values = Distribution::new();
        (1..=100_000).for_each(|value| values.record(value, 1));
        let of = values.value(1_000.0).quantiles.expect("values");
        for (quantile, expected) in
            [(of.p50, 50.0), (of.p90, 90.0), (of.p95, 95.0), (of.p99, 99.0), (of.p999, 99.9)]
        {
            assert!((quantile - expected).abs() <= expected / 100.0, "{quantile} for {expected}");
        }
        let mut one = Distribution::coarse();
        one.record(u64::MAX, 1);
        let (median, max) = (one.value(1.0).quantiles.expect("a value").p50, one.value(1.0).max);
        assert!(median <= max && median >= 0.9 * max, "{median} for {max}");
    }

    #[test]
    fn small_numbers_are_exact() {
        let mut values = Distribution::new();
        (0..=200).for_each(|value| values.record(value, 1));
        assert_eq!(values.value(1.0).quantiles.expect("values").p50, 100.0);
    }
}
