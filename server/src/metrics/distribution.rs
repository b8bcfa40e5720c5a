//! [`Distribution`]: values that were recorded, with the quantiles of the last ten minutes.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

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
    /// The latest value and how often it occurred in a row, which is not in the rest yet. Most values are those before them.
    run: (u64, u64),
    current: Buckets,
    /// Windows that have ended, the latest first.
    ended: [Option<Arc<Buckets>>; WINDOWS - 1],
}

/// How often values have occurred, by their leading bits: of each power of two there are as many buckets. With a histogram for all
/// purposes a request took 60 instructions more.
#[derive(Debug, Clone)]
struct Buckets {
    counts: Vec<u32>,
    /// The logarithm of the number of buckets of a power of two.
    bits: u32,
}

impl Buckets {
    fn new(bits: u32) -> Self {
        Self { counts: Vec::new(), bits }
    }

    #[inline]
    fn add(&mut self, value: u64, times: u64) {
        // Values of one bit more are exact.
        let shift = (value | 1).ilog2().saturating_sub(self.bits);
        #[allow(clippy::cast_possible_truncation, reason = "at most 64 powers of two")]
        let at = ((u64::from(shift) << self.bits) + (value >> shift)) as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
    }

    fn append(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// How many values there are.
    fn all(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The middle of the bucket that this part of the values does not exceed; `all` is how many there are.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank"
    )]
    fn quantile(&self, part: f64, all: u64) -> u64 {
        let rank = ((all as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        let at = at.unwrap_or(self.counts.len().saturating_sub(1)) as u64;
        let shift = (at >> self.bits).saturating_sub(1);
        ((at - (shift << self.bits)) << shift) + ((1 << shift) >> 1)
    }
}

/// Quantiles are right to within a hundredth.
impl Default for Distribution {
    fn default() -> Self {
        Self::with_bits(7)
    }
}

impl Distribution {
    /// Quantiles are right to within a tenth, for which a tenth of the memory is needed.
    pub(super) fn coarse() -> Self {
        Self::with_bits(3)
    }

    fn with_bits(bits: u32) -> Self {
        let current = Buckets::new(bits);
        Self { count: 0, sum: 0, min: u64::MAX, max: 0, run: (0, 0), current, ended: Default::default() }
    }

    /// Records a value as often as it occurred.
    #[inline]
    pub(super) fn record(&mut self, value: u64, times: u64) {
        if value != self.run.0 && times > 0 {
            self.end_run();
            self.run.0 = value;
        }
        self.run.1 += times;
    }

    /// Adds the latest value to the rest.
    fn end_run(&mut self) {
        let (value, times) = self.run;
        if times > 0 {
            self.run.1 = 0;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
            self.count += times;
            self.sum = self.sum.saturating_add(value.saturating_mul(times));
            self.current.add(value, times);
        }
    }

    /// Records a time, in microseconds.
    pub(super) fn record_time(&mut self, time: Duration, times: u64) {
        // Without a division of 128 bits.
        let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()));
        self.record(micros, times);
    }

    /// Notes that windows have ended.
    pub(super) fn move_on(&mut self, windows: usize) {
        self.end_run();
        for _ in 0..windows.min(WINDOWS) {
            self.ended.rotate_right(1);
            self.ended[0] = None;
            if !self.current.counts.is_empty() {
                let next = Buckets::new(self.current.bits);
                self.ended[0] = Some(Arc::new(mem::replace(&mut self.current, next)));
            }
        }
    }

    /// What was recorded, in units of as many values.
    #[allow(clippy::cast_precision_loss, reason = "Prometheus has doubles only")]
    pub(super) fn value(&self, unit: f64) -> SummaryValue {
        let mut of = self.clone();
        of.end_run();
        let mut recent = of.current;
        for ended in of.ended.iter().flatten() {
            recent.append(ended);
        }
        let all = recent.all();
        let min = of.min.min(of.max);
        let scaled = |value: u64| value as f64 / unit;
        let quantile = |part| scaled(recent.quantile(part, all).clamp(min, of.max));
        let quantiles = (all > 0).then(|| Quantiles {
            p50: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
        });
        let [sum, min, max] = [of.sum, min, of.max].map(scaled);
        SummaryValue { count: of.count, sum, min, max, quantiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_ten_minutes_and_the_rest_is_for_ever() {
        let start = Instant::now();
        let (mut timer, mut values) = (WindowTimer::new(start), Distribution::default());
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
    fn buckets_follow_each_other_without_a_gap() {
        for bits in [3, 7] {
            let place = |value| {
                let mut buckets = Buckets::new(bits);
                buckets.add(value, 1);
                buckets.counts.len() - 1
            };
            let mut last = 0;
            for value in 1..100_000 {
                let next = place(value);
                assert!(next == last || next == last + 1, "{value}");
                last = next;
            }
            assert!(place(u64::MAX) < 8 << 10);
        }
    }

    #[test]
    fn a_quantile_is_within_a_hundredth_of_a_value_that_was_recorded() {
        let mut values = Distribution::default();
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
        let mut values = Distribution::default();
        (0..=200).for_each(|value| values.record(value, 1));
        assert_eq!(values.value(1.0).quantiles.expect("values").p50, 100.0);
    }
}
