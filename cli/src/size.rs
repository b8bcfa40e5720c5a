//! Numbers of bytes on the command line and in reports.

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses `64MiB`, `1GiB`, `512KiB`, and `0`. A number without a unit is invalid: in a `zoo.cfg` it means KiB.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let parsed = match UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))) {
        Some((number, bytes)) => digits(number.trim_end()).and_then(|number| number.checked_mul(bytes)),
        None => (text == "0").then_some(0),
    };
    parsed
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| "must be 0 or a size with a unit, such as 512KiB, 64MiB or 4GiB".to_owned())
}

/// A number without a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Bytes with the largest unit that fits, such as `1.5 MiB`.
pub(crate) fn text(bytes: u64) -> String {
    match UNITS.iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*size);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_only_zero_needs_none() {
        let parsed = ["0", "1KiB", "64MiB", "4 GiB", "0KiB"].map(|text| parse(text).unwrap());
        assert_eq!(parsed, [0, 1 << 10, 64 << 20, 4 << 30, 0]);
        for text in ["", "64", "64M", "MiB", "-1KiB", "+1KiB", "1.5GiB", "64mib", "99999999999GiB"] {
            assert!(parse(text).unwrap_err().contains("such as 512KiB"), "{text}");
        }
    }

    #[test]
    fn reports_show_the_largest_unit_with_one_decimal() {
        let shown = [0, 1023, 1024, 67_108_880, (5 << 30) - 1, u64::MAX].map(text);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "64.0 MiB", "4.9 GiB", "17179869183.9 GiB"]);
    }
}
