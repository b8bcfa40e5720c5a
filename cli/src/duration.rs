//! Durations as people write them.

use std::time::Duration;

/// The longest time that fits where the protocol and the configuration have a Java `int` of milliseconds.
pub(crate) const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

/// Reads `500ms`, `2s`, `5m`, `1h` or `1d`, and `0`. Another number without a unit is refused: in a `zoo.cfg` it is of
/// milliseconds, and whoever writes 2 here may mean seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "" if number == "0" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis)) {
        Some(total) if millis > 0 => Ok(Duration::from_millis(total)),
        _ => Err("must be a number with ms, s, m, h or d behind it, such as 500ms or 2s".to_owned()),
    }
}

/// Reads a duration that is not zero and fits a Java `int` of milliseconds.
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
    fn anything_else_is_refused() {
        for text in
            ["", "2", "s", "2 s", "2S", "-1", "1.5s", "2s3", "99999999999999999999", "18446744073709551615d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(interval("0s").is_err());
        assert!(interval("25d").is_err());
        assert_eq!(interval("2147483647ms"), Ok(LONGEST));
    }
}
