//! Doubles as Java prints them, which is what scrapers of Apache ZooKeeper have always read.

use std::fmt;

/// A number in the form of `Collector.doubleToGoString`.
pub(crate) struct JavaDouble(pub(crate) f64);

impl fmt::Display for JavaDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        let size = value.abs();
        if value.is_nan() {
            f.write_str("NaN")
        } else if value.is_infinite() {
            f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
        } else if value == 0.0 || (1e-3..1e7).contains(&size) {
            write!(f, "{value:?}")
        } else {
            let text = format!("{value:E}");
            match text.split_once('E') {
                // Java always has a digit after the point.
                Some((digits, exponent)) if !digits.contains('.') => write!(f, "{digits}.0E{exponent}"),
                _ => f.write_str(&text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_java_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-1.0, "-1.0"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (1e-5, "1.0E-5"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (44_524_688.0, "4.4524688E7"),
            (1_795_406_709.953, "1.795406709953E9"),
            (-12_345_678.9, "-1.23456789E7"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(JavaDouble(value).to_string(), text);
        }
    }
}
