//! Durations on the command line.

use std::time::Duration;

/// The longest duration that fits a Java `int` of milliseconds, which protocol and configuration use.
pub(crate) const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// Parses `500ms`, `2s` or `1h 30m`, and `0`. A number without a unit is invalid: in a `zoo.cfg` it means milliseconds, but
/// on a command line 2 may mean seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration.subsec_nanos() % 1_000_000 == 0 => Ok(duration),
        _ => Err("must be whole milliseconds with a unit, such as 500ms, 2s or 1h 30m".to_owned()),
    }
}

/// Parses a duration that is not zero and fits a Java `int` of milliseconds.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be at least 1ms".to_owned()),
        longer if longer > LONGEST => Err("must be at most 2147483647ms, which is 24 days".to_owned()),
        interval => Ok(interval),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_and_zero_needs_none() {
        let read = ["500ms", "2s", "5m", "1h", "1d", "0"].map(|text| parse(text).unwrap().as_millis());
        assert_eq!(read, [500, 2_000, 300_000, 3_600_000, 86_400_000, 0]);
    }

    #[test]
    fn a_missing_unit_and_parts_of_a_millisecond_are_rejected() {
        for text in
            ["", "2", "s", "2S", "-1", "2s3", "1us", "1.5ms", "99999999999999999999", "18446744073709551615d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(interval("0s").is_err());
        assert!(interval("25d").is_err());
        assert_eq!(interval("2147483647ms"), Ok(LONGEST));
    }
}
